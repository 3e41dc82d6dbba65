"""A shell on a host that survives a lost connection: tmux runs there, and ssh reconnects here.

The shell and all that runs in it belong to tmux's server on the host. ssh ends when the connection
is lost; it is started again until it gets through, and attaches to the same session.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..backoff import Backoff
from ..errors import InvalidInput, Reason, TPUError
from ..terminal.printing import note
from ..terminal.streams import write_plain

#: What ssh exits with if it, and not the shell, has failed.
SSH_FAILED_CODE = 255
#: Between two attempts to connect.
PAUSES = Backoff(1.0, 10.0)
#: Undoes what a full-screen program has set when its connection was lost: the second screen,
#: colours, the hidden cursor, reports of the mouse.
_RESET = "\x1b[?1049l\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1006l"

_NO_TMUX = (
    "tmux is not installed on this host, so this shell ends with the connection. "
    "To keep shells, install it there: sudo apt-get install tmux"
)
#: Makes a session of JupyterLab that no terminal shows any more the one of this terminal.
_ADOPT = """
old=$(tmux list-sessions -F '#{session_attached} #{session_name}' 2>/dev/null |
  sed -n 's/^0 \\(jupyter-[0-9a-f]*\\)$/\\1/p' | head -n 1)
[ -z "$old" ] || tmux rename-session -t "=$old" %(session)s 2>/dev/null
"""
_ATTACH = """
command -v tmux >/dev/null 2>&1 || {
  printf '%%s\\n' %(no_tmux)s
  exec "${SHELL:-/bin/sh}" -l
}
%(adopt)s
%(terminal)s
exec tmux -u new-session -A -s %(session)s%(options)s
"""
#: As in other terminals of JupyterLab: the wheel scrolls, and there is no line of tmux's own.
_LIKE_JUPYTERLAB = " \\; set-option status off \\; set-option mouse on"


def check_session(name: str) -> str:
    """The name of a session; raises INVALID for one that tmux would change."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,59}", name):
        raise InvalidInput(
            f"{name!r} is not the name of a session.", "Use letters, digits, - and _."
        )
    return name


def keep_shell(
    ssh: Sequence[str],
    destination: Sequence[str],
    session: str,
    check: Callable[[], object],
    *,
    jupyterlab: bool = False,
) -> int:
    """Shows a session of a host, and again when the connection was lost; returns ssh's exit code.

    Parameters
    ----------
    ssh, destination: the words of the command before and from the host's name on.
    check: called after an attempt to connect again that failed. Ends this by NOT_FOUND when there
        is no such TPU any more; another TPUError changes nothing.
    jupyterlab: the terminal is one of JupyterLab's, which takes a session that none shows.
    """
    # Jupyter ends a terminal by closing it, which a program ignores that `nohup` has started.
    signal.signal(signal.SIGHUP, _end)
    with tempfile.TemporaryDirectory(prefix="jupyter-tpu-") as folder:
        # ssh says nothing else about whether it was connected.
        connected = Path(folder, "connected")
        touch = f"touch {shlex.quote(str(connected))}".replace("%", "%%")
        # A connection of its own: over a shared one, OpenSSH runs no LocalCommand.
        options = ["-t", "-S", "none"]
        options += ["-o", "PermitLocalCommand yes", "-o", f"LocalCommand {touch}"]
        command = [*ssh, *options, *destination]
        code = subprocess.call([*command, _script(session, adopt=jupyterlab)])
        if not connected.exists():
            return code
        again = _script(session, jupyterlab=jupyterlab)
        pause = PAUSES.first
        while code == SSH_FAILED_CODE:
            write_plain(sys.stdout, _RESET)
            note(f"The connection was lost. Connecting again in {pause:.0f} s. Ctrl-C ends this.")
            time.sleep(pause)
            with contextlib.suppress(FileNotFoundError):
                connected.unlink()
            code = subprocess.call([*command, again])
            if connected.exists():
                pause = PAUSES.first
                continue
            pause = PAUSES.next(pause)
            try:
                check()
            except TPUError as error:
                if error.reason is Reason.NOT_FOUND:
                    raise
    return code


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)  # ends ssh, too, and deletes the folder


def _script(session: str, *, adopt: bool = False, jupyterlab: bool = False) -> str:
    """What the host's shell runs; *session* was checked."""
    from ..ssh.clean_shell import KNOWN_TERMINAL
    from ..ssh.login_shell import shell_line

    script = _ATTACH % {
        "session": session,
        "no_tmux": shlex.quote(_NO_TMUX),
        "terminal": KNOWN_TERMINAL,
        "adopt": _ADOPT % {"session": session} if adopt else "",
        "options": _LIKE_JUPYTERLAB if adopt or jupyterlab else "",
    }
    return shell_line(script)  # whatever the user's own shell is
