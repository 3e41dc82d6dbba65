"""One app: lets browsers in, checks every request, and answers it with what the host says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from aiohttp import web
from multidict import CIMultiDict

from ..errors import Reason, TPUError
from . import origin as rules
from .admission import Admission
from .exchange import PIECE, SMALL, Asked, View, pairs, status_of
from .origin import ENTER, HERE, Headers, Origin
from .pages import page
from .splice import splice
from .upstream import Upstream

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
    anywhere: whether its pages may connect and send forms to anywhere.
    """

    def __init__(
        self, origin: Origin, upstream: Upstream, name: str, *, anywhere: bool = False
    ) -> None:
        self.origin = origin
        self.upstream = upstream
        self.name = name
        self.anywhere = anywhere
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
        view = View(self.upstream, self.name, self.origin, admitted.framed_by, self.anywhere)
        try:
            return await (self._upgrade if upgrade else self._pass_on)(request, view)
        except TPUError as error:
            again = error.reason is Reason.NOT_FOUND
            return self._page(
                request, status_of(error), error.message, error.hint, view, again=again
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

    async def _pass_on(self, request: web.BaseRequest, view: View) -> web.StreamResponse:
        length = request.content_length
        body: Any = None
        if length is not None and length <= SMALL:
            await _continue(request)
            body = await request.read()
        elif request.body_exists:
            body = _pieces(request)
        asked = _asked(request, body, length)
        async with view.exchange(asked) as came:
            typed = any(name.lower() == "content-type" for name, _ in came.headers)
            answer = (web.StreamResponse if typed else Untyped)(
                status=came.status, reason=came.reason, headers=CIMultiDict(came.headers)
            )
            await answer.prepare(request)
            try:
                async for piece in came.pieces():
                    await answer.write(piece)
            except ConnectionResetError:
                if request.transport is not None:
                    request.transport.abort()
                raise
            await answer.write_eof()
            return answer

    async def _upgrade(self, request: web.BaseRequest, view: View) -> web.StreamResponse:
        handshake = await view.shake(_asked(request))
        near = request.transport
        if handshake.status != 101 or near is None:
            status, headers = handshake.refused()
            return web.Response(status=status, headers=CIMultiDict(headers))
        await splice(near, handshake, handshake.head())
        raise ConnectionResetError("the WebSocket has ended")

    def _page(
        self,
        request: web.BaseRequest,
        status: int,
        message: str,
        hint: str,
        view: View | None = None,
        *,
        again: bool = False,
    ) -> web.Response:
        """A page of ours, instead of the host's; *again*: it looks again by itself."""
        headers: Headers = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
        if view is not None:
            headers += view.policy()
        if request.headers.get("Sec-Fetch-Mode") != "navigate":
            text = f"{message} {hint}".strip() + "\n"
            return web.Response(status=status, text=text, headers=CIMultiDict(headers))
        again = again and request.method == "GET"
        text = page(self.name, message, hint, again=again)
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


def _asked(request: web.BaseRequest, body: Any = None, length: int | None = None) -> Asked:
    headers = pairs(request.raw_headers)
    return Asked(request.method, request.raw_path, headers, body, length)
