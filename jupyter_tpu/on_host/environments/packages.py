"""The packages of an environment: listed, added, removed, made the same on all hosts.

What was asked for is kept in the environment on host 0, in `REQUESTED`, whoever asked: a
connection, the panel, or ``%pip install`` in a cell. Its *revision* grows with each change, so that
a client sees whether something has changed since it looked.
"""

import contextlib
import csv
import glob
import json
import os
import re
import shutil
import tempfile

from ..calls.paths import MARKER, environment_dir, exclusive_lock, private_dir, write_file
from ..calls.processes import run
from ..calls.protocol import HostError, emit
from . import indexes
from .uv import index_url, uv_environment, uv_error

REQUESTED = "jupyter-tpu-packages.json"
#: What kernels on TPUs need, without what that needs (`required`). Where a change touches these,
#: the environment is verified again.
REQUIRED = ("jax", "jaxlib", "torch-tpu", "libtpu", "ipykernel", "pyzmq")
#: So many changes are kept for running kernels, which look after each cell.
KEPT_CHANGES = 20


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement):
    """The normalized name in "Flax[all]>=0.8" or "flax @ git+https://…"; "" of a plain URL."""
    match = re.match(r"\s*([A-Za-z0-9][-A-Za-z0-9._]*)\s*($|[\[<>=!~;@ ])", requirement)
    return normalized(match.group(1)) if match else ""


def merge(first, second):
    """The requirements *first* and *second*, which replaces those of the same packages.

    Several of one package in *second* are for different markers, and stay.
    """
    new = {name_of(requirement) or requirement for requirement in second}
    kept = [each for each in first if (name_of(each) or each) not in new]
    return list(dict.fromkeys([*kept, *second]))


def requested(path):
    """{"revision", "packages", "changes", "indexes"} of the environment at *path*.

    indexes: {name: [version, index]} of what is installed from an index of its own.
    """
    recorded = {"revision": 0, "packages": [], "changes": [], "indexes": {}}
    with contextlib.suppress(OSError, ValueError), open(os.path.join(path, REQUESTED)) as file:
        recorded.update(json.load(file))
    return recorded


def record(path, added=(), removed=(), modules=None, installed_from=None):
    """Saves that packages of some names were removed, and then requirements added.

    modules: {module: "numpy 2.1.0"} that a running kernel may have imported from what was replaced.
    installed_from: {name: index} of packages that were installed from an index of their own.
    """
    state = requested(path)
    gone = {*removed, *map(normalized, removed)}
    kept = [package for package in state["packages"] if (name_of(package) or package) not in gone]
    revision = state["revision"] + 1
    changes = [*state["changes"], {"revision": revision, "modules": modules or {}}]
    versions = {name: each.version for name, each in distributions(path).items()}
    known = {name: [versions.get(name), url] for name, url in (installed_from or {}).items()}
    known = {**state["indexes"], **known}
    new = {
        "revision": revision,
        "packages": merge(kept, [requirement.strip() for requirement in added]),
        "changes": changes[-KEPT_CHANGES:],
        "indexes": {n: known[n] for n in known if known[n][0] and known[n][0] == versions.get(n)},
    }
    write_file(os.path.join(path, REQUESTED), json.dumps(new))
    return summary(path)


def summary(path):
    """What clients keep of it."""
    state = requested(path)
    return {"revision": state["revision"], "packages": state["packages"]}


def site_packages(path):
    folders = glob.glob(os.path.join(glob.escape(path), "lib", "python3*", "site-packages"))
    if not folders:
        raise HostError("ENVIRONMENT", "The environment is incomplete.", "Connect again.")
    return folders[0]


def distributions(path):
    """{normalized name: importlib's distribution} of what is installed."""
    from importlib.metadata import distributions

    by_name = {}
    for distribution in distributions(path=[site_packages(path)]):
        name = distribution.metadata["Name"]
        if name:
            by_name[normalized(name)] = distribution
    return by_name


def required(there):
    """The names in `distributions` that kernels on TPUs need."""
    names, rest = set(), list(REQUIRED)
    while rest:
        name = rest.pop()
        if name in there and name not in names:
            names.add(name)
            needs = there[name].requires or ()
            rest += [name_of(need) for need in needs if not re.search(r"\bextra\s*==", need)]
    return names


def check_removable(there, names):
    """Raises HostError for the first of *names* that kernels on TPUs need."""
    needed = required(there)
    for name in names:
        if name in needed:
            raise HostError("INVALID", "%s can't be removed: kernels on TPUs need it." % name)


def top_modules(distribution):
    """The modules that can be imported from a distribution."""
    modules = set()
    for file in distribution.files or ():
        first = file.parts[0]
        if len(file.parts) > 1 and first.isidentifier():
            modules.add(first)
        elif len(file.parts) == 1 and first.endswith((".py", ".so")):
            modules.add(first.partition(".")[0])
    return modules


def drop_incomplete(path):
    """Forgets packages whose installation was cut off, by a full disk, say: uv would stop at them.

    Returns their names. Only those are checked that came after the last `record`.
    """
    recorded, incomplete = 0.0, []
    with contextlib.suppress(OSError):
        recorded = os.stat(os.path.join(path, REQUESTED)).st_mtime
    for folder in glob.glob(os.path.join(glob.escape(site_packages(path)), "*.dist-info")):
        if os.stat(folder).st_mtime >= recorded and not _is_complete(folder):
            shutil.rmtree(folder)
            name = normalized(os.path.basename(folder).partition("-")[0])
            emit(log="%s was not installed completely" % name)
            incomplete.append(name)
    return incomplete


