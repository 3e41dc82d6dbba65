"""The input and output of a command that runs to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from .login_shell import CommandStart

if TYPE_CHECKING:
    from asyncssh import SSHClientProcess, SSHReader, SSHWriter

#: Bytes of a command's output and errors, each: of all of it, or of one line if a callback gets its
#: lines. Of those so many are kept.
MAX_OUTPUT = 16 << 20
_TAIL = 64 << 10


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

    The parameters are those of `Connection.run`. What the login shell writes before the command is
    left out. Raises TooMuchOutput, and asyncssh's errors and OSError for a broken connection.
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
            del kept[:-_TAIL]
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
