"""Imports modules one after the other, in one process, and says which fail and why.

Each line of ours begins with `MARK` and is JSON: the module that is about to be imported, or what
failed. A module that ends the process is known by the last line.
"""

import importlib
import json
import os
import sys
import traceback

MARK = "jupyter-tpu-imports "


def main():
    sys.path[:] = [each for each in sys.path if each]
    # What modules print must not be mixed with our lines.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for module, is_part in json.loads(sys.argv[1]):
        say(output, begun=module)
        try:
            importlib.import_module(module)
        except BaseException as error:  # a module may also exit
            found = cause(error)
            # What a part of a package needs may be optional: it is not installed, or needs a
            # screen. That an installed package lacks what is expected of it is no option.
            if not is_part or "of" in found:
                say(output, module=module, failed=found)
    output.flush()
    os._exit(0)  # threads and handlers of what was imported have nothing to do any more


def say(output, **line):
    output.write("\n%s%s\n" % (MARK, json.dumps(line)))
    output.flush()


def cause(error):
    """{"error": text, "by": [distribution, version], "of": …, "missing": module} of what is known.

    by: whose code failed. of: another distribution, in which it missed something. missing: a
    module that is not installed.
    """
    text = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
    found = {"error": text, "trace": "".join(traceback.format_exception(
        type(error), error, error.__traceback__, limit=-4))[-4000:]}  # fmt: skip
    lacking, missing = lacks(error)
    if missing:
        found["missing"] = missing
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(
        error.__traceback__)]  # fmt: skip
    owners = [owner for owner in map(distribution, reversed(modules)) if owner]
    of = distribution(lacking)
    by = next((owner for owner in owners if owner != of), None)
    if by:
        found["by"] = by
        if of:
            found["of"] = of
    return found


def lacks(error):
    """(the installed module in which something is missing, a module that is not installed): the
    one that is not known is "".
    """
    name = getattr(error, "name", None) or ""
    if isinstance(error, ModuleNotFoundError):
        parent = name
        while "." in parent:
            parent = parent.rpartition(".")[0]
            if getattr(sys.modules.get(parent), "__file__", None):  # no namespace
                return parent, ""
        return "", name
    if isinstance(error, ImportError):
        return (name, "") if name in sys.modules else ("", "")
    place = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and isinstance(place, type(sys)):
        return place.__name__, ""
    return "", ""


def distribution(module):
    """[name, version] of the distribution that *module* is of; None for Python's own."""
    import importlib.metadata as metadata

    top = module.partition(".")[0]
    names = owners(metadata).get(top, [])
    if len(set(names)) > 1:  # a namespace, as google
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        names = [name for name in dict.fromkeys(names) if has(metadata, name, file)]
    return [names[0], metadata.version(names[0])] if names else None


_owners = {}  # type: ignore[var-annotated]


def owners(metadata):
    if not _owners and hasattr(metadata, "packages_distributions"):  # Python 3.10
        _owners.update(metadata.packages_distributions())
    return _owners


def has(metadata, name, file):
    return any(str(metadata.distribution(name).locate_file(each)) == file
               for each in metadata.files(name) or ())  # fmt: skip


if __name__ == "__main__":
    main()
