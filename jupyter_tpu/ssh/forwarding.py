"""A local port that leads to a port on a host: asyncio in front, one SSH channel per connection.

asyncssh's own forwarder has no say in the channel's window, and at 40 ms its 2 MiB carry 22 MB/s;
8 MiB carry 80 (facts measured on Debian's sshd). Bytes are handed from socket to channel and back
without a task in between. Whoever reads slowly slows the writer down: each side pauses the other,
so that memory stays flat. An end of file is passed on without ending the other direction.

SSH compresses a whole connection or nothing of it, and decides when it is made. So what is worth
compressing (`compression`) is asked to go over another connection than the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import Reason, TPUError
from .command import NotListening
from .compression import CompressionPolicy

if TYPE_CHECKING:
    from asyncssh import ChannelOpenError, SSHTCPChannel

#: What the channels of one forwarder may have in flight together, and one alone at most and at
#: least; bytes. One download at 40 ms needs 8 MiB; sshd's own CPU time triples at 16.
WINDOWS = 64 << 20
WINDOW = 8 << 20
LEAST_WINDOW = 512 << 10

#: Bytes that may wait for a program here before its channel is paused.
_HIGH_WATER = 1 << 20

#: Addresses this machine alone can reach.
LOOPBACK = ("127.0.0.1", "::1")


class PortInUse(TPUError):
    """Another program of this machine listens on the port."""


class OpenPort(Protocol):
    """What opens a channel: `Link.open_port`, `Connection.open_port`."""

    async def __call__(
        self, factory: Callable[[], Any], port: int, *, window: int
    ) -> SSHTCPChannel[bytes]: ...


class Forwarder:
    """Listens on a local port and leads each connection to *port* of a host.

    Parameters
    ----------
    open_port: opens a channel to the host; may wait until the host can be reached.
    port: on the host.
    changed: called (often) when a connection came, went or failed.
    open_compressed: opens a channel whose bytes are compressed, for slow lines; None: never.

    Attributes
    ----------
    connections, total: open now, and accepted so far.
    sent, received: bytes to and from the host, of all connections.
    problem: why the last connection could not be led on; None if it could.
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
        return any(policy.should_compress(self._clock()) for policy in self._policies)

    async def listen(self, local_port: int, address: str = "127.0.0.1") -> int:
        """Starts listening; returns the port. *local_port* 0: any free one.

        With the default address IPv6's loopback is listened on too, where there is one: otherwise
        another program could have `localhost`. Raises :class:`PortInUse` (CONFLICT), PERMISSION
        for a port that only the system may use, INVALID for an address that is not this machine's.
        """
        sockets = listening_sockets(local_port, address)
        loop = asyncio.get_running_loop()
        try:
            for each in sockets:
                self._servers.append(await loop.create_server(lambda: _Local(self), sock=each))
        except OSError as error:
            self._stop_listening()
            for each in sockets:
                each.close()
            raise _bind_error(error, local_port, address) from error
        if self._closed:  # meanwhile
            self._stop_listening()
            raise TPUError("The tunnel was closed.", Reason.CANCELLED)
        self.local_port = sockets[0].getsockname()[1]
        return self.local_port

    async def close(self) -> None:
        """Stops listening, and cuts what is open."""
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

    def cut(self) -> None:
        """Cuts what is open and goes on listening: the host is gone, with all it had to say."""
        for pair in list(self._pairs):
            pair.cut()

    # ---- told by the pairs -------------------------------------------------------------------

    def _accepted(self, local: _Local) -> None:
        pair = local.pair
        self._pairs.add(pair)
        self.connections += 1
        self.total += 1
        task = asyncio.get_running_loop().create_task(self._lead(pair), name=f"to {self.port}")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        self._changed()

    async def _lead(self, pair: _Pair) -> None:
        window = max(LEAST_WINDOW, min(WINDOW, WINDOWS // max(1, self.connections)))
        open_port = self._open_port
        if self._open_compressed is not None and self.compressed:
            open_port, pair.compressed = self._open_compressed, True
        try:
            await open_port(lambda: _Remote(pair), self.port, window=window)
        except TPUError as error:
            self.problem = error
            pair.cut()
            self._changed()
        except BaseException:
            pair.cut()
            raise
        else:
            if self.problem is not None:
                self.problem = None
                self._changed()
            pair.begin()

    def _passed(self, data: bytes, pair: _Pair, *, received: bool) -> None:
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
    """One connection of a program here, and the channel that carries it; either may be gone."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.local: asyncio.Transport | None = None
        self.channel: SSHTCPChannel[bytes] | None = None
        self.compressed = False
        self._flushing = False

    def pause_channel(self) -> None:
        """The program here does not keep up."""
        if self.channel is not None and not self._flushing:
            self.channel.pause_reading()

    def resume_channel(self) -> None:
        """It does again: all that has waited is handed over, then the channel may be paused.

        asyncssh opens the whole window again as soon as it hands on one packet, whatever else it
        still keeps. Were it paused between two of them, a slow reader would make it keep all that
        the host sends; so at most two windows are kept.
        """
        if self.channel is None or self._flushing:
            return
        self._flushing = True
        try:
            self.channel.resume_reading()
        finally:
            self._flushing = False
        local = self.local
        if local is not None and local.get_write_buffer_size() > _HIGH_WATER:
            self.pause_channel()

    def begin(self) -> None:
        """The channel is open: what the program says may be read now."""
        if self.local is not None:
            self.local.resume_reading()
        elif self.channel is not None:
            self.channel.abort()  # the program did not wait

    def cut(self) -> None:
        """Ends both with a reset, so that nobody takes half of the data for all of it."""
        local, self.local = self.local, None
        if local is not None:
            with contextlib.suppress(OSError, AttributeError):
                local.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            local.abort()
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.abort()
        self.forwarder._ended(self)


class _Local(asyncio.Protocol):
    """The side of the program on this machine."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self.pair = _Pair(forwarder)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.pair.local = transport
        self._forwarder._accepted(self)

    def data_received(self, data: bytes) -> None:
        channel = self.pair.channel
        if channel is None:
            return
        self._forwarder._passed(data, self.pair, received=False)
        try:
            channel.write(data)
        except OSError:  # the channel has just been closed
            self.pair.cut()

    def eof_received(self) -> bool:
        channel = self.pair.channel
        if channel is None:
            return False
        with contextlib.suppress(OSError):
            channel.write_eof()
        return True  # the answer may still be coming

    def pause_writing(self) -> None:
        self.pair.pause_channel()

    def resume_writing(self) -> None:
        self.pair.resume_channel()

    def connection_lost(self, exc: Exception | None) -> None:
        self.pair.local = None
        channel, self.pair.channel = self.pair.channel, None
        if channel is not None:
            channel.abort()
        self._forwarder._ended(self.pair)


class _Remote:
    """The side of the host: a session of asyncssh, which calls these by name."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def connection_made(self, channel: SSHTCPChannel[bytes]) -> None:
        self._pair.channel = channel

    def session_started(self) -> None:
        pass

    def data_received(self, data: bytes, datatype: int | None) -> None:
        local = self._pair.local
        if local is not None:
            self._pair.forwarder._passed(data, self._pair, received=True)
            local.write(data)

    def eof_received(self) -> bool:
        local = self._pair.local
        if local is not None and local.can_write_eof():
            with contextlib.suppress(OSError):
                local.write_eof()
        return True  # the program here may still be sending

    def pause_writing(self) -> None:
        local = self._pair.local
        if local is not None and not local.is_closing():
            local.pause_reading()

    def resume_writing(self) -> None:
        local = self._pair.local
        if local is not None and not local.is_closing():
            local.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.channel = None
        if exc is not None:
            self._pair.cut()
        elif self._pair.local is not None:
            self._pair.local.close()  # after what is still to be written


def port_refused(error: ChannelOpenError, port: int, host: str) -> TPUError:
    """Why the host's sshd could not open a channel to its *port*; *host* for the message."""
    from asyncssh import OPEN_ADMINISTRATIVELY_PROHIBITED

    if error.code == OPEN_ADMINISTRATIVELY_PROHIBITED:
        return TPUError(
            f"{host} does not forward ports.",
            Reason.PERMISSION,
            "Set `AllowTcpForwarding yes` in its sshd_config.",
        )
    return NotListening(
        f"Nothing listens on port {port} of {host}.",
        Reason.NOT_FOUND,
        "Start the server there, or look at the port it prints.",
    )


def listening_sockets(port: int, address: str = "127.0.0.1") -> list[socket.socket]:
    """Sockets that listen on *port* (0: any free one), on both loopbacks where *address* is one.

    Raises what :meth:`Forwarder.listen` does.
    """
    first = None
    try:
        first = _bound(address, port)
        if address != "127.0.0.1" or not _has_ipv6_loopback():
            return [first]
        for _ in range(20):
            try:
                return [first, _bound("::1", first.getsockname()[1])]
            except OSError as error:
                if port or error.errno != errno.EADDRINUSE:
                    raise
            other = _bound(address, 0)  # taken before the last one is given back: another number
            first.close()
            first = other
        raise OSError(errno.EADDRINUSE, "no port is free on both loopback addresses")
    except (OSError, OverflowError) as error:
        if first is not None:
            first.close()
        raise _bind_error(error, port, address) from error


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where reuse means theft
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        made.listen(128)  # so that a port that is taken shows now
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _has_ipv6_loopback() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        _bound("::1", 0).close()
    except OSError:
        return False
    return True


def _bind_error(error: Exception, port: int, address: str) -> TPUError:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return PortInUse(
            f"Port {port} of this machine is taken by another program.",
            Reason.CONFLICT,
            "Choose another local port, or end that program.",
        )
    if number in (errno.EACCES, errno.EPERM):
        return TPUError(
            f"Port {port} of this machine may not be used.",
            Reason.PERMISSION,
            "Ports below 1024 belong to the system: choose a higher one.",
        )
    return TPUError(
        f"This machine can't listen on {address} port {port}: "
        f"{getattr(error, 'strerror', None) or error}.",
        Reason.INVALID,
        "Choose another local port; the address is 127.0.0.1 unless you say otherwise.",
    )
