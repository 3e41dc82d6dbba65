"""A local port that is forwarded to a port on a host, one SSH channel per connection.

asyncssh's own forwarder can't set the channel's window, and `transport` says what that costs. Bytes
go from socket to channel and back without a task in between. A slow reader slows the writer down:
each side pauses the other, so that memory stays flat. An end of file is passed on without ending
the other direction.

A program here that reads until the end must not take half of the data for all of it. So its socket
is set to end with a reset, whatever ends this process, until the host has sent all.

SSH compresses a whole connection or nothing of it, and decides when it is made. So what should be
compressed (`compression`) goes over another connection than the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

from ..errors import Reason, TPUError
from .compression import CompressionPolicy
from .listening import listen_error, listening_sockets
from .transport import ChannelTransport, OpenPort, share_window

#: Bytes that may wait for a program here before its channel is paused.
_HIGH_WATER = 1 << 20


class Forwarder:
    """Listens on a local port and forwards each connection to *port* of a host.

    Parameters
    ----------
    open_port: opens a channel to the host; may wait until the host can be reached.
    port: on the host.
    changed: called (often) when a connection came, went or failed.
    open_compressed: opens a channel whose bytes are compressed, for slow lines; None: never. It is
        not asked again after it opened one whose bytes are not.

    Attributes
    ----------
    connections, total: open now, and accepted so far.
    sent, received: bytes to and from the host, of all connections.
    problem: why the last connection could not be forwarded; None if it could.
    admit: asked before each connection is forwarded, and waited for; what it returns is the answer
        to a connection that is not. None: all are.
    compressed: the line is slow and the data shrink, so that new connections are compressed.
    """

    def __init__(
        self,
        open_port: OpenPort,
        port: int,
        changed: Callable[[], None],
        open_compressed: OpenPort | None = None,
    ) -> None:
        self.port = port
        self.local_port = 0
        self.connections = 0
        self.total = 0
        self.sent = 0
        self.received = 0
        self.problem: TPUError | None = None
        self.admit: Callable[[], Awaitable[bytes]] | None = None
        self._policies = CompressionPolicy(), CompressionPolicy()  # to and from the host
        self._clock = asyncio.get_running_loop().time
        self._open_port = open_port
        self._open_compressed = open_compressed
        self._changed = changed
        self._closed = False
        self._servers: list[asyncio.Server] = []
        self._pairs: set[_Pair] = set()
        self._opening: set[asyncio.Task[None]] = set()

    @property
    def listening(self) -> bool:
        return bool(self._servers)

    @property
    def compressed(self) -> bool:
        return self._open_compressed is not None and any(
            policy.should_compress(self._clock()) for policy in self._policies
        )

    async def listen(self, local_port: int, address: str = "127.0.0.1") -> int:
        """Starts listening; returns the port. *local_port* 0: any free one.

        With the default address IPv6's loopback is listened on too, where there is one: otherwise
        another program could have `localhost`. Raises what `listening_sockets` does.
        """
        sockets = listening_sockets(local_port, address)
        loop = asyncio.get_running_loop()
        try:
            for sock in sockets:
                self._servers.append(await loop.create_server(lambda: _Local(self), sock=sock))
        except OSError as error:
            self._stop_listening()
            for sock in sockets:
                sock.close()
            raise listen_error(error, local_port, address) from error
        if self._closed:  # meanwhile
            self._stop_listening()
            raise TPUError("The tunnel was closed.", Reason.CANCELLED)
        self.local_port = sockets[0].getsockname()[1]
        return self.local_port

    async def close(self) -> None:
        """Stops listening, and cuts open connections."""
        self._closed = True
        self._stop_listening()
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        for pair in list(self._pairs):
            pair.cut()
        await asyncio.gather(*opening, return_exceptions=True)

    def _stop_listening(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    # ---- called by the pairs -----------------------------------------------------------------

    def _accepted(self, local: _Local) -> None:
        pair = local.pair
        self._pairs.add(pair)
        self.connections += 1
        self.total += 1
        task = asyncio.get_running_loop().create_task(self._connect(pair), name=f"to {self.port}")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        self._changed()

    async def _connect(self, pair: _Pair) -> None:
        if self.admit is not None:
            try:
                answer = await self.admit()
            except BaseException:
                pair.cut()
                raise
            if answer:
                return pair.refuse(answer)
        open_port = self._open_port
        if self._open_compressed is not None and self.compressed:
            open_port, pair.compressed = self._open_compressed, True
        transport = ChannelTransport(_Remote(pair))
        window = share_window(self.connections)
        try:
            channel = await open_port(transport.session, self.port, window=window)
        except TPUError as error:
            self.problem = error
            pair.cut()
            self._changed()
        except BaseException:
            pair.cut()
            raise
        else:
            if pair.compressed and channel.get_extra_info("recv_compression") == "none":
                pair.compressed, self._open_compressed = False, None
            if self.problem is not None:
                self.problem = None
                self._changed()
            pair.begin()

    def _count(self, data: bytes, pair: _Pair, *, received: bool) -> None:
        if received:
            self.received += len(data)
        else:
            self.sent += len(data)
        self._policies[received].record(data, self._clock(), compressed=pair.compressed)

    def _ended(self, pair: _Pair) -> None:
        if pair in self._pairs:
            self._pairs.discard(pair)
            self.connections -= 1
            self._changed()


class _Pair:
    """A connection of a local program and the channel that carries it; either may be gone.

    complete: the host has sent all, and its end of file.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.local: asyncio.Transport | None = None
        self.remote: asyncio.Transport | None = None
        self.compressed = False
        self.complete = False

    def begin(self) -> None:
        """The channel is open: reading from the program may begin."""
        if self.local is not None:
            self.local.resume_reading()
        elif self.remote is not None:
            self.remote.abort()  # the program did not wait

    def refuse(self, answer: bytes) -> None:
        """Sends the program an answer of our own. What it has sent is read, or the system would
        end the connection with a reset, and the answer be lost.
        """
        if self.local is not None:
            self.complete = True
            self.local.resume_reading()
            self.local.write(answer)
            self.local.write_eof()

    def cut(self) -> None:
        """Ends both, the program's side with a reset."""
        self.complete = False  # what still waits to be written is dropped
        local, self.local = self.local, None
        if local is not None:
            local.abort()
        remote, self.remote = self.remote, None
        if remote is not None:
            remote.abort()
        self.forwarder._ended(self)


