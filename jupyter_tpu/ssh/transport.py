"""An asyncio transport over one SSH channel, for protocols that expect a socket's.

asyncssh's default window of 2 MiB carries 22 MB/s at a round trip of 40 ms; 8 MiB carry 80
(measured with Debian's sshd). Memory stays flat however slow the protocol reads: see
:meth:`ChannelTransport.resume_reading`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncssh import SSHTCPChannel

#: What the channels of one port may have in flight together, and one alone at most and at least;
#: bytes. sshd's own CPU time triples at 16 MiB.
ALL_WINDOWS_BYTES = 64 << 20
WINDOW_BYTES = 8 << 20
LEAST_WINDOW = 512 << 10

#: Bytes that may wait for the host's window before the protocol is paused.
_HIGH_WATER = 256 << 10


def share_window(channels: int) -> int:
    """The window, in bytes, for one of so many channels."""
    return max(LEAST_WINDOW, min(WINDOW_BYTES, ALL_WINDOWS_BYTES // max(1, channels)))


class OpenPort(Protocol):
    """What opens a channel: `Link.open_bulk`, `SSHConnection.open_port`."""

    async def __call__(
        self, factory: Callable[[], Any], port: int, *, window: int
    ) -> SSHTCPChannel[bytes]: ...


class ChannelTransport(asyncio.Transport):
    """The transport of a protocol; the channel comes through :meth:`session`.

    Parameters
    ----------
    protocol: an `asyncio.Protocol`; it can be replaced (`set_protocol`).
    counted: called with the bytes that went to the host, and those that came from it.

    Attributes
    ----------
    broken: why the channel ended; None while it is open and after a normal end.
    """

    def __init__(
        self, protocol: asyncio.Protocol, counted: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        super().__init__()
        self.broken: Exception | None = None
        self._protocol = protocol
        self._counted = counted
        self._channel: SSHTCPChannel[bytes] | None = None
        self._paused = False
        self._flushing = False
        self._closing = False
        self._ended = False

    def session(self) -> SSHSession:
        """The channel's session, for `open_port`."""
        return SSHSession(self)

    # ---- asyncio's side ----

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing or self._channel is None or self._channel.is_closing()

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        self._paused = True
        if self._channel is not None and not self._flushing:
            self._channel.pause_reading()

    def resume_reading(self) -> None:
        """Hands over all that has waited, even if the protocol pauses again in between.

        asyncssh opens the whole window again as soon as it hands on one packet, whatever else it
        still keeps. If it were paused between two packets, a slow reader would make it keep
        everything that the host sends. This way it keeps two windows at most.
        """
        self._paused = False
        if self._channel is None or self._flushing:
            return
        self._flushing = True
        try:
            self._channel.resume_reading()
        finally:
            self._flushing = False
        if self._paused and self._channel is not None:
            self._channel.pause_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._channel is None or not data:
            return
        try:
            self._channel.write(data)
        except OSError as error:  # the channel has just been closed
            self._lost(error)
        else:
            self._counted(len(data), 0)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write_eof()

    def get_write_buffer_size(self) -> int:
        return self._channel.get_write_buffer_size() if self._channel is not None else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._channel is not None:
            self._channel.set_write_buffer_limits(high, low)

    def close(self) -> None:
        """Ends it after what is still to be written; then the protocol is told."""
        if not self._closing:
            self._closing = True
            if self._channel is not None:
                self._channel.close()
            asyncio.get_running_loop().call_soon(self._lost, None)

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            if self._channel is not None:
                self._channel.abort()
            asyncio.get_running_loop().call_soon(self._lost, None)

    # ---- the channel's side ----

    def _opened(self, channel: SSHTCPChannel[bytes]) -> None:
        self._channel = channel
        channel.set_write_buffer_limits(_HIGH_WATER)
        self._protocol.connection_made(self)

    def _received(self, data: bytes) -> None:
        if not self._closing:
            self._counted(0, len(data))
            self._protocol.data_received(data)

    def _end_of_file(self) -> None:
        if not self._closing and not self._protocol.eof_received():
            self.close()

    def _lost(self, error: Exception | None) -> None:
        """Tells the protocol, once."""
        self._closing = True
        if self._ended:
            return
        self._ended = True
        self.broken = error
        self._channel = None
        self._protocol.connection_lost(error)


class SSHSession:
    """The channel's session, whose methods asyncssh calls."""

    def __init__(self, transport: ChannelTransport) -> None:
        self._transport = transport

    def connection_made(self, channel: SSHTCPChannel[bytes]) -> None:
        self._transport._opened(channel)

    def session_started(self) -> None:
        pass

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._transport._received(data)

    def eof_received(self) -> bool:
        self._transport._end_of_file()
        return True  # the protocol decides whether the channel stays open

    def pause_writing(self) -> None:
        if not self._transport._ended:
            self._transport._protocol.pause_writing()

    def resume_writing(self) -> None:
        if not self._transport._ended:
            self._transport._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        # A lost connection ends its channels with an error; one that the host closed normally
        # ends them without.
        self._transport._lost(exc)
