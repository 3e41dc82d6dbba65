"""HTTP to one port of a host: aiohttp's client, whose connections are SSH channels.

A channel costs a round trip to open, so they are kept for the next request. A server that closes
after each answer (TensorBoard's does) gets the next ones opened ahead.
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
from ..ssh.forwarding import LEAST_WINDOW, WINDOW, WINDOWS, OpenPort
from ..ssh.transport import ChannelTransport
from .origin import Headers

log = logging.getLogger(__name__)

#: How long an unused channel is kept; many servers close theirs after as little as five seconds.
KEEP = 15.0
#: Channels opened ahead to a server that closes after each answer, and how long they are kept: a
#: server that answers one connection at a time waits for what comes over them.
AHEAD = 2
KEEP_AHEAD = 10.0
#: Bytes of an answer's head; a cookie or a policy of an application can be long.
HEAD = 64 << 10
_OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Upstream:
    """A server on a host.

    Parameters
    ----------
    open_port: opens a channel to the host; may wait until the host can be reached.
    port: on the host.

    Attributes
    ----------
    sent, received: bytes to and from the host.
    """

    def __init__(self, open_port: OpenPort, port: int) -> None:
        self.port = port
        self.sent = 0
        self.received = 0
        self._open_port = open_port
        self._transports: set[ChannelTransport] = set()
        self._channels = _Channels(self)
        self._session = aiohttp.ClientSession(
            connector=self._channels,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            skip_auto_headers=_OURS,
            max_line_size=HEAD,
            max_field_size=HEAD,
        )

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, headers: Headers, body: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer's head; its body is still to be read.

        path: as it stood in the request, query included. body: bytes, something that gives them
        piece by piece, or None. Bytes are sent once more if a channel that was kept turns out to
        be closed, as browsers do.

        Raises TPUError (NOT_FOUND: nothing listens there; UNREACHABLE) and aiohttp.ClientError.
        """
        url = URL(f"http://localhost:{self.port}{path}", encoded=True)
        again = body is None or isinstance(body, bytes)
        while True:
            made = self._channels.made
            try:
                answer = await self._session.request(
                    method, url, headers=headers, data=body, allow_redirects=False
                )
                break
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                if isinstance(error.__cause__, TPUError):  # an OSError, too, which aiohttp wraps
                    raise error.__cause__ from None
                if not again or self._channels.made != made:
                    raise
                again = False
        try:
            self._channels.closes = _closes(answer)
            yield answer
        finally:
            answer.release()

    async def open(self, protocol: asyncio.Protocol) -> ChannelTransport:
        """A channel of its own, for what is no HTTP; raises TPUError."""
        transport = ChannelTransport(protocol, self._count)
        window = max(LEAST_WINDOW, min(WINDOW, WINDOWS // max(1, len(self._transports))))
        self._transports = {each for each in self._transports if not each.is_closing()}
        await self._open_port(transport.session, self.port, window=window)
        self._transports.add(transport)
        return transport

    def cut(self) -> None:
        """Ends all channels: the host is gone, with all it had to say."""
        for transport in list(self._transports):
            transport.abort()

    async def close(self) -> None:
        self._channels.end_ahead()
        await self._session.close()
        self.cut()

    def _count(self, sent: int, received: int) -> None:
        self.sent += sent
        self.received += received


class _Channels(aiohttp.BaseConnector):
    """The pool: aiohttp keeps and gives back, this opens.

    Attributes
    ----------
    made: channels opened for a request so far; the same after one went over a kept channel.
    closes: whether the server closes after each answer.
    """

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP)
        self.made = 0
        self.closes = False
        self._upstream = upstream
        self._ahead: list[ResponseHandler] = []
        self._opening: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:
        """Called by aiohttp where the pool has none."""
        found = None
        while self._ahead and found is None:
            first = self._ahead.pop(0)  # in the order in which a server accepts them
            if first.is_connected():
                found = first
        if self.closes:
            self._open_ahead()
        if found is not None:
            return found
        self.made += 1
        return await self._open()

    async def _open(self) -> ResponseHandler:
        protocol = self._factory()
        await self._upstream.open(protocol)
        return protocol

    def _open_ahead(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = self._loop.create_task(self._fill(), name="channels ahead")
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._loop.call_later(KEEP_AHEAD, self.end_ahead)

    async def _fill(self) -> None:
        with contextlib.suppress(TPUError):  # the next request says it
            while len(self._ahead) < AHEAD:
                self._ahead.append(await self._open())

    def end_ahead(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        if self._opening is not None:
            self._opening.cancel()
        ahead, self._ahead = self._ahead, []
        for protocol in ahead:
            protocol.close()


def _closes(answer: aiohttp.ClientResponse) -> bool:
    said = answer.headers.get("Connection", "").lower()
    version = answer.version or aiohttp.HttpVersion11
    return "close" in said or (version < aiohttp.HttpVersion11 and "keep-alive" not in said)
