"""One app at its origin: lets browsers in, checks every request, and forwards it to the host; and
our own pages there.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from aiohttp import web
from multidict import CIMultiDict

from ..errors import Reason, TPUError
from .auth import AppAuth
from .headers import ERROR_POLICY, Headers, refusal, session_cookie, session_secret
from .mounts import Origin
from .reverse_proxy import CHUNK_BYTES, MAX_BUFFERED, BrowserRequest, ReverseProxy, pairs, status_of
from .upstream import Upstream
from .websocket_tunnel import tunnel

#: Where tickets are redeemed, and what a page requests to learn whether it can reach us at all.
ENTER = "/.jupyter-tpu/enter/"
PROBE = "/.jupyter-tpu/here"
#: A page of ours that tells the page that frames it whether the app may store data there.
STORAGE_CHECK = "/.jupyter-tpu/storage"

#: The headers of every answer that is not the host's.
ERROR_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": ERROR_POLICY,
    "X-Content-Type-Options": "nosniff",
}

_NO_SESSION = (
    "Your session for this app has ended",
    "Open the app again from JupyterLab or with `jupyter tpu app`. If you have just opened it, "
    "your browser blocks its cookie: open it in a new window. For Safari, which blocks it there, "
    "too, use another browser or a tunnel.",
)


class Untyped(web.StreamResponse):
    """A response without a Content-Type, which stays without: browsers then detect the type."""


class Site:
    """An app at its origin.

    Parameters
    ----------
    name: what our own pages call it, such as "port 6006 of my-tpu".
    allow_external: whether its pages may connect and send forms to other servers.
    """

    def __init__(
        self, origin: Origin, upstream: Upstream, name: str, *, allow_external: bool = False
    ) -> None:
        self.origin = origin
        self.upstream = upstream
        self.name = name
        self.allow_external = allow_external
        self.auth = AppAuth()

    def visit(self, path: str, framed_by: str) -> str:
        """A URL that opens the app once, within 30 seconds."""
        ticket = self.auth.issue_ticket(framed_by)
        return f"{self.origin.url}{ENTER}{ticket}?to={quote(path, safe='/')}"

    def probe(self) -> str:
        """A URL that answers any client that can reach this port, and reveals nothing."""
        return self.origin.url + PROBE

    def storage_check(self) -> str:
        """The URL of a page for a frame, which posts `{storage: boolean}` to the framing page."""
        return self.origin.url + STORAGE_CHECK

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request to this origin."""
        upgrade = (
            "upgrade" in request.headers.get("Connection", "").lower()
            and request.headers.get("Upgrade", "").lower() == "websocket"
        )
        path = request.raw_path
        if path.startswith(PROBE) and request.method == "GET":
            return web.Response(status=204, headers=ERROR_HEADERS)
        refused = refusal(
            self.origin,
            request.method,
            request.headers,
            upgrade=upgrade,
            allow_external=self.allow_external,
        )
        if refused is not None:
            return self._page(request, refused.status, refused.message, "")
        if not path.startswith("/"):
            return self._page(request, 400, "The request target must be a path.", "")
        if path == STORAGE_CHECK:
            return _storage_page()
        if path.startswith(ENTER):
            return self._enter(request)
        session = self.auth.find_session(session_secret(request.headers))
        if session is None:
            return self._page(request, 401, *_NO_SESSION)
        proxy = ReverseProxy(
            self.upstream, self.name, self.origin, session.framed_by, self.allow_external
        )
        try:
            return await (self._upgrade if upgrade else self._forward)(request, proxy)
        except TPUError as error:
            refresh = error.reason is Reason.NOT_FOUND
            return self._page(
                request, status_of(error), error.message, error.hint, proxy, refresh=refresh
            )

    def _enter(self, request: web.BaseRequest) -> web.StreamResponse:
        """Exchanges a ticket for a session cookie."""
        parts = urlsplit(request.raw_path)
        session = self.auth.redeem(parts.path[len(ENTER) :])
        if session is None:
            return self._page(request, 401, *_NO_SESSION)
        [to] = parse_qs(parts.query).get("to", ["/"])[:1]
        answer = web.Response(status=303, headers=ERROR_HEADERS)
        # One slash: two would lead to another machine.
        answer.headers["Location"] = quote("/" + to.lstrip("/\\"), safe="/?#&=%:;,+!$'()*@~[]")
        answer.headers["Set-Cookie"] = session_cookie(session.secret)
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    async def _forward(self, request: web.BaseRequest, proxy: ReverseProxy) -> web.StreamResponse:
        length = request.content_length
        body: Any = None
        if length is not None and length <= MAX_BUFFERED:
            await _send_continue(request)
            body = await request.read()
        elif request.body_exists:
            body = _body_chunks(request)
        async with proxy.forward(_request(request, body, length)) as response:
            typed = any(name.lower() == "content-type" for name, _ in response.headers)
            answer = (web.StreamResponse if typed else Untyped)(
                status=response.status,
                reason=response.reason,
                headers=CIMultiDict(response.headers),
            )
            await answer.prepare(request)
            try:
                async for chunk in response.chunks():
                    await answer.write(chunk)
            except ConnectionResetError:
                if request.transport is not None:
                    request.transport.abort()
                raise
            await answer.write_eof()
            return answer

    async def _upgrade(self, request: web.BaseRequest, proxy: ReverseProxy) -> web.StreamResponse:
        handshake = await proxy.open_websocket(_request(request))
        transport = request.transport
        if handshake.status != 101 or transport is None:
            status, headers = handshake.refuse()
            return web.Response(status=status, headers=CIMultiDict(headers))
        await tunnel(transport, handshake)
        raise ConnectionResetError("the WebSocket has ended")

    def _page(
        self,
        request: web.BaseRequest,
        status: int,
        message: str,
        hint: str,
        proxy: ReverseProxy | None = None,
        *,
        refresh: bool = False,
    ) -> web.Response:
        """Our own page instead of the host's; *refresh*: it reloads automatically."""
        headers: Headers = [*ERROR_HEADERS.items()]
        if proxy is not None:
            headers += proxy.policy()
        if request.headers.get("Sec-Fetch-Mode") != "navigate":
            text = f"{message} {hint}".strip() + "\n"
            return web.Response(status=status, text=text, headers=CIMultiDict(headers))
        refresh = refresh and request.method == "GET"
        text = page(self.name, message, hint, refresh=refresh)
        return web.Response(
            status=status, text=text, content_type="text/html", headers=CIMultiDict(headers)
        )


