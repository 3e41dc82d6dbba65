"""A WebSocket between browser and host. After the handshake its bytes are passed on unread.

The handshake is checked like every request, and sent on with rewritten headers. After the host's
101 response the two ends talk directly.
"""

from __future__ import annotations

import asyncio
import email.parser
import http.client
from typing import Any

from ..errors import Reason, TPUError
from .headers import Headers
from .upstream import MAX_HEAD, Upstream

#: Seconds in which the host must answer a handshake.
HANDSHAKE_TIMEOUT = 60.0


class Handshake:
    """The host's answer to an upgrade request, and the channel to it if it agreed (101)."""

    def __init__(self, status: int, headers: Headers, host: _Endpoint) -> None:
        self.status = status
        self.headers = headers
        self.host = host

    def head(self) -> bytes:
        """The 101 response for the browser."""
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")

    def refuse(self) -> tuple[int, Headers]:
        """Status and headers for the browser if the host did not agree. Closes its channel."""
        self.host.close()
        kept = [(n, v) for n, v in self.headers if n.lower() != "content-length"]
        return self.status if self.status >= 200 else 502, kept


async def handshake(upstream: Upstream, path: str, headers: Headers) -> Handshake:
    """Asks the host to upgrade. Raises TPUError, also if the answer is not HTTP."""
    host = _Endpoint()
    transport = await upstream.open(host)
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    transport.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT):
            head = await host.read_head()
        version, status = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)[:2]
        if not version.startswith("HTTP/1."):
            raise ValueError
        fields = email.parser.Parser(_class=http.client.HTTPMessage).parsestr(
            head.partition(b"\r\n")[2].replace(b"\r", b"").decode("utf-8", "surrogateescape")
        )
        # The parser accepts values of several lines; the browser gets one line.
        answered = [(name, " ".join(value.split("\n"))) for name, value in fields.items()]
        return Handshake(int(status), answered, host)
    except (TimeoutError, ValueError, OSError):
        transport.abort()
        raise TPUError(
            f"The server on port {upstream.port} did not answer the WebSocket request.",
            Reason.UNAVAILABLE,
        ) from None
    except BaseException:
        transport.abort()
        raise


async def tunnel(transport: asyncio.Transport, handshake: Handshake) -> None:
    """Sends the 101 response to the browser and joins both ends until one of them closes."""
    host, browser = handshake.host, _Endpoint()
    previous: Any = transport.get_protocol()
    transport.set_protocol(browser)
    browser.connection_made(transport)
    browser.peer, host.peer = host, browser
    try:
        transport.write(handshake.head())
        host.flush()
        browser.transport.resume_reading()
        await asyncio.wait([browser.closed, host.closed], return_when=asyncio.FIRST_COMPLETED)
    finally:
        host.close()
        browser.close()
        # The server that accepted the connection must learn that it is closed.
        transport.set_protocol(previous)
        if browser.closed.done():
            previous.connection_lost(None)


class _Endpoint(asyncio.Protocol):
    """One end. Passes its data to the peer, and stops reading while the peer can't keep up."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.peer: _Endpoint | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray()  # what arrived before there was a peer
        self._received = asyncio.Event()

    async def read_head(self) -> bytes:
        """The lines up to the first empty one. ValueError if it is too long or incomplete."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD or self.closed.done():
                raise ValueError
            self._received.clear()
            await self._received.wait()
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        return head

    def flush(self) -> None:
        """Gives the peer what arrived before it was there."""
        if self._buffer and self.peer is not None:
            self.peer.transport.write(bytes(self._buffer))
            self._buffer.clear()

    def close(self) -> None:
        self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.peer is not None:
            self.peer.transport.write(data)
        else:
            self._buffer += data
            self._received.set()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._received.set()
        if not self.closed.done():
            self.closed.set_result(None)
