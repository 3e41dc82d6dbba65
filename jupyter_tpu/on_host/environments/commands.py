"""``pip`` and ``uv`` in an environment: uv for this environment, recorded for all hosts.

`install_commands` puts them there, with these modules as a package of the environment: for cells
(``%pip``, ``!pip``, ``%uv pip``, ``!uv pip``), scripts (``python -m pip``) and shells.
"""

import os
import shlex
import subprocess
import sys

from ..calls import paths, processes, protocol
from ..calls.paths import environment_dir, exclusive_lock, write_file
from ..calls.processes import text_of
from . import indexes, installs, notebook, packages, pip_arguments
from . import uv as uv_program
from .installs import Install, removed_by
from .packages import PackageChange, check_removable, distributions, normalized, site_packages
from .pip_arguments import as_uv, read
from .uv import find_uv, uv_environment

#: This package's name in an environment.
PACKAGE = "jupyter_tpu_packages"
#: What it needs, of this module itself and of others.
_MODULES = (
    paths, processes, protocol, indexes, installs, notebook, packages, pip_arguments, uv_program,
    sys.modules[__name__],
)  # fmt: skip
#: As the launcher of kernels knows it.
_NOTEBOOK = "from .environments.notebook import load\n"
_COMMAND = """#!/bin/sh
exec %s -I -m %s.environments.commands %s "$@"
"""
_MODULE = '''"""`python -m {0}`: uv for this environment (jupyter-tpu)."""

if __name__ == "__main__":
    from {1}.environments.commands import main

    main("{0}")
'''
#: What pip and ``uv pip`` both have.
_COMMON = ("install", "uninstall", "list", "freeze", "show", "check")
_ONLY_UV = ("tree", "compile", "sync")
#: With these, nothing is changed in this environment.
_ELSEWHERE = (
    "-t",
    "--target",
    "--prefix",
    "-p",
    "--python",
    "--system",
    "--dry-run",
    "--help",
    "-h",
)


def install_commands(path):
    """Puts ``pip``, ``pip3`` and ``uv`` into the environment at *path*, unless they are there."""
    site, package = site_packages(path), {}
    for module in _MODULES:
        folder, name = module.__name__.split(".")[-2:]
        package["%s/__init__.py" % folder] = ""
        package["%s/%s.py" % (folder, name)] = text_of(module)
    package["__init__.py"] = '"""The pip and uv of jupyter-tpu."""\n'
    package["notebook.py"] = _NOTEBOOK
    for name, text in package.items():
        file = os.path.join(site, PACKAGE, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        write_file(file, text)
    for tool in ("pip", "uv"):
        if not os.path.isdir(os.path.join(site, tool)):  # the user installed the real one
            write_file(os.path.join(site, tool + ".py"), _MODULE.format(tool, PACKAGE))
            python = shlex.quote(os.path.join(path, "bin", "python"))
            for name in ("pip", "pip3") if tool == "pip" else (tool,):
                command = _COMMAND % (python, PACKAGE, tool)
                write_file(os.path.join(path, "bin", name), command, mode=0o755)


def main(tool=None):
    """The command: *tool* is "pip" or "uv"; by default the first argument."""
    arguments = sys.argv[1:]
    if tool is None:
        tool = arguments.pop(0)
    protocol.plain = True
    uv = find_uv()
    if not uv:
        sys.exit("uv is not on this host. Connect the TPU again, which installs it.")
    if tool == "uv":
        if arguments[:1] != ["pip"]:
            os.execve(uv, [uv, *arguments], dict(uv_environment(), VIRTUAL_ENV=sys.prefix))
        del arguments[0]
    try:
        sys.exit(_pip(uv, tool, arguments))
    except KeyboardInterrupt:
        sys.exit(130)
    except protocol.HostError as error:
        sys.exit("%s %s" % (error.payload[1], error.payload[2]))


def _pip(uv, tool, words):
    """Runs ``uv pip``; returns its exit code."""
    arguments, variables = read(words), {"VIRTUAL_ENV": sys.prefix}
    if tool == "pip":
        arguments = as_uv(arguments, variables)
        if [argument.option for argument in arguments] in (["--version"], ["-V"]):
            return subprocess.call([uv, "--version"])
    verb = next((each for each in arguments if not each.option), None)
    command = verb.value if verb else ""
    if tool == "pip" and command and command not in (*_COMMON, *_ONLY_UV, "help"):
        print(
            "pip in this environment is uv, which has no `%s`. To get the real one: "
            "pip install pip" % command,
            file=sys.stderr,
        )
        return 1
    line = [uv, "pip", *(word for argument in arguments for word in argument.given)]
    changes = command in ("install", "uninstall", "sync")
    name = os.path.basename(sys.prefix)
    if not changes or _elsewhere(arguments) or sys.prefix != environment_dir(name):
        options = [each.option for each in arguments]
        return subprocess.call(line, env={**uv_environment(options), **variables})
    with exclusive_lock(name):
        rest = [each for each in arguments if each is not verb]
        return _change(line, command, rest, variables)


def _change(line, command, arguments, variables):
    """Runs *line*, a command of uv with *arguments*, and records what it has changed."""
    before = distributions(sys.prefix)
    words = [each.value for each in arguments if not each.option]
    options = [each for each in arguments if each.option]
    install = Install(options, words) if command == "sync" else Install(arguments)
    environment = {**uv_environment(install.options), **variables}
    removing = [normalized(word) for word in words] if command == "uninstall" else []
    if command == "sync" or any(each.option == "--exact" for each in options):
        planned = subprocess.run(
            [*line, "--dry-run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        removing = sorted(removed_by(planned.stdout.decode("utf-8", "replace")))
    check_removable(before, removing)
    change = PackageChange(sys.prefix, removing)
    process = subprocess.Popen(line, env=environment)
    try:
        status = process.wait()
    except KeyboardInterrupt:  # uv has received it, too
        status = process.wait() or 130
    requirements, own_indexes, unknown = [], {}, []
    if command != "uninstall" and not status:
        requirements, own_indexes, unknown = install.recorded(
            line[0],
            os.path.join(sys.prefix, "bin", "python"),
            {name: each.version for name, each in before.items()},
            environment,
        )
    # Also after an error: some of it may have happened.
    change.end(requirements, removing if not status else [], own_indexes)
    for problem in unknown:
        print(problem)
    for requirement in install.local if command != "uninstall" and not status else ():
        print("%s is on this host only, so it is not recorded in the environment." % requirement)
    return status


def _elsewhere(arguments):
    return any(argument.option in _ELSEWHERE for argument in arguments)


if __name__ == "__main__":
    main()
