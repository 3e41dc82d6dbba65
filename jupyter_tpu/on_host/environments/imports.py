"""Whether what was asked for can be imported: in the environment's own Python, in one process."""

import json
import re
import time

from ..calls.processes import run, text_of
from ..calls.protocol import emit
from ..in_environment import import_modules
from .packages import distributions, name_of

#: Seconds for all imports of one process. What is being imported then is named.
IMPORT_SECONDS = 150
#: So many parts of one package are imported, as `flax.nnx` is one of flax: of packages that build
#: on these, whose parts lean on other releases of them.
MOST_PARTS = 12
_CHANGING = {"jax", "jaxlib", "flax"}
#: Folders that wheels have beside or in their packages, for their authors.
_AUTHORS = re.compile(r"_|(tests?|testing|docs?|examples?|scripts?|benchmarks?|tools?|vendor)$")
_CPU = {"JAX_PLATFORMS": "cpu", "PJRT_DEVICE": "CPU"}
_MODULE = re.compile(r"(\w+)(\.(cpython|abi3|pypy)[\w-]*)?\.(py|so)$")


def failed_imports(path, python, asked, locked=()):
    """[{"package", "version", "module", "error", …}] of what can't be imported: see
    `import_modules.cause`.

    Parameters
    ----------
    path: of the environment.
    python: its Python with options, and the variables of its processes. JAX may not take the chips,
        whatever these say.
    asked: requirements.
    locked: more requirements, of which those are imported that no other package needs.
    """
    there = distributions(path)
    packages = wanted(there, asked, locked)
    modules = [(each, modules_of(there[each])) for each in packages]
    owner, roots, parts = {}, [], []
    for package, (own_roots, own_parts) in modules:
        owner.update(dict.fromkeys([*own_roots, *own_parts], package))
        roots += own_roots
        parts += own_parts
    failures = []
    rest = [[module, False] for module in roots] + [[module, True] for module in parts]
    while rest:
        failed, rest = _import(python, rest)
        failures += failed
    roots_failed = {failure["module"] for failure in failures}
    return [
        dict(failure, package=owner[module], version=there[owner[module]].version)
        for failure in failures
        for module in (failure["module"],)
        if not any(module.startswith(root + ".") for root in roots_failed)
    ]


def wanted(there, asked, locked):
    """The names of installed distributions that are to be imported."""
    names = [name_of(line) for line in asked]
    others = {name_of(line) for line in locked}
    if others:
        needed = {
            name_of(line)
            for each in there.values()
            for line in each.requires or ()
            if not re.search(r"\bextra\s*==", line)
        }
        names += sorted(others - needed)
    return [name for name in dict.fromkeys(names) if name in there]


def modules_of(distribution):
    """(the modules that one imports from a distribution, parts of these), both as dotted names, by
    the list of its files.
    """
    packages, modules = set(), set()
    for file in distribution.files or ():
        parts = file.parts
        name = _MODULE.match(parts[-1])
        if not name or not all(each.isidentifier() for each in parts[:-1]):
            continue
        if name.group(1) == "__init__":
            packages.add(parts[:-1])
        elif len(parts) == 1:
            modules.add((name.group(1),))
    packages.discard(())
    roots = {
        each for each in packages if not any(each[:n] in packages for n in range(1, len(each)))
    }
    roots |= modules
    public = {each for each in roots if not any(map(_AUTHORS.match, each))}
    own = name_of(distribution.metadata["Name"]).replace("-", "_")
    named = {each for each in public if "_".join(each).lower() == own}
    roots = named or public
    needs = {name_of(line) for line in distribution.requires or ()}
    parts = sorted(
        each
        for each in packages
        if needs & _CHANGING and each[:-1] in roots and not _AUTHORS.match(each[-1])
    )
    return (
        [".".join(each) for each in sorted(roots)],
        [".".join(each) for each in parts[:MOST_PARTS]],
    )


def _import(python, modules):
    """(failures, modules that are left where one of them has ended the process)."""
    failures, begun = [], []

    def on_line(line):
        if not line.startswith(import_modules.MARK):
            return
        said = json.loads(line[len(import_modules.MARK) :])
        if "begun" in said:
            begun.append(said["begun"])
            return
        failure = dict(said["failed"], module=said["module"])
        for traced in failure.pop("trace").splitlines():
            emit(log=traced)
        failures.append(failure)

    since = time.monotonic()
    command, variables = python
    arguments = [*command, "-c", text_of(import_modules), json.dumps(modules)]
    status, _ = run(arguments, env=dict(variables, **_CPU), timeout=IMPORT_SECONDS, on_line=on_line)
    if not status:
        return failures, []
    number = len(begun)
    if not number:
        raise RuntimeError("Python ended with status %d" % status)
    late = time.monotonic() - since >= IMPORT_SECONDS
    error = "the import takes longer than %d s" % IMPORT_SECONDS if late else (
        "Python ended with status %d" % status)  # fmt: skip
    failures.append({"module": begun[-1], "error": error})
    return failures, [] if late else modules[number:]