def _storage_page() -> web.Response:
    policy = f"{ERROR_POLICY}; script-src {STORAGE_SCRIPT_SOURCE}"
    headers = {**ERROR_HEADERS, "Content-Security-Policy": policy}
    return web.Response(text=STORAGE_PAGE, content_type="text/html", headers=headers)


async def _body_chunks(request: web.BaseRequest) -> AsyncIterator[bytes]:
    await _send_continue(request)
    async for chunk in request.content.iter_chunked(CHUNK_BYTES):
        yield chunk


async def _send_continue(request: web.BaseRequest) -> None:
    """Tells a client to send its body, if it waits for that."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _request(
    request: web.BaseRequest, body: Any = None, length: int | None = None
) -> BrowserRequest:
    headers = pairs(request.raw_headers)
    return BrowserRequest(request.method, request.raw_path, headers, body, length)


def page(name: str, message: str, hint: str, *, refresh: bool = False) -> str:
    """HTML. *name*: its title; *refresh*: it reloads every 3 seconds."""
    if refresh:
        hint = f"{hint} This page reloads automatically.".strip()
    return _PAGE.format(
        refresh='<meta http-equiv="refresh" content="3">' if refresh else "",
        name=html.escape(name),
        message=html.escape(message),
        hint=html.escape(hint),
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}<title>{name}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; max-width: 34em; margin: 18vh auto; padding: 0 2em; }}
h1 {{ font-size: 1.2em; }}
</style></head><body><main><h1>{message}</h1><p>{hint}</p></main></body></html>
"""

#: Tells the page that frames it whether scripts of this origin may store data there. Browsers that
#: block third-party storage raise an error, and many applications don't expect it.
_STORAGE_SCRIPT = """
let storage = true;
try {
  localStorage.getItem("");
} catch {
  storage = false;
}
parent.postMessage({ storage }, "*");
"""
STORAGE_PAGE = f"<!doctype html><title>Storage</title><script>{_STORAGE_SCRIPT}</script>"
#: The source of its script, for a Content-Security-Policy.
STORAGE_SCRIPT_SOURCE = (
    f"'sha256-{base64.b64encode(hashlib.sha256(_STORAGE_SCRIPT.encode()).digest()).decode()}'"
)
