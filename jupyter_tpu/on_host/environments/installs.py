"""What ``pip install`` in a cell has asked for, and the indexes that it came from: what
`packages.record` keeps, so that other hosts and the next connection get the same.

What a file of uv's own kinds names (pyproject.toml, setup.py, pylock.toml), and which index has a
package, is what uv says.
"""

import contextlib
import json
import os
import re
import subprocess

from . import indexes
from .packages import distributions, name_of, normalized
from .uv import index_url

#: Options that say where packages come from, and what else uv needs to find them again.
_WHERE = (
    "-i", "-f", "--index", "--index-url", "--default-index", "--extra-index-url", "--find-links",
    "--no-index", "--torch-backend",
)  # fmt: skip
_FINDING = (
    "--index-strategy", "--keyring-provider", "--trusted-host", "--allow-insecure-host",
    "--config-file", "--no-config", "--cert", "--system-certs", "--native-tls", "--offline",
    "--directory", "--project", "--no-sources", "--cache-dir", "--no-build-isolation", "-C",
    "--config-setting", "--config-settings",
)  # fmt: skip
#: Options by which others than the newest versions are chosen: the chosen ones are recorded.
_CHOOSING = (
    "-c", "--constraint", "--constraints", "--override", "--overrides", "--pre", "--prerelease",
    "--resolution", "--exclude-newer", "--no-deps", "--no-dependencies",
)  # fmt: skip
#: Parts of a project.
_PARTS = ("--extra", "--all-extras", "--group")
_ARCHIVE = re.compile(r"\.(whl|zip|tar\.\w+|tgz)$")


