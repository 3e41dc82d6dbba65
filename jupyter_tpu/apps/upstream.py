"""HTTP to one port of a host: aiohttp's client over SSH channels.

Opening a channel costs a round trip, so channels are kept for the next request. For a server that
closes after each response (TensorBoard's does) spare channels are opened ahead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from ..errors import TPUError
from ..ssh.transport import ChannelTransport, OpenPort, share_window
from .headers import Headers

log = logging.getLogger(__name__)

#: Seconds for which an idle channel is kept. Many servers close theirs after only five seconds.
KEEP_ALIVE = 15.0
#: Spare channels to a server that closes after each response, and the seconds for which they are
#: kept: a server that handles one connection at a time waits for a request on them.
SPARE_CHANNELS = 2
SPARE_LIFETIME = 10.0
#: Bytes of a message's head. An application's cookies or policy can be long.
MAX_HEAD = 64 << 10
_SKIPPED_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Upstream:
    """A server on a host.

    Parameters
    ----------
    open_port: opens a channel to the host; may wait until the host can be reached.
    port: on the host.
    headers: what each request has in addition, such as a token that browsers must not know.

    Attributes
    ----------
    sent, received: bytes to and from the host.
    """

    def __init__(self, open_port: OpenPort, port: int, headers: Headers | None = None) -> None:
        self.port = port
        self.headers = headers or []
        self.sent = 0
        self.received = 0
        self._open_port = open_port
        self._transports: set[ChannelTransport] = set()
        self._pool = _ChannelPool(self)
        self._session = aiohttp.ClientSession(
            connector=self._pool,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            skip_auto_headers=_SKIPPED_HEADERS,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
        )

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, headers: Headers, body: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response's head; its body is still to be read.

        path: as it stood in the request, with the query. body: bytes, an async iterator of bytes,
        or None. Bytes are sent a second time if a kept channel turns out to be closed, as browsers
        do.

        Raises TPUError (NOT_FOUND: nothing listens there; UNREACHABLE) and aiohttp.ClientError.
        """
        url = URL(f"http://localhost:{self.port}{path}", encoded=True)
        may_retry = body is None or isinstance(body, bytes)
        while True:
            opened = self._pool.opened
            try:
                response = await self._session.request(
                    method, url, headers=headers, data=body, allow_redirects=False
                )
                break
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # TPUError is an OSError, too, so aiohttp wraps it.
                if isinstance(error.__cause__, TPUError):
                    raise error.__cause__ from None
                if not may_retry or self._pool.opened != opened:
                    raise
                may_retry = False
        try:
            self._pool.server_closes = _server_closes(response)
            yield response
        finally:
            response.release()

    async def open(self, protocol: asyncio.Protocol) -> ChannelTransport:
        """A channel of its own, for protocols other than HTTP. Raises TPUError."""
        transport = ChannelTransport(protocol, self._count)
        window = share_window(len(self._transports))
        self._transports = {
            transport for transport in self._transports if not transport.is_closing()
        }
        await self._open_port(transport.session, self.port, window=window)
        self._transports.add(transport)
        return transport

    async def close(self) -> None:
        self._pool.close_spares()
        await self._session.close()
        for transport in list(self._transports):
            transport.abort()

    def _count(self, sent: int, received: int) -> None:
        self.sent += sent
        self.received += received


class _ChannelPool(aiohttp.BaseConnector):
    """aiohttp's connection pool; this opens its connections.

    Attributes
    ----------
    opened: how many channels were opened for a request. It does not change for a kept channel.
    server_closes: whether the server closes after each response.
    """

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE)
        self.opened = 0
        self.server_closes = False
        self._upstream = upstream
        self._spares: list[ResponseHandler] = []
        self._opening: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:
        """Called by aiohttp if the pool is empty."""
        connection = None
        while self._spares and connection is None:
            first = self._spares.pop(0)  # in the order in which a server accepts them
            if first.is_connected():
                connection = first
        if self.server_closes:
            self._open_spares()
        if connection is not None:
            return connection
        self.opened += 1
        return await self._open()

    async def _open(self) -> ResponseHandler:
        protocol = self._factory()
        await self._upstream.open(protocol)
        return protocol

    def _open_spares(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = self._loop.create_task(self._refill_spares(), name="spare channels")
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._loop.call_later(SPARE_LIFETIME, self.close_spares)

    async def _refill_spares(self) -> None:
        with contextlib.suppress(TPUError):  # the next request reports it
            while len(self._spares) < SPARE_CHANNELS:
                self._spares.append(await self._open())

    def close_spares(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        if self._opening is not None:
            self._opening.cancel()
        spares, self._spares = self._spares, []
        for protocol in spares:
            protocol.close()


def _server_closes(response: aiohttp.ClientResponse) -> bool:
    connection = response.headers.get("Connection", "").lower()
    version = response.version or aiohttp.HttpVersion11
    return "close" in connection or (
        version < aiohttp.HttpVersion11 and "keep-alive" not in connection
    )