def _is_complete(dist_info):
    """Whether all files are there that a package says it has."""
    try:
        with open(os.path.join(dist_info, "RECORD"), newline="") as file:
            paths = [row[0] for row in csv.reader(file) if row and not row[0].endswith(".pyc")]
    except OSError:
        return False
    paths.append(os.path.join(dist_info, "METADATA"))
    return all(os.path.lexists(os.path.join(dist_info, "..", path)) for path in paths)


class PackageChange:
    """What changes in the environment at *path* between its beginning and its end.

    incomplete: the names of packages that an earlier change has not installed completely.
    """

    def __init__(self, path, removing=()):
        self._path = path
        self.incomplete = drop_incomplete(path)
        before = distributions(path)
        self._versions = {name: distribution.version for name, distribution in before.items()}
        # A removed one has no list of its files any more.
        self._modules = {n: top_modules(before[n]) for n in removing if n in before}

    def end(self, added=(), removed=(), installed_from=None):
        """Records it; returns the summary. installed_from: see `record`."""
        drop_incomplete(self._path)
        modules, touched = {}, set()
        after = distributions(self._path)
        for name, version in self._versions.items():
            now = after.get(name)
            if now is None or now.version != version:
                touched.add(name)
                top_names = self._modules.get(name, ()) if now is None else top_modules(now)
                shown = "%s %s" % (name, now.version) if now else ""
                modules.update(dict.fromkeys(top_names, shown))
        if touched.intersection(REQUIRED):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._path, MARKER))
        return record(self._path, added, removed, modules, installed_from)


def list_packages(name):
    """[{"name", "version", "requested", "required"}] of an environment, sorted."""
    path = environment_dir(name)
    asked = {name_of(package) for package in requested(path)["packages"]}
    there = distributions(path)
    needed = required(there)
    return [
        {
            "name": distribution.metadata["Name"],
            "version": distribution.version,
            "requested": key in asked,
            "required": key in needed,
        }
        for key, distribution in sorted(there.items())
    ]


def change_packages(uv, name, add, remove):
    """Removes and adds packages; both happen or neither is recorded. Returns the summary."""
    path = environment_dir(name)
    with exclusive_lock(name):
        there = distributions(path)
        names = [normalized(package) for package in remove]
        for package in names:
            if package not in there:
                raise HostError("INVALID", "Package %s is not installed." % package)
        check_removable(there, names)
        change = PackageChange(path, names)
        given = set(map(name_of, add))
        install = [
            *(requirement for requirement in change.incomplete if requirement not in given),
            *add,
        ]
        if install:
            uv_pip(uv, path, "install", input="\n".join([*install, ""]))
        if names:
            uv_pip(uv, path, "uninstall", input="\n".join([*names, ""]))
        return change.end(add, names, own_indexes(add))


def own_indexes(requirements):
    """{name: index} of those *requirements* that say one."""
    pairs = map(indexes.split, requirements)
    return {name_of(requirement): index for requirement, index in pairs if index}


def lock_packages(uv, name):
    """What is installed on this host, for the others: {"lock": text, **summary}."""
    path = environment_dir(name)
    with exclusive_lock(name):
        lines = uv_pip(uv, path, "freeze", quiet=True)
        known = requested(path)["indexes"]
        lock = []
        for line in pins(lines):
            version, index = known.get(name_of(line), ("", ""))
            lock.append(indexes.noted(line, index if line.endswith("==%s" % version) else ""))
        for line in lines:
            if line.startswith("-e ") or " @ file:" in line:
                emit(log="%s is only on this host: it is a local folder" % line)
        return dict(summary(path), lock="\n".join([*lock, ""]))


def pins(lines):
    """The requirements that name one version or an address that other hosts reach, too."""
    return [line for line in lines if re.match(r"[\w.-]+(\[.*?\])?(==| @ (?!file:))", line)]


def sync_packages(uv, name, lock, packages):
    """Gives this host exactly what is in the *lock* of host 0, which *packages* asked for."""
    path = environment_dir(name)
    with exclusive_lock(name):
        change = PackageChange(path)
        uv_pip(uv, path, "sync", input=lock)
        old = [package for package in requested(path)["packages"] if package not in packages]
        change.end(packages, [name_of(package) or package for package in old])
    return {}


#: Before a file of requirements.
_FILE = {"install": ["-r"], "uninstall": ["-r"], "compile": [], "sync": []}


def uv_pip(uv, path, command, *arguments, input="", quiet=False, on_line=None):
    """The output of ``uv pip``; raises HostError where it fails. input: requirements."""
    python = os.path.join(path, "bin", "python")
    with tempfile.TemporaryDirectory(dir=private_dir("environments")) as work:
        files = ["-"] if command in _FILE else []
        lines = input.splitlines()
        project = indexes.as_project(lines, name_of)
        if project:
            files.append(os.path.join(work, "pyproject.toml"))
            write_file(files[-1], project)
        given = [word for file in files for word in (*_FILE[command], file)]
        env = uv_environment(lines)
        if project and not any(map(indexes.OPTIONS.match, lines)):
            # What such a package needs may be in no other index. The host's own comes first.
            others = dict.fromkeys(filter(None, (indexes.split(line)[1] for line in lines)))
            env["UV_INDEX"] = " ".join([*env.get("UV_INDEX", "").split(), index_url(), *others])
        status, printed = run(
            [uv, "pip", command, "--python", python, *given, *arguments],
            input=input,
            env=env,
            timeout=7200,
            on_line=None if quiet else on_line or (lambda line: emit(log=line)),
        )
    if status:
        raise uv_error("Installing packages", printed)
    return printed
