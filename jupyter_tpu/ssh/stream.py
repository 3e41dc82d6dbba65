"""A command on a host whose input and output are streams, for data of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ..errors import Reason, TPUError
from .login_shell import CommandStart
from .transport import ChannelTransport, SSHSession

#: Bytes of the command's error output that are kept.
_ERROR_BYTES = 2000

#: Bytes that are read at once at most; twice that waits here for a slow reader, and the window.
CHUNK_BYTES = 256 << 10


def decode_answer(line: bytes, errors: str, what: str, hint: str = "") -> dict[str, Any]:
    """The JSON object in the *line* with which a program of ours begins its output.

    Raises INTERNAL if there is none: *what* failed; why is the last line of its *errors*.
    """
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError):  # msgspec's own are ValueErrors
        why = errors.strip().rpartition("\n")[2] or "it ended without an answer"
        raise TPUError(f"{what} failed: {why}.", Reason.INTERNAL, hint) from None


class _Transport(ChannelTransport):
    """As asyncio's own: what has waited comes after `resume_reading` has returned. A reader that
    wants more than it buffers resumes first, and begins to wait then.
    """

    def resume_reading(self) -> None:
        asyncio.get_running_loop().call_soon(super().resume_reading)


class CommandStream:
    """Made by `SSHConnection.stream`. Memory stays flat however slow either side is.

    lost: makes the error for a lost connection, which all methods raise then (UNREACHABLE).
    ended: called when its channel has ended.
    """

    def __init__(
        self,
        lost: Callable[[], TPUError],
        start: CommandStart,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._lost = lost
        self._ended = ended
        self._start = start
        self._errors = bytearray()
        self._reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport = _Transport(protocol)
        loop = asyncio.get_running_loop()
        self._writer = asyncio.StreamWriter(self._transport, protocol, self._reader, loop)

    @property
    def errors(self) -> str:
        """The beginning of what the command has written to its standard error."""
        return self._errors.decode("utf-8", "replace")

    def session(self) -> Any:
        """The channel's session, for asyncssh's `create_session`."""
        return _CommandSession(self._transport, self._errors, self._start, self._ended)

    @property
    def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Its output and its input, as of a socket."""
        return self._reader, self._writer

    @property
    def broken(self) -> bool:
        """Whether its channel has ended with an error."""
        return self._transport.broken is not None

    async def read(self) -> bytes:
        """What there is of its output, up to `CHUNK_BYTES` bytes; b"" at its end."""
        return await self._read(self._reader.read(CHUNK_BYTES))

    async def read_line(self) -> bytes:
        """A line of its output with its end; less at the output's end.

        Raises INTERNAL if it is longer than `CHUNK_BYTES`.
        """
        return await self._read(self._reader.readline())

    async def read_exactly(self, size: int) -> bytes:
        """*size* bytes of its output; less at the output's end."""
        try:
            return await self._read(self._reader.readexactly(size))
        except asyncio.IncompleteReadError as error:
            return error.partial

    async def write(self, data: bytes) -> bool:
        """Writes to its input; False if the command reads no more."""
        from .library import asyncssh

        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionResetError:
            return False
        except (asyncssh.Error, OSError) as error:
            raise self._lost() from error
        return not self._transport.is_closing()

    def close(self) -> None:
        """Ends its input and output, which a command should take as a reason to end."""
        self._writer.close()

    async def _read(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        from .library import asyncssh

        try:
            return await reading
        except (asyncssh.Error, OSError) as error:
            raise self._lost() from error
        except ValueError:  # of StreamReader.readline
            raise TPUError(
                f"A command on a host wrote a line of more than {CHUNK_BYTES >> 10} kB.",
                Reason.INTERNAL,
            ) from None


class _CommandSession(SSHSession):
    """Keeps error output apart, and what the login shell writes before the command away. What a
    command's end means, its output says.
    """

    def __init__(
        self,
        transport: ChannelTransport,
        errors: bytearray,
        start: CommandStart,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(transport)
        self._errors = errors
        self._start = start
        self._ended = ended

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is None:
            if data := self._start.output(data):
                super().data_received(data, datatype)
        else:
            self._errors += self._start.errors(data)[: _ERROR_BYTES - len(self._errors)]

    def eof_received(self) -> bool:
        self._start.ended()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._start.ended()
        self._ended()

    def exit_status_received(self, status: int) -> None:
        pass

    def exit_signal_received(self, *why: object) -> None:
        pass
