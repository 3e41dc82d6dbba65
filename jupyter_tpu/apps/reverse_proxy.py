"""Forwards one request to a host and returns its response, whatever serves the browser."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from msgspec import Struct

from ..errors import Reason, TPUError
from .headers import Headers, policy, to_browser, to_host
from .mounts import Mount
from .upstream import Upstream
from .websocket_tunnel import Handshake, handshake

log = logging.getLogger(__name__)

#: Bodies up to this many bytes are read before they are sent on, so they can be sent twice.
MAX_BUFFERED = 64 << 10
#: Bytes that are passed on at a time.
CHUNK_BYTES = 256 << 10
_STATUS = {
    Reason.NOT_FOUND: 502,
    Reason.UNREACHABLE: 504,
    Reason.TIMEOUT: 504,
    Reason.PERMISSION: 502,
    Reason.CANCELLED: 503,
    Reason.INVALID: 400,
}


class BrowserRequest(Struct):
    """A request as the browser made it.

    path: at the host, with the query. body: bytes, an async iterator of bytes, or None.
    length: its Content-Length; None if unknown.
    """

    method: str
    path: str
    headers: Headers
    body: Any = None
    length: int | None = None


class Response:
    """The host's response, with its headers as the browser gets them."""

    def __init__(self, response: aiohttp.ClientResponse, headers: Headers, name: str) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.headers = headers
        self._response = response
        self._name = name
        # aiohttp takes the connection back with the last chunk of the body.
        connection = response.connection
        self._transport: Any = connection.transport if connection is not None else None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises ConnectionResetError if it is cut off."""
        try:
            async for chunk in self._response.content.iter_chunked(CHUNK_BYTES):
                yield chunk
            if getattr(self._transport, "broken", None) is not None:
                raise aiohttp.ClientPayloadError("the link broke")
        except (aiohttp.ClientError, TPUError) as error:
            # A clean end would make a partial body look complete.
            log.debug("The response of %s was cut off", self._name, exc_info=error)
            raise ConnectionResetError("the host's response was cut off") from None


class ReverseProxy(Struct, frozen=True):
    """Passes requests from one mount of an app to its host.

    name: what our own pages call the app, such as "port 6006 of my-tpu".
    framed_by: the origin of the page that may frame it; "" for the app's own pages only.
    allow_external: whether its pages may connect and send forms to other servers.
    """

    upstream: Upstream
    name: str
    mount: Mount
    framed_by: str = ""
    allow_external: bool = False

    @contextlib.asynccontextmanager
    async def forward(self, request: BrowserRequest) -> AsyncIterator[Response]:
        """The host's response. Raises TPUError if the host can't be reached or sends no HTTP."""
        headers = self.to_host(request.headers)
        if request.length is not None:
            headers.append(("Content-Length", str(request.length)))
        async with contextlib.AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(
                    self.upstream.request(request.method, request.path, headers, request.body)
                )
            except aiohttp.ClientError as error:
                log.debug("%s sent no HTTP response", self.name, exc_info=error)
                raise TPUError(
                    f"The server at {self.name} did not answer with HTTP.",
                    Reason.UNAVAILABLE,
                    "Is it another kind of server, or does it expect https?",
                ) from None
            yield Response(response, self.to_browser(pairs(response.raw_headers)), self.name)

    async def open_websocket(self, request: BrowserRequest) -> Handshake:
        """The host's answer to a WebSocket request, with headers for the browser.

        Raises TPUError as `forward` does.
        """
        headers = self.to_host(request.headers)
        headers += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        answer = await handshake(self.upstream, request.path, headers)
        answer.headers = self.to_browser(answer.headers)
        return answer

    def to_host(self, headers: Headers) -> Headers:
        own = {name.lower() for name, _ in self.upstream.headers}
        kept = [(name, value) for name, value in headers if name.lower() not in own]
        return to_host(self.mount, self.upstream.port, kept) + self.upstream.headers

    def to_browser(self, headers: Headers) -> Headers:
        return to_browser(
            self.mount,
            self.upstream.port,
            headers,
            self.framed_by,
            allow_external=self.allow_external,
        )

    def policy(self) -> Headers:
        return policy(self.mount, self.framed_by, allow_external=self.allow_external)


def status_of(error: TPUError) -> int:
    """The HTTP status of a page that reports *error*."""
    return _STATUS.get(error.reason, 502)


def pairs(raw: Any) -> Headers:
    """Raw headers (bytes) as text."""
    return [(_text(name), _text(value)) for name, value in raw]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
