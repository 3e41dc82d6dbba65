"""Ports of hosts under Jupyter's own address, where `ProxyPorts` allows it: for Hubs.

The request and its answer pass as for apps on an origin of their own (`apps.View`), on the core
thread; this is the browser's side of it, in Jupyter's server. Jupyter's XSRF cookie is nothing that
a host's pages know, so requests are judged by where they come from instead, as apps' are.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import httputil, web
from tornado.iostream import IOStream, StreamClosedError

from ..errors import Reason, TPUError
from ..links import core_thread
from .gate import Gate
from .handlers import Handler
from .proxy_ports import ROOT, ProxyPorts

if TYPE_CHECKING:
    from ..apps import Asked, View
    from ..apps.origin import Headers

T = TypeVar("T")

#: What this handler is at, below the base URL: TPU, host, port, and the path there.
PATTERN = f"/{ROOT}/([^/]+)/([^/]+)/([^/]+)(/.*)?"


@web.stream_request_body
class ProxyHandler(Handler):
    """One request. Everything is checked before the first byte of its body is read."""

    def initialize(self, ports: ProxyPorts, gate: Gate) -> None:
        self._ports = ports
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._small = bytearray()
        #: On the core thread: the body of a request that is sent on while it comes; b"" ends it.
        self._body: asyncio.Queue[bytes] | None = None
        self._work: asyncio.Future[None] | None = None
        self._pump: asyncio.Future[None] | None = None

    async def prepare(self) -> None:  # type: ignore[override]
        await super().prepare()
        if not self._finished:
            await ensure_async(self._admit())

    @web.authenticated
    @authorized("write")
    async def _admit(self) -> None:
        """Ends a request that may not go on; begins to send on one with much to say."""
        from ..apps import Beneath
        from ..apps.exchange import SMALL

        request = self.request
        tpu, _, port, path = self.path_args
        try:
            self._ports.check(tpu, port)
        except TPUError as error:
            return self._fail(error, 403)
        # As it stands in the request, where names may be quoted.
        uri = request.uri or ""
        depth = self.base_url.count("/") + ROOT.count("/") + 4
        prefix = "/".join(uri.partition("?")[0].split("/")[:depth])
        self._place = Beneath(request.host, prefix)
        self._upgrade = request.headers.get("Upgrade", "").lower() == "websocket"
        if (refused := self._refusal()) is not None:
            return self._fail(TPUError(refused, Reason.PERMISSION), 403)
        if not path:
            return self.redirect(f"{prefix}/{uri[len(prefix) :]}", status=307)
        self._transforms = []  # the host's bytes are not compressed anew
        # Nor does a body wait until the browser has said that it has the head.
        connection: Any = request.connection
        connection.stream.set_nodelay(True)
        length = request.headers.get("Content-Length", "0")
        if not length.isdecimal():
            raise web.HTTPError(400, "Content-Length is a number.")
        if "Transfer-Encoding" in request.headers or int(length) > SMALL:
            connection.set_max_body_size(sys.maxsize)
            self._body = asyncio.Queue(4)
            self._begin_work(_pieces(self._body))
        return None

    def _refusal(self) -> str | None:
        """Why a request may not go on, by where it comes from; in place of XSRF cookies."""
        from ..apps.origin import refusal

        if self.token_authenticated:
            return None  # no browser adds a token by itself
        method, headers = self.request.method or "", self.request.headers
        if method not in ("GET", "HEAD") and not {"Origin", "Sec-Fetch-Site"} & set(headers):
            return "A request that changes something needs to say its origin."
        refused = refusal(self._place, method, headers, upgrade=self._upgrade)
        return refused.message if refused is not None else None

    def check_xsrf_cookie(self) -> None:
        """See the top of this file; `_admit` does it."""

    def check_origin(self, origin_to_satisfy_tornado: str = "") -> bool:
        """The same."""
        return True

    def get_login_url(self) -> str:
        """A person is led to the login page; a page's request is refused."""
        if self._is_navigation():
            return super(APIHandler, self).get_login_url()
        raise web.HTTPError(403)

    async def data_received(self, chunk: bytes) -> None:
        if self._body is None or self._work is None:
            if not self._finished:
                self._small += chunk
            return
        put = asyncio.ensure_future(core_thread().call(self._body.put(chunk)))
        await asyncio.wait([put, self._work], return_when=asyncio.FIRST_COMPLETED)
        put.cancel()  # nobody takes it any more, if it is still to be taken

    def on_connection_close(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _answer(self, *_: str) -> None:
        if self._finished:
            return
        if self._body is not None:
            await core_thread().call(self._body.put(b""))
        elif self._work is None:
            self._begin_work(bytes(self._small) or None)
        assert self._work is not None
        await asyncio.wait([self._work])
        if self._pump is not None:
            await self._pump
        if self._work.cancelled():  # the browser is gone
            self._auto_finish = False
        else:
            self._work.result()

    get = head = post = put = patch = delete = _answer
    options = _answer  # type: ignore[assignment]

    # ---- the work, on both loops ----

    def _begin_work(self, body: Any) -> None:
        from ..apps import Asked

        request = self.request
        path = self._place.at_host(request.uri or "") or "/"
        length = request.headers.get("Content-Length")
        asked = Asked(
            request.method or "",
            path,
            [(name, value) for name, value in request.headers.get_all()],
            body,
            int(length) if length is not None else None,
        )
        self._work = asyncio.ensure_future(self._run(asked))

    async def _run(self, asked: Asked) -> None:
        from ..apps.exchange import status_of

        try:
            await core_thread().call(self._carry(asked))
        except TPUError as error:
            self._fail(error, status_of(error))
        except ConnectionResetError:
            self.detach().close()
        except StreamClosedError:
            self._auto_finish = False

    async def _carry(self, asked: Asked) -> None:
        """On the core thread."""
        from ..apps import View

        tpu, host, port, _ = self.path_args
        if not host.isdecimal():
            raise TPUError(f"{host!r} is not a host.", Reason.INVALID, "Hosts are numbered from 0.")
        begin = self.request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        site = await self._gate.call("site", tpu, int(host), int(port), begin)
        view = View(site.upstream, site.name, self._place, "", site.anywhere)
        if self._upgrade:
            return await self._carry_socket(view, asked)
        async with view.exchange(asked) as came:
            await self._here(self._head(came.status, came.reason, came.headers))
            async for piece in came.pieces():
                await self._here(self._piece(piece))
        return None

    async def _carry_socket(self, view: View, asked: Asked) -> None:
        from ..apps.splice import splice

        handshake = await view.shake(asked)
        if handshake.status != 101:
            status, headers = handshake.refused()
            return await self._here(self._head(status, "", headers))
        near = await self._here(self._give_away())
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(_Waiting, near)
        return await splice(transport, handshake, handshake.head())

    async def _here(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """From the core thread: on the server's loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def _head(self, status: int, reason: str, headers: Headers) -> None:
        self._headers = httputil.HTTPHeaders()  # none of Jupyter's own
        self.set_status(status, reason or None)
        for name, value in headers:
            self.add_header(name, value.encode("utf-8", "surrogateescape"))
        await self.flush()

    async def _piece(self, piece: bytes) -> None:
        self.write(piece)
        await self.flush()

    async def _give_away(self) -> socket.socket:
        """The browser's connection, as a socket that another loop can have: TLS stays here."""
        stream: IOStream = self.detach()
        ours, theirs = socket.socketpair()
        self._pump = asyncio.ensure_future(_join(stream, IOStream(ours)))
        return theirs

    # ---- what is said instead ----

    def _is_navigation(self) -> bool:
        headers = self.request.headers
        # Browsers that speak http to another machine don't say what for they ask.
        return headers.get("Sec-Fetch-Mode", "navigate") == "navigate" and "text/html" in (
            headers.get("Accept", "")
        )

    def _fail(self, error: TPUError, status: int) -> None:
        """A page for people, a Problem for programs; after the head nothing but an end."""
        from ..apps.pages import page

        if self._headers_written:
            self.detach().close()
            return
        if not self._is_navigation():
            self.write_problem(error, status)
            return
        again = error.reason is Reason.NOT_FOUND and self.request.method == "GET"
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
        self.set_header("Content-Security-Policy", policy)
        tpu, _, port, _ = self.path_args
        text = page(f"Port {port} of {tpu}", error.message, error.hint, again=again)
        self.finish(text, set_content_type="text/html; charset=utf-8")


async def _pieces(body: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while piece := await body.get():
        yield piece


class _Waiting(asyncio.Protocol):
    """Reads nothing until somebody else has the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


async def _join(one: IOStream, other: IOStream) -> None:
    """Passes what comes from each to the other until one ends."""

    async def carry(source: IOStream, sink: IOStream) -> None:
        with contextlib.suppress(StreamClosedError):
            while True:
                await sink.write(await source.read_bytes(256 << 10, partial=True))
        source.close()
        sink.close()

    await asyncio.gather(carry(one, other), carry(other, one))
