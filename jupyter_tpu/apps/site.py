"""One app: lets browsers in, checks every request, and answers it with what the host says."""

from __future__ import annotations

import html
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ..errors import Reason, TPUError
from . import origin as rules
from .admission import Admission, Pass
from .origin import ENTER, HERE, Headers, Origin
from .splice import shake, splice
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
_NO_PASS = (
    "This page of a TPU's host is not open any more",
    "Open it again from JupyterLab, or with `jupyter tpu app`. If it was just opened from there, "
    "the browser does not keep cookies of http://….localhost (Safari): use another one, or a "
    "tunnel.",
)


class Untyped(web.StreamResponse):
    """An answer without a type, which stays without one: browsers then look at the content."""


class Site:
    """An app at its origin.

    Parameters
    ----------
    name: what the pages of ours call it, such as "port 6006 of my-tpu".
    """

    def __init__(self, origin: Origin, upstream: Upstream, name: str) -> None:
        self.origin = origin
        self.upstream = upstream
        self.name = name
        self.admission = Admission()

    def visit(self, path: str, framed_by: str) -> str:
        """A URL that opens the app once, within half a minute."""
        ticket = self.admission.ticket(framed_by)
        return f"{self.origin.url}{ENTER}{ticket}?to={quote(path, safe='/')}"

    def probe(self) -> str:
        """What answers whoever can reach this machine's port, and says nothing else."""
        return self.origin.url + HERE

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request to this origin."""
        upgrade = (
            "upgrade" in request.headers.get("Connection", "").lower()
            and request.headers.get("Upgrade", "").lower() == "websocket"
        )
        path = request.raw_path
        if path.startswith(HERE) and request.method == "GET":
            return web.Response(status=204, headers={"Cache-Control": "no-store"})
        refused = rules.refusal(self.origin, request.method, request.headers, upgrade=upgrade)
        if refused is not None:
            return self._page(request, refused.status, refused.message, "")
        if not path.startswith("/"):
            return self._page(request, 400, "A request names a path.", "")
        if path.startswith(ENTER):
            return self._enter(request)
        admitted = self.admission.find(rules.cookie(request.headers))
        if admitted is None:
            return self._page(request, 401, *_NO_PASS)
        try:
            if upgrade:
                return await self._upgrade(request, admitted)
            return await self._pass_on(request, admitted)
        except TPUError as error:
            status = _STATUS.get(error.reason, 502)
            again = error.reason is Reason.NOT_FOUND
            return self._page(request, status, error.message, error.hint, admitted, again=again)
        except aiohttp.ClientError as error:
            log.debug("%s gave no answer", self.name, exc_info=error)
            return self._page(
                request,
                502,
                f"What listens at {self.name} gave no answer in HTTP.",
                "Is it another kind of server, or does it expect https?",
                admitted,
            )

    def _enter(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = urlsplit(request.raw_path)
        made = self.admission.redeem(parts.path[len(ENTER) :])
        if made is None:
            return self._page(request, 401, *_NO_PASS)
        [to] = parse_qs(parts.query).get("to", ["/"])[:1]
        answer = web.Response(status=303)
        # One slash: two would lead to another machine.
        answer.headers["Location"] = quote("/" + to.lstrip("/\\"), safe="/?#&=%:;,+!$'()*@~[]")
        answer.headers["Set-Cookie"] = rules.set_cookie(made.secret)
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    async def _pass_on(self, request: web.BaseRequest, admitted: Pass) -> web.StreamResponse:
        port = self.upstream.port
        headers = rules.to_host(self.origin, port, _pairs(request.raw_headers))
        length = request.content_length
        body: Any = None
        if length is not None:
            headers.append(("Content-Length", str(length)))
        if length is not None and length <= SMALL:
            await _continue(request)
            body = await request.read()
        elif request.body_exists:
            body = _pieces(request)
        async with self.upstream.request(request.method, request.raw_path, headers, body) as came:
            connection = came.connection
            sent = rules.to_browser(self.origin, port, _pairs(came.raw_headers), admitted.framed_by)
            typed = any(name.lower() == "content-type" for name, _ in sent)
            answer = (web.StreamResponse if typed else Untyped)(
                status=came.status, reason=came.reason, headers=CIMultiDict(sent)
            )
            transport = connection.transport if connection is not None else None
            await answer.prepare(request)
            try:
                async for piece in came.content.iter_chunked(PIECE):
                    await answer.write(piece)
                if getattr(transport, "broken", None) is not None:
                    raise aiohttp.ClientPayloadError("the link broke")
            except (aiohttp.ClientError, TPUError) as error:
                # An end in good order would make half of it look like all.
                log.debug("%s broke off", self.name, exc_info=error)
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError("the host broke off") from None
            await answer.write_eof()
            return answer

    async def _upgrade(self, request: web.BaseRequest, admitted: Pass) -> web.StreamResponse:
        port = self.upstream.port
        headers = rules.to_host(self.origin, port, _pairs(request.raw_headers))
        headers += [("Connection", "Upgrade"), ("Upgrade", request.headers["Upgrade"])]
        handshake = await shake(self.upstream, request.raw_path, headers)
        agreed = rules.to_browser(self.origin, port, handshake.headers, admitted.framed_by)
        near = request.transport
        if handshake.status != 101 or near is None:
            handshake.far.close()
            kept = [(n, v) for n, v in agreed if n.lower() != "content-length"]
            return web.Response(
                status=handshake.status if handshake.status >= 200 else 502,
                headers=CIMultiDict(kept),
            )
        upgraded = [(n, v) for n, v in handshake.headers if n.lower() == "upgrade"][:1]
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade"]
        lines += [f"{name}: {value}" for name, value in [*upgraded, *agreed]]
        head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
        await splice(near, handshake, head)
        raise ConnectionResetError("the WebSocket has ended")

    def _page(
        self,
        request: web.BaseRequest,
        status: int,
        message: str,
        hint: str,
        admitted: Pass | None = None,
        *,
        again: bool = False,
    ) -> web.Response:
        """A page of ours, instead of the host's; *again*: it looks again by itself."""
        headers: Headers = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
        if admitted is not None:
            headers += rules.policy(self.origin, admitted.framed_by)
        if request.headers.get("Sec-Fetch-Mode") != "navigate":
            text = f"{message} {hint}".strip() + "\n"
            return web.Response(status=status, text=text, headers=CIMultiDict(headers))
        refresh = again and request.method == "GET"
        if refresh:
            hint = f"{hint} This page looks again by itself.".strip()
        text = _PAGE.format(
            refresh='<meta http-equiv="refresh" content="3">' if refresh else "",
            name=html.escape(self.name),
            message=html.escape(message),
            hint=html.escape(hint),
        )
        return web.Response(
            status=status, text=text, content_type="text/html", headers=CIMultiDict(headers)
        )


async def _pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    await _continue(request)
    async for piece in request.content.iter_chunked(PIECE):
        yield piece


async def _continue(request: web.BaseRequest) -> None:
    """Lets a client begin that waits to be told so."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _pairs(raw: Any) -> Headers:
    return [(_text(name), _text(value)) for name, value in raw]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}<title>{name}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; max-width: 34em; margin: 18vh auto; padding: 0 2em; }}
h1 {{ font-size: 1.2em; }}
</style></head><body><main><h1>{message}</h1><p>{hint}</p></main></body></html>
"""
