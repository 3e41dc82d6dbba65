"""A WebSocket between browser and host: once both have agreed, bytes pass as they are.

The handshake is checked like every request and sent on with its headers rewritten; what follows
the host's 101 belongs to the two of them.
"""

from __future__ import annotations

import asyncio
import email.parser
import http.client
from typing import Any

from ..errors import Reason, TPUError
from .origin import Headers
from .upstream import HEAD, Upstream

#: How long the host may take to answer a handshake; seconds.
HANDSHAKE = 60.0


class Handshake:
    """The host's answer to an upgrade, and the channel if it agreed (101)."""

    def __init__(self, status: int, headers: Headers, far: _Side) -> None:
        self.status = status
        self.headers = headers
        self.far = far

    def head(self) -> bytes:
        """The 101 for the browser."""
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")

    def refused(self) -> tuple[int, Headers]:
        """Status and headers for the browser where the host did not agree; its channel ends."""
        self.far.close()
        kept = [(n, v) for n, v in self.headers if n.lower() != "content-length"]
        return self.status if self.status >= 200 else 502, kept


async def shake(upstream: Upstream, path: str, asked: Headers) -> Handshake:
    """Asks the host to upgrade; raises TPUError, also for an answer that is no HTTP."""
    far = _Side()
    transport = await upstream.open(far)
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in asked)]
    transport.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
    try:
        head = await asyncio.wait_for(far.head(), HANDSHAKE)
        version, status = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)[:2]
        if not version.startswith("HTTP/1."):
            raise ValueError
        fields = email.parser.Parser(_class=http.client.HTTPMessage).parsestr(
            head.partition(b"\r\n")[2].replace(b"\r", b"").decode("utf-8", "surrogateescape")
        )
        # A value may go over several lines there; here it must not.
        headers = [(name, " ".join(value.split("\n"))) for name, value in fields.items()]
        return Handshake(int(status), headers, far)
    except (TimeoutError, ValueError, OSError):
        transport.abort()
        raise TPUError(
            f"What listens on port {upstream.port} gave no answer to a WebSocket.",
            Reason.UNAVAILABLE,
        ) from None
    except BaseException:
        transport.abort()
        raise


async def splice(near: asyncio.Transport, handshake: Handshake, head: bytes) -> None:
    """Writes *head* (the 101) to the browser and joins both, until one of them ends."""
    far = handshake.far
    side = _Side()
    before: Any = near.get_protocol()
    near.set_protocol(side)
    side.connection_made(near)
    side.peer, far.peer = far, side
    try:
        near.write(head)
        far.flush()
        side.transport.resume_reading()
        await asyncio.wait([side.ended, far.ended], return_when=asyncio.FIRST_COMPLETED)
    finally:
        far.close()
        side.close()
        # Whoever accepted the connection must hear of its end.
        near.set_protocol(before)
        if side.ended.done():
            before.connection_lost(None)


class _Side(asyncio.Protocol):
    """One end: what comes in goes to its peer, who slows it down when it can't keep up."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.peer: _Side | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._early = bytearray()
        self._more = asyncio.Event()

    async def head(self) -> bytes:
        """The first lines up to the empty one; ValueError if they get too long or end before."""
        while (end := self._early.find(b"\r\n\r\n")) < 0:
            if len(self._early) > HEAD or self.ended.done():
                raise ValueError
            self._more.clear()
            await self._more.wait()
        head = bytes(self._early[:end])
        del self._early[: end + 4]
        return head

    def flush(self) -> None:
        """Gives the peer what came before it was there."""
        if self._early and self.peer is not None:
            self.peer.transport.write(bytes(self._early))
            self._early.clear()

    def close(self) -> None:
        self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.peer is not None:
            self.peer.transport.write(data)
        else:
            self._early += data
            self._more.set()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._more.set()
        if not self.ended.done():
            self.ended.set_result(None)
