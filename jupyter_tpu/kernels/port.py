"""One port of a kernel on this machine: what ZeroMQ's ROUTER and XPUB are to their clients.

ZeroMQ itself would cost a descriptor more for each port, hands each message from one of its threads
to this one, copies it, and does not say how much of it waits for a client.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress

from ..on_host.agent.protocol import zmtp

log = logging.getLogger(__name__)

#: Seconds for what was sent to reach the clients of a port that is closed.
LINGER_SECONDS = 1.0

ROUTER, PUBLISHER = "ROUTER", "XPUB"


class PortClient(asyncio.Protocol):
    """A client of a port, whose name is its ZeroMQ identity."""

    def __init__(self, port: Port) -> None:
        self.name: bytes | None = None  # not known yet
        self.subscriptions: set[bytes] = set()
        #: More waits for it than the port's limit.
        self.full = False
        #: It does not read: what is published while it is full is dropped.
        self.stalled = False
        self._port = port
        self._decoder = zmtp.ZmtpDecoder()
        self._transport: asyncio.Transport | None = None

    @property
    def waiting(self) -> int:
        """Bytes that it has not read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, chunks: list[bytes]) -> None:
        if self._transport is not None:
            for chunk in chunks:
                self._transport.write(chunk)

    def read_more(self, more: bool) -> None:
        """Whether its messages are read at all."""
        if self._transport is not None and not self._transport.is_closing():
            if more:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        """What was sent still reaches it."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(self._port.limit, self._port.limit // 2)
        transport.write(zmtp.greeting(self._port.kind))
        self._port.connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            for parts in self._decoder.feed(data):
                self._introduce()
                if self.name is None:
                    raise zmtp.ZmtpError("a message before the peer has said what it is")
                self._port.received(self, parts)
            self._introduce()
        except zmtp.ZmtpError as error:
            log.debug("A client of a kernel's port: %s", error)
            assert self._transport is not None
            self._transport.abort()

    def _introduce(self) -> None:
        if self.name is None and self._decoder.peer is not None:
            self.name = self._decoder.peer.get("identity") or b"\0" + os.urandom(4)
            self._port.introduced(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._port.lost(self)

    def pause_writing(self) -> None:
        self.full = True
        self._port.fullness_changed(self)

    def resume_writing(self) -> None:
        self.full = self.stalled = False
        self._port.fullness_changed(self)


class Port:
    """A port, from `open` to `close`; all of it on one event loop.

    Parameters
    ----------
    kind: ROUTER or PUBLISHER.
    on_message: called with each message, which begins with its client's identity.
    on_subscriber: called when somebody subscribes and nobody had.
    limit: bytes that may wait for a client of a publisher before it counts as full.
    on_full: called with a client that is full, or is not any more.
    """

    def __init__(
        self,
        kind: str,
        on_message: Callable[[list[bytes]], None] = lambda parts: None,
        on_subscriber: Callable[[], None] = lambda: None,
        *,
        limit: int = 1 << 20,
        on_full: Callable[[PortClient], None] = lambda client: None,
    ) -> None:
        self.kind = kind
        self.limit = limit
        self._on_message = on_message
        self._on_subscriber = on_subscriber
        self._on_full = on_full
        self._server: asyncio.Server | None = None
        self._path = ""  # of an ipc socket
        self._reading = True
        self._all: set[PortClient] = set()
        self._left = asyncio.Event()  # all of them
        self._by_name: dict[bytes, PortClient] = {}

    async def open(self, endpoint: str) -> None:
        """Listens at *endpoint* ("tcp://127.0.0.1:1234", "ipc:///path"). Raises OSError."""
        loop = asyncio.get_running_loop()
        transport, _, place = endpoint.partition("://")
        if transport == "ipc":
            with suppress(FileNotFoundError):
                os.unlink(place)  # ZeroMQ does so, too
            self._server = await loop.create_unix_server(lambda: PortClient(self), place)
            self._path = place
        else:
            host, _, number = place.rpartition(":")
            self._server = await loop.create_server(
                lambda: PortClient(self), None if host == "*" else host, int(number)
            )

    @property
    def subscribed(self) -> bool:
        """Whether a client has subscribed to anything."""
        return any(client.subscriptions for client in self._all)

    def read_more(self, more: bool) -> None:
        """Whether the clients' messages are read."""
        self._reading = more
        for client in self._all:
            client.read_more(more)

    def send(self, parts: list[bytes]) -> None:
        """Sends a message to the client whose identity it begins with, if it is there."""
        client = self._by_name.get(bytes(parts[0]))
        if client is not None:
            client.write(_chunks(parts[1:]))

    def publish(self, parts: list[bytes]) -> None:
        """Sends a message to all who have subscribed to how it begins."""
        chunks = _chunks(parts)
        for client in self._all:
            if any(parts[0].startswith(topic) for topic in client.subscriptions) and not (
                client.full and client.stalled
            ):
                client.write(chunks)

    async def close(self) -> None:
        """Stops listening. What was sent still reaches its clients, if they read it soon."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if self._path:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
        for client in list(self._all):
            client.close()
        if self._all:
            self._left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._left.wait()

    # ---- of its clients

    def connected(self, client: PortClient) -> None:
        self._all.add(client)
        if not self._reading:
            client.read_more(False)

    def introduced(self, client: PortClient) -> None:
        """A client that connects again keeps its identity."""
        assert client.name is not None
        before = self._by_name.get(client.name)
        self._by_name[client.name] = client
        if before is not None:
            before.close()

    def received(self, client: PortClient, parts: list[bytes]) -> None:
        if self.kind == ROUTER:
            assert client.name is not None
            self._on_message([client.name, *parts])
            return
        first, topic = parts[0][:1], parts[0][1:]
        nobody = not self.subscribed
        if first == b"\1":
            client.subscriptions.add(topic)
            if nobody:
                self._on_subscriber()
        elif first == b"\0":
            client.subscriptions.discard(topic)

    def fullness_changed(self, client: PortClient) -> None:
        self._on_full(client)

    def lost(self, client: PortClient) -> None:
        self._all.discard(client)
        if not self._all:
            self._left.set()
        if client.name is not None and self._by_name.get(client.name) is client:
            del self._by_name[client.name]
        if client.full:
            client.full = False
            self._on_full(client)


def _chunks(parts: list[bytes]) -> list[bytes]:
    """A message on the wire in few pieces, without a copy of what is large."""
    chunks: list[bytes] = []
    small = bytearray()
    for chunk in zmtp.encode(parts):
        if len(chunk) < zmtp.LARGE_PART_BYTES:
            small += chunk
        else:
            chunks += (bytes(small), chunk)
            small.clear()
    return [*chunks, bytes(small)] if small else chunks
