"""``pip`` and ``uv`` in an environment: uv for this environment, recorded for all hosts.

`install_commands` puts them there, with these modules as a package of the environment: for cells
(``%pip``, ``!pip``, ``%uv pip``, ``!uv pip``), scripts (``python -m pip``) and shells.
"""

import os
import re
import shlex
import subprocess
import sys

from . import (
    notebook,  # noqa: F401 - it is sent with this module
    protocol,
)
from .packages import (
    PackageChange,
    check_removable,
    distributions,
    name_of,
    normalized,
    site_packages,
)
from .paths import environment_dir, exclusive_lock, write_file
from .uv import find_uv, uv_environment

#: This package's name in an environment.
PACKAGE = "jupyter_tpu_packages"
_MODULES = ("protocol", "paths", "processes", "uv", "packages", "commands", "notebook")
_COMMAND = """#!/bin/sh
exec %s -I -m %s.commands %s "$@"
"""
_MODULE = '''"""`python -m {0}`: uv for this environment (jupyter-tpu)."""

if __name__ == "__main__":
    from {1}.commands import main

    main("{0}")
'''
#: What pip and ``uv pip`` both have.
_COMMON = ("install", "uninstall", "list", "freeze", "show", "check")
_ONLY_UV = ("tree", "compile", "sync")
#: Options of pip that mean nothing here, and those of them that have a value.
_IGNORED = ("--user", "--disable-pip-version-check", "--no-input", "-y", "--yes")
_IGNORED_WITH_VALUE = ("--root-user-action", "--progress-bar", "--timeout", "--retries")
#: Options with a value that are not packages.
_WITH_VALUE = re.findall(
    r"\S+",
    """-b -c -C -f -i -P --build-constraint --build-constraints --cache-dir --color --config-file
    --config-setting --config-settings --constraint --constraints --default-index --directory
    --excludes --exclude-newer --extra --extra-index-url --find-links --group --index --index-url
    --index-strategy --keyring-provider --link-mode --no-binary --no-build-isolation-package
    --no-build-package --only-binary --override --overrides --prerelease --project
    --python-platform --python-version --refresh-package --reinstall-package --resolution
    --torch-backend --trusted-host --allow-insecure-host --upgrade-package""",
)
#: With these, nothing is changed in this environment.
_ELSEWHERE = ("-t", "--target", "--prefix", "-p", "--python", "--system", "--dry-run", "--help")


def install_commands(path):
    """Puts ``pip``, ``pip3`` and ``uv`` into the environment at *path*, unless they are there."""
    site, sources = site_packages(path), sys.modules["__main__"].sources
    folder = os.path.join(site, PACKAGE)
    os.makedirs(folder, exist_ok=True)
    write_file(os.path.join(folder, "__init__.py"), '"""Of jupyter-tpu: pip and uv."""\n')
    for module in _MODULES:
        write_file(os.path.join(folder, module + ".py"), sources["%s.%s" % (__package__, module)])
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
    environment = dict(uv_environment(), VIRTUAL_ENV=sys.prefix)
    if tool == "uv":
        if arguments[:1] != ["pip"]:
            os.execve(uv, [uv, *arguments], environment)
        del arguments[0]
    try:
        sys.exit(_pip(uv, tool, arguments, environment))
    except KeyboardInterrupt:
        sys.exit(130)
    except protocol.HostError as error:
        sys.exit("%s %s" % (error.payload[1], error.payload[2]))


def _pip(uv, tool, arguments, environment):
    """Runs ``uv pip``; returns its exit code."""
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    if tool == "pip":
        arguments = _without_ignored(arguments)
        if arguments in (["--version"], ["-V"]):
            return subprocess.call([uv, "--version"], env=environment)
        if command and command not in (*_COMMON, *_ONLY_UV, "help"):
            print(
                "pip in this environment is uv, which has no `%s`. To get the real one: "
                "pip install pip" % command,
                file=sys.stderr,
            )
            return 1
    changes = command in ("install", "uninstall", "sync") and not _elsewhere(arguments)
    if not changes:
        return subprocess.call([uv, "pip", *arguments], env=environment)
    name = os.path.basename(sys.prefix)
    if sys.prefix != environment_dir(name):
        return subprocess.call([uv, "pip", *arguments], env=environment)
    with exclusive_lock(name):
        words, local = _requirements(arguments[arguments.index(command) + 1 :])
        removing = [normalized(word) for word in words] if command == "uninstall" else []
        check_removable(distributions(sys.prefix), removing)
        change = PackageChange(sys.prefix, removing)
        process = subprocess.Popen([uv, "pip", *arguments], env=environment)
        try:
            status = process.wait()
        except KeyboardInterrupt:  # uv has received it, too
            status = process.wait() or 130
        added = _with_names(words) if command == "install" and not status else []
        # Also after an error: some of it may have happened.
        change.end(added, removing if not status else [])
    for requirement in local if not status else ():
        print("%s is on this host only, so it is not recorded in the environment." % requirement)
    return status


def _without_ignored(arguments):
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in _IGNORED_WITH_VALUE:
            skip = True
        elif argument not in _IGNORED and argument.partition("=")[0] not in _IGNORED_WITH_VALUE:
            kept.append(argument)
    return kept


def _elsewhere(arguments):
    return any(argument.partition("=")[0] in _ELSEWHERE for argument in arguments)


def _requirements(arguments):
    """(requirements, local ones) of the arguments of ``install``; those of -r files, too."""
    requirements, local, rest = [], [], list(arguments)
    while rest:
        argument = rest.pop(0)
        option, _, value = argument.partition("=")
        if option in ("-r", "--requirement", "--requirements"):
            requirements += _lines(value or (rest.pop(0) if rest else ""))
        elif option in ("-e", "--editable"):
            local.append(value or (rest.pop(0) if rest else ""))
        elif argument in _WITH_VALUE:
            del rest[:1]
        elif argument.startswith("-"):
            continue
        elif re.match(r"[./~]|file:", argument) or os.path.exists(argument):
            local.append(argument)
        else:
            requirements.append(argument)
    return requirements, local


def _lines(path):
    """The requirements in a file; its options are only for this call."""
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in file]
    except OSError:
        return []
    return [line for line in lines if line and not line.startswith("-")]


def _with_names(requirements):
    """A plain URL gets the name of what it installed, so that it can be removed by that."""
    import json

    urls = {}
    if any("://" in requirement for requirement in requirements):
        for name, distribution in distributions(sys.prefix).items():
            text = distribution.read_text("direct_url.json")
            if text:
                urls[json.loads(text)["url"]] = name
    named = []
    for requirement in requirements:
        url = re.sub(r"^\w+\+|[@#].*$", "", requirement)
        known = not name_of(requirement) and urls.get(url)
        named.append("%s @ %s" % (known, requirement) if known else requirement)
    return named


if __name__ == "__main__":
    main()
