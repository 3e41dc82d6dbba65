"""Commands for hosts, and their results.

Arguments are quoted, never pasted into a shell. sshd passes only the variables in its AcceptEnv, so
a command's variables go through ``env``. They are visible in the host's list of processes: pass
secrets on standard input.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..errors import Reason, TPUError


class CompletedCommand(Struct, frozen=True, kw_only=True):
    """A command that has ended."""

    returncode: int  # negative: the number of the signal that ended it, as in subprocess
    stdout: str
    stderr: str


class CommandFailed(TPUError):
    """A command on a host failed (its status is not 0); ``completed`` has its output."""

    def __init__(
        self,
        message: str,
        reason: Reason = Reason.INTERNAL,
        hint: str = "",
        completed: CompletedCommand | None = None,
    ) -> None:
        super().__init__(message, reason, hint)
        self.completed = completed or CompletedCommand(returncode=-1, stdout="", stderr="")

    def __reduce__(self):
        return (type(self), (self.message, self.reason, self.hint, self.completed))


class NotListening(TPUError, ConnectionRefusedError):
    """Nothing listens at a socket on a host. It is an OSError, as for a local socket."""


def command_line(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> str:
    """The script for the host's sh; *cwd* may start with ``~/``.

    >>> command_line(["echo", "a b"], {"X": "1 2"}, "~/my work")
    "cd './my work' && exec env 'X=1 2' echo 'a b'"
    """
    if not argv:
        raise ValueError("a command needs at least its name")
    words = list(argv)
    if env:
        for name in env:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is not a valid name of a variable")
        words = ["env", *(f"{name}={value}" for name, value in env.items()), *words]
    line = "exec " + shlex.join(words)
    if cwd is not None:
        line = f"cd {shlex.quote(relative_to_home(cwd))} && {line}"
    return line


def relative_to_home(path: str) -> str:
    """*path* without a leading ``~``: a session starts in the home folder."""
    if path == "~":
        return "."
    return "./" + path[2:].lstrip("/") if path.startswith("~/") else path


def command_error(argv: Sequence[str], completed: CompletedCommand, where: str) -> CommandFailed:
    """The error for a command that did not return 0."""
    lines = [line for line in completed.stderr.splitlines() if line.strip()]
    last = lines[-1].strip()[:300] if lines else ""
    name = argv[0].rpartition("/")[2]
    if "No space left on device" in completed.stderr or "Disk quota exceeded" in completed.stderr:
        return CommandFailed(
            f"The disk of {where} is full ({last}).",
            Reason.DISK_FULL,
            "Delete files there. `df -h` and `du -sh ~/* ~/.cache` show what uses the space.",
            completed,
        )
    if completed.returncode < 0:
        message = f"{name} was ended by signal {-completed.returncode} on {where}"
    elif completed.returncode == 127:
        message = f"{name} was not found on {where}"
    else:
        message = f"{name} failed on {where} with status {completed.returncode}"
    message = f"{message}: {last}" if last else message
    return CommandFailed(message if message.endswith(".") else message + ".", completed=completed)