def _end_with_reset(transport: asyncio.BaseTransport, reset: bool) -> None:
    """How the system ends the connection when the socket is closed, also with its process."""
    linger = struct.pack("ii", reset, 0)
    with contextlib.suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


class _Local(asyncio.Protocol):
    """The program's side of a pair."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._transport: asyncio.Transport
        self.pair = _Pair(forwarder)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        _end_with_reset(transport, True)
        self.pair.local = self._transport = transport
        self._forwarder._accepted(self)

    def data_received(self, data: bytes) -> None:
        if self.pair.remote is not None:
            self._forwarder._count(data, self.pair, received=False)
            self.pair.remote.write(data)

    def eof_received(self) -> bool:
        if self.pair.remote is None:
            return False
        self.pair.remote.write_eof()
        return True  # the answer may still be coming

    def pause_writing(self) -> None:
        if self.pair.remote is not None:
            self.pair.remote.pause_reading()

    def resume_writing(self) -> None:
        if self.pair.remote is not None:
            self.pair.remote.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self.pair.complete:  # asyncio has written all, and closes the socket now
            _end_with_reset(self._transport, False)
        self.pair.local = None
        remote, self.pair.remote = self.pair.remote, None
        if remote is not None:
            remote.abort()
        self._forwarder._ended(self.pair)


class _Remote(asyncio.Protocol):
    """The host's side of a pair."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._pair.remote = transport

    def data_received(self, data: bytes) -> None:
        local = self._pair.local
        if local is not None and not local.is_closing():  # asyncio warns of each write after that
            self._pair.forwarder._count(data, self._pair, received=True)
            local.write(data)

    def eof_received(self) -> bool:
        self._pair.complete = True
        local = self._pair.local
        if local is not None and local.can_write_eof():
            with contextlib.suppress(OSError):
                local.write_eof()
        return True  # the program may still be sending

    def pause_writing(self) -> None:
        local = self._pair.local
        if local is not None and not local.is_closing():
            local.pause_reading()

    def resume_writing(self) -> None:
        local = self._pair.local
        if local is not None and not local.is_closing():
            local.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.remote = None
        if exc is not None or not self._pair.complete:
            self._pair.cut()
        elif self._pair.local is not None:
            self._pair.local.close()  # after what is still to be written
