"""Programs of ours that a host's own Python runs.

A program is a module with a function ``main``, and the modules of this package that it imports. All
are sent in one piece, and imported there by their names. Nothing is left on the host, and a package
of the same name that the host has is not used.

`COMMAND` reads a program from its standard input (:func:`program`); what follows is the program's
own input. ``__main__.program`` has it, for another process or host. Where the input is somebody
else's, a program is an argument (:func:`argument`).
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

from ..errors import Reason, TPUError
from ..on_host.agent.bundle import without_comments

NO_PYTHON = 86  # an exit status of ours: the shell found no Python 3.8 or newer

#: Finds a Python and becomes it, with the program $1 and further arguments.
SHELL = f"""
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 \
/usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3 python; do
  path=$(command -v "$name") || continue
  "$path" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' </dev/null >/dev/null 2>&1 ||
    continue
  exec "$path" -I -c "$@"
done
exit {NO_PYTHON}
"""
#: Runs *sources*, the texts of modules by their names, of which the first one has the ``main``. It
#: imports nothing that Python has not imported already.
_RUN = """
import sys
class Sources:
    def find_spec(self, name, path=None, target=None):
        package = any(each.startswith(name + ".") for each in sources)
        if package or name in sources:
            return type(sys.__spec__)(name, self, is_package=package)
    def create_module(self, spec):
        pass
    def exec_module(self, module):
        name = module.__name__
        exec(compile(sources.get(name, ""), name, "exec"), module.__dict__)
sys.meta_path.insert(0, Sources())
main = next(iter(sources))
__import__(main)
sys.modules[main].main()
"""
BOOT = f"""
# on_host: of jupyter-tpu
import json, sys, zlib
size = sys.stdin.buffer.readline()
program = size + sys.stdin.buffer.read(int(size))
sources = json.loads(zlib.decompress(program[len(size):]))
{_RUN}"""
#: Runs the program that it reads first; what follows is the program's own input.
COMMAND = ("sh", "-c", SHELL, "sh", BOOT)

_TOP = Path(__file__).parents[1]
#: A statement that imports from this package, and the names in it.
_IMPORT = re.compile(
    rf"^ *from (\.+[\w.]*|{_TOP.name}\.[\w.]+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE
)


#: The docstring of a module, or the first statement of a block; and what is said of a constant.
_DOCUMENTATION = re.compile(
    r'''(?:(\A|:\n)( *)"""((?:[^"\\]|"(?!"")|\\.)*)"""(?=\n))|(?m:^#: .*$)'''
)


def no_python() -> TPUError:
    """The error for a host whose shell ended with `NO_PYTHON`."""
    return TPUError(
        "The host has no Python 3.8 or newer.",
        Reason.NO_PYTHON,
        "Install it, for example with `sudo apt-get install python3`.",
    )


@cache
def program(main: str, level: int = 6) -> bytes:
    """What COMMAND reads first: the module *main*, such as "on_host.environments.main", and what it
    imports. level: of zlib; 0 is for what is compressed again.

    Documentation is left out: with it a program would not fit into the first packets of an idle
    line. This takes a fiftieth of the time of `without_comments`.
    """
    sources = {name: _DOCUMENTATION.sub(_blank, text) for name, text in _sources(main).items()}
    packed = zlib.compress(json.dumps(sources).encode(), level)
    return b"%d\n%b" % (len(packed), packed)


def _blank(documentation: re.Match[str]) -> str:
    """Lines keep their numbers, as in tracebacks."""
    before, indent, text = documentation.groups("")
    return f'{before}{indent}""' + "\n" * text.count("\n") if text else ""


@cache
def argument(main: str) -> str:
    """As :func:`program`, for ``python3 -c``. It is short: comments and docstrings are left out."""
    sources = {name: without_comments(text) for name, text in _sources(main).items()}
    packed = zlib.compress(f"sources = {sources!r}{_RUN}".encode(), 9)
    text = base64.b64encode(packed).decode()
    return f"import binascii, zlib; exec(zlib.decompress(binascii.a2b_base64({text!r})))"


def _sources(main: str) -> dict[str, str]:
    """The texts of modules by their full names, *main* first."""
    sources: dict[str, str] = {}

    def add(name: str) -> None:
        path = _TOP.parent.joinpath(*name.split(".")).with_suffix(".py")
        if name in sources or not path.is_file():
            return  # a package, which is empty on hosts; or the name of something in a module
        sources[name] = text = path.read_text("utf-8")
        for base, several, one in _IMPORT.findall(text):
            module = resolve_name(base, name.rpartition(".")[0])
            add(module)
            for submodule in re.findall(r"\w+", several or one):
                add(f"{module}.{submodule}")

    add(f"{_TOP.name}.{main}")
    return sources
