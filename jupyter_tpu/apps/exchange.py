"""One request to a host and its answer, whoever it is that speaks with the browser."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from msgspec import Struct

from ..errors import Reason, TPUError
from .origin import Headers, Place, policy, to_browser, to_host
from .splice import Handshake, shake
from .upstream import Upstream

log = logging.getLogger(__name__)

#: Bodies up to this size are read before they are sent on: they can be sent twice.
SMALL = 64 << 10
#: Bytes that pass at a time.
PIECE = 256 << 10
_STATUS = {
    Reason.NOT_FOUND: 502,
    Reason.UNREACHABLE: 504,
    Reason.TIMEOUT: 504,
    Reason.PERMISSION: 502,
    Reason.CANCELLED: 503,
}


class Asked(Struct):
    """A request, as the browser made it.

    path: at the host, query included. body: bytes, something that gives them piece by piece, or
    None; length: its Content-Length, None if that was not said.
    """

    method: str
    path: str
    headers: Headers
    body: Any = None
    length: int | None = None


class Answer:
    """What the host says, its headers as they go to the browser."""

    def __init__(self, came: aiohttp.ClientResponse, headers: Headers, name: str) -> None:
        self.status = came.status
        self.reason = came.reason or ""
        self.headers = headers
        self._came = came
        self._name = name
        # It is given back with the last piece of the body.
        connection = came.connection
        self._transport: Any = connection.transport if connection is not None else None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; ConnectionResetError if it broke off."""
        try:
            async for piece in self._came.content.iter_chunked(PIECE):
                yield piece
            if getattr(self._transport, "broken", None) is not None:
                raise aiohttp.ClientPayloadError("the link broke")
        except (aiohttp.ClientError, TPUError) as error:
            # An end in good order would make half of it look like all.
            log.debug("%s broke off", self._name, exc_info=error)
            raise ConnectionResetError("the host broke off") from None


class View(Struct, frozen=True):
    """An app as it is seen from one place.

    name: what the pages of ours call it, such as "port 6006 of my-tpu".
    framed_by: the origin of the page that may frame it; "" for its own alone.
    anywhere: whether its pages may connect and send forms to anywhere.
    """

    upstream: Upstream
    name: str
    place: Place
    framed_by: str = ""
    anywhere: bool = False

    @contextlib.asynccontextmanager
    async def exchange(self, asked: Asked) -> AsyncIterator[Answer]:
        """Asks the host; TPUError if it can't be asked or answers no HTTP."""
        headers = to_host(self.place, self.upstream.port, asked.headers)
        if asked.length is not None:
            headers.append(("Content-Length", str(asked.length)))
        async with contextlib.AsyncExitStack() as stack:
            try:
                came = await stack.enter_async_context(
                    self.upstream.request(asked.method, asked.path, headers, asked.body)
                )
            except aiohttp.ClientError as error:
                log.debug("%s gave no answer", self.name, exc_info=error)
                raise TPUError(
                    f"What listens at {self.name} gave no answer in HTTP.",
                    Reason.UNAVAILABLE,
                    "Is it another kind of server, or does it expect https?",
                ) from None
            yield Answer(came, self.to_browser(pairs(came.raw_headers)), self.name)

    async def shake(self, asked: Asked) -> Handshake:
        """Asks the host for a WebSocket; TPUError as for `exchange`. Its headers are the ones for
        the browser.
        """
        headers = to_host(self.place, self.upstream.port, asked.headers)
        headers += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        handshake = await shake(self.upstream, asked.path, headers)
        handshake.headers = self.to_browser(handshake.headers)
        return handshake

    def to_browser(self, headers: Headers) -> Headers:
        return to_browser(
            self.place, self.upstream.port, headers, self.framed_by, anywhere=self.anywhere
        )

    def policy(self) -> Headers:
        return policy(self.place, self.framed_by, anywhere=self.anywhere)


def status_of(error: TPUError) -> int:
    """The status of a page that says why there is no answer."""
    return _STATUS.get(error.reason, 502)


def pairs(raw: Any) -> Headers:
    """Headers as they came, in bytes."""
    return [(_text(name), _text(value)) for name, value in raw]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
