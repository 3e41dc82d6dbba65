"""Commands for hosts, their input and output, and their results.

Arguments are quoted, never pasted into a shell. sshd passes only the variables in its AcceptEnv, so
a command's variables go through ``env``. They are visible in the host's list of processes: pass
secrets on standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import Reason, TPUError
from .login_shell import CommandStart

if TYPE_CHECKING:
    from asyncssh import SSHClientProcess, SSHReader, SSHWriter


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


#: Bytes of a command's output and errors, each: of all of it, or of one line if a callback gets its
#: lines. Of those so many are kept.
MAX_OUTPUT = 16 << 20
_TAIL_BYTES = 64 << 10


class TooMuchOutput(Exception):
    """A command wrote more than it may."""


async def exchange(
    process: SSHClientProcess[bytes],
    input: bytes,
    start: CommandStart,
    on_line: Callable[[str], None] | None,
    max_output: int,
) -> tuple[str, str]:
    """Sends *input*; returns all that the command writes to its output, and to its errors.

    The parameters are those of `SSHConnection.run`. What the login shell writes before the command
    is left out. Raises TooMuchOutput, and asyncssh's errors and OSError for a broken connection.
    """
    out, err, _ = await asyncio.gather(
        _read(process.stdout, start.output, on_line, max_output, start.ended),
        _read(process.stderr, start.errors, on_line, max_output),
        _feed(process.stdin, input, start),
    )
    return _text(out), _text(err)


async def _read(
    stream: SSHReader[bytes],
    skip: Callable[[bytes], bytes],
    on_line: Callable[[str], None] | None,
    limit: int,
    ended: Callable[[], None] = lambda: None,
) -> bytes:
    """All that *skip* leaves of *stream*. With *on_line*, which is called for each complete line,
    only its end.
    """
    kept = bytearray()
    rest = bytearray()
    while data := await stream.read(65536):
        data = skip(data)
        kept += data
        if on_line is not None:
            del kept[:-_TAIL_BYTES]
            rest += data
            if b"\n" in data:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    on_line(_text(line).rstrip("\r"))
        if max(len(kept), len(rest)) > limit:
            raise TooMuchOutput
    ended()
    if on_line is not None and rest:
        on_line(_text(rest).rstrip("\r"))
    return bytes(kept)


async def _feed(stream: SSHWriter[bytes], data: bytes, start: CommandStart) -> None:
    # A command that does not read its input is not an error; a lost connection shows elsewhere.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if not data:
            stream.write_eof()  # a shell that reads it learns that there is none
        if not await start.wait() or not data:
            return
        for begin in range(0, len(data), 262144):
            stream.write(data[begin : begin + 262144])
            await stream.drain()
        stream.write_eof()


def _text(data: bytes | bytearray) -> str:
    return bytes(data).decode("utf-8", "replace")