class Install:
    """The *arguments* of one ``uv pip install`` or ``sync``, from `pip_arguments.read`.

    options: those that say where packages come from, also of its files.
    local: files and folders of this host that it names; those are not recorded.
    """

    def __init__(self, arguments, files=()):
        self.local = []
        self._requirements, self._projects, self.options, self._links = [], [], [], []
        self._finding = [
            word for each in arguments if each.option in _FINDING for word in each.given
        ]
        self._parts = [word for each in arguments if each.option in _PARTS for word in each.given]
        self._is_exact = any(each.option in _CHOOSING for each in arguments)
        for each in arguments:
            if each.option in ("-r", "--requirement", "--requirements"):
                self._add_file(each.value)
            elif each.option in ("-e", "--editable"):
                self.local.append(each.value)
            elif each.option in _WHERE:
                self._add_option(each.option, each.value)
            elif not each.option and each.value:
                self._add(each.value)
        for file in files:
            self._add_file(file)

    def _add(self, requirement):
        is_file = _ARCHIVE.search(requirement.partition(";")[0]) and "://" not in requirement
        is_local = is_file or re.search(r"(^|\+|@\s*)file:", requirement)
        if not is_local and (name_of(requirement) or "://" in requirement):
            self._requirements.append(requirement)
        else:
            self.local.append(requirement)

    def _add_file(self, path, above=()):
        """Adds what a file names; one that can't be read was uv's to refuse."""
        if path.endswith((".toml", ".py", ".cfg")):
            self._projects.append(path)
            return
        with contextlib.suppress(OSError), open(path, encoding="utf-8-sig", errors="replace") as f:
            text = re.sub(r"\\\r?\n", " ", f.read())
            for line in re.sub(r"(?m)(^|\s)#.*$", "", text).splitlines():
                self._add_line(line.strip(), path, (*above, os.path.realpath(path)))

    def _add_line(self, line, path, above):
        option = re.match(r"(-\w|--[\w-]+)[\s=]*(.*)", line)
        if not option:
            if line:
                self._add(re.split(r"\s--", line)[0].strip())  # without hashes
            return
        name, value = option.groups()
        if name in ("-r", "--requirement", "--requirements"):
            other = os.path.join(os.path.dirname(path), value)
            if os.path.realpath(other) not in above:
                self._add_file(other, above)
        elif name in ("-e", "--editable"):
            self.local.append(value)
        elif name in _WHERE:
            self._add_option(name, value)
        elif name in _CHOOSING:
            self._is_exact = True

    def _add_option(self, option, value):
        self.options += [option, *filter(None, [value])]
        if option in ("-f", "--find-links"):
            self._links.append(value)

    def recorded(self, uv, python, before, environment):
        """(requirements, {name: index}, what can't be told) of what is installed in *python*'s
        environment now.

        before: {name: version} that was there before. Indexes are those that are not the host's.
        """
        there = distributions(os.path.dirname(os.path.dirname(python)))
        new = {n: d.version for n, d in there.items() if before.get(n) != d.version}
        asked = [each for each in self._with_names(there) if name_of(each) in there]
        compile_ = [uv, "pip", "compile", "--python", python, "--no-deps", "--no-header"]
        compile_ += ["--no-annotate", "--no-strip-extras", *self._finding]
        pins = "".join("%s==%s\n" % pin for pin in new.items() if not _address(there[pin[0]]))
        found, unknown = {}, []
        if self.options or self._projects:
            # Its own versions: what was there before may be in none of these indexes.
            arguments = [*self.options, "--emit-index-annotation", "-"]
            projects = [file for file in self._projects if file.endswith("pyproject.toml")]
            lines, problem = _output([*compile_, *arguments, *projects], pins, environment)
            if problem:
                unknown.append("The package index of these packages is not recorded: " + problem)
            for line in indexes.folded(lines):
                requirement, index = indexes.split(line)
                if index in self._links:
                    unknown.append("%s is a page of links, so it is not recorded." % index)
                elif name_of(requirement) in new:
                    found[name_of(requirement)] = index
        unknown = [*dict.fromkeys(unknown)]
        for project in self._projects:
            arguments = [*self.options, *self._parts, "--constraint", "-", project]
            lines, problem = _output([*compile_, *arguments], pins, environment)
            if problem:
                unknown.append("What %s names is not recorded: %s" % (project, problem))
            for line in lines:
                self._add(re.split(r"\s+[;#]", line)[0].strip())
        names = {name_of(each) for each in asked}
        asked += [each for each in self._with_names(there) if name_of(each) not in names]
        own = {name: index for name, index in found.items() if not _is_default(index)}
        requirements = []
        for each in dict.fromkeys(asked):
            name = name_of(each)
            if name in there:
                exact = "%s==%s" % (re.split(r"\s*[<>=!~;@ ]", each)[0], there[name].version)
                text = exact if self._is_exact and not _address(there[name]) else each
                requirements.append(indexes.noted(text, own.get(name, "")))
        return requirements, own, unknown

    def _with_names(self, there):
        """The requirements; a plain address gets the name of what it installed."""
        urls = {_address(distribution): name for name, distribution in there.items()}
        named = []
        for requirement in self._requirements:
            url = re.sub(r"^\w+\+|[@#].*$", "", requirement)
            known = not name_of(requirement) and urls.get(url)
            named.append("%s @ %s" % (known, requirement) if known else requirement)
        return named


def removed_by(printed):
    """The names of packages that uv would remove and not replace, of what ``--dry-run`` printed."""
    changes = {"+": set(), "-": set()}  # type: ignore[var-annotated]
    for sign, name in re.findall(r"(?m)^\s*([+-]) ([\w.-]+)(?:==| @ )", printed):
        changes[sign].add(normalized(name))
    return changes["-"] - changes["+"]


def _address(distribution):
    """From which address or folder it was installed; "" if from an index."""
    text = distribution.read_text("direct_url.json")
    return json.loads(text)["url"] if text else ""


def _is_default(index):
    plain = re.sub(r"//[^/@]*@", "//", index_url())
    return not index.startswith("http") or index.rstrip("/") == plain.rstrip("/")


def _output(command, text, environment):
    """(lines, why it failed) of a command that gets *text*."""
    done = subprocess.run(
        command,
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    errors = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode:
        return [], re.sub(r"^error: ", "", errors.splitlines()[-1] if errors else "no reason")
    return done.stdout.decode("utf-8", "replace").splitlines(), ""
