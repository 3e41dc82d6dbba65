"""A command line for sshd that starts the user's shell with clean variables, as kernels have them.

The variables of /etc/environment, /etc/profile, /etc/profile.d and the user's own login files are
read first, and then made clean. What the shell reads after that may change them again: ~/.bashrc,
~/.zshrc. A host without a Python 3 gets a shell as it is.
"""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from functools import cache
from importlib.resources import files

from ..agent import protocol
from ..agent.bundle import without_comments
from .login_shell import shell_line

#: Of the agent's protocol, in the order in which they import each other.
_MODULES = "chips", "process_env"
_PROGRAM = """
import os, sys, types
package = sys.modules["clean"] = types.ModuleType("clean")
package.__path__ = []
for name, source in SOURCES:
    module = sys.modules["clean." + name] = types.ModuleType("clean." + name)
    module.__package__ = "clean"
    exec(compile(source, name, "exec"), module.__dict__)
environment = module.login_environment()
shell = environment.get("SHELL") or "/bin/sh"
os.execve(shell, [shell] + ["-c"] * (len(sys.argv) - 1) + sys.argv[1:], environment)
"""
#: $1 is the program; $2 the user's command, if there is one.
_SCRIPT = """shell=${SHELL:-/bin/sh}
if ! python3 -I -c "" 2>/dev/null; then
  [ $# = 1 ] && exec "$shell" -l
  exec "$shell" -c "$2"
fi
[ $# = 2 ] && exec python3 -I -c "$1" "$2"
case $shell in */bash | */zsh) ;; *) SHELL=$shell; shell=sh ;; esac
exec "$shell" -lc 'exec python3 -I -c "$0"' "$1"
"""


def clean_shell(command: str | None = None) -> str:
    """The line for a login, or for one *command* of the shell."""
    words = ["sh", "-c", _SCRIPT, "sh", _program()]
    return shell_line("exec " + shlex.join(words if command is None else [*words, command]))


@cache
def _program() -> str:
    folder = files(protocol)
    sources = [
        (name, without_comments(folder.joinpath(f"{name}.py").read_text("utf-8")))
        for name in _MODULES
    ]
    text = f"SOURCES = {json.dumps(sources)}{_PROGRAM}"
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return f"import base64, zlib; exec(zlib.decompress(base64.b64decode('{packed}')))"
