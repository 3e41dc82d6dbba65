"""A command line for sshd that starts the user's shell with clean variables, as kernels have them.

The variables of /etc/environment, /etc/profile, /etc/profile.d and the user's own login files are
read first, and then made clean. What the shell reads after that may change them again: ~/.bashrc,
~/.zshrc. On a host without Python 3 the variables are not cleaned. A kind of terminal that the host
does not know (`xterm-ghostty`, `xterm-kitty`, `alacritty`) becomes one that it does.
"""

from __future__ import annotations

import shlex

from ..on_host.packing import argument
from .login_shell import shell_line

#: A line of `sh`: a TERM that the host lacks becomes what such terminals are like. Programs such as
#: tmux, vim and less would refuse it.
KNOWN_TERMINAL = """if [ -n "$TERM" ] && command -v infocmp >/dev/null 2>&1 &&
  ! infocmp "$TERM" >/dev/null 2>&1; then
  export TERM=xterm-256color
fi"""

_PROGRAM = "ssh.clean_shell"
#: $1 is the program; $2 the user's command, if there is one.
_SCRIPT = f"""{KNOWN_TERMINAL}
shell=${{SHELL:-/bin/sh}}
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
    words = ["sh", "-c", _SCRIPT, "sh", argument(_PROGRAM)]
    return shell_line("exec " + shlex.join(words if command is None else [*words, command]))
