"""Ports of hosts under Jupyter's own address, where `ProxyPorts` allows it: for Hubs.

Requests are forwarded as for apps on their own origin (`apps.ReverseProxy`), on the core thread.
This is the browser's side, on the server's loop. A host's pages don't know Jupyter's XSRF cookie,
so requests are checked by their origin instead, like those of apps.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import httputil, web
from tornado.iostream import IOStream, StreamClosedError

from ..errors import InvalidInput, Reason, TPUError
from ..fleet.core.host_numbers import small_number
from ..links import core_thread
from .fleet_handle import FleetHandle
from .handlers import StreamingHandler

if TYPE_CHECKING:
    from ..apps import BrowserRequest, ReverseProxy
    from ..apps.headers import Headers
    from ..fleet.models import App


#: Below the server's base URL. It is followed by TPU, host number and port.
ROOT = "jupyter-tpu/proxy"
OPTION = "c.JupyterTPU.proxy_ports"

_ENTRY = re.compile(r"(?:[a-z0-9-]+~)?[a-z][a-z0-9-]*:([0-9]{1,5})")


class ProxyPorts:
    """The allowed ports. *entries*: "my-tpu:6006", or "zone~my-tpu:6006" for one zone.

    Raises INVALID for an invalid entry.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = frozenset(entries)
        for entry in self._entries:
            match = _ENTRY.fullmatch(entry)
            if match is None or not 0 < int(match[1]) < 65536:
                raise InvalidInput(
                    f"{entry!r} in {OPTION} is not a port of a TPU.",
                    'Examples: "my-tpu:6006" or "us-west4-a~my-tpu:6006".',
                )

    def check(self, tpu: str, port: str) -> None:
        """Raises PERMISSION if it is not allowed. *tpu* and *port* are as in the URL."""
        name = tpu.rpartition("~")[2]
        if not self._entries.isdisjoint({f"{tpu}:{port}", f"{name}:{port}"}):
            return
        raise TPUError(
            f"Port {port} of {tpu} is not allowed under Jupyter's own address.",
            Reason.PERMISSION,
            "A page there can do everything that you can do in Jupyter: start terminals, read and "
            "change notebooks. Open it from the TPU panel or with `jupyter tpu app` instead: it "
            "then has its own address. If your browser can't reach that address (behind a "
            "JupyterHub), and you trust everything on this port, allow it in "
            "jupyter_server_config.py: "
            f'{OPTION} = ["{tpu}:{port}"].',
        )

    def path(self, app: App) -> str:
        """An app's path below the server's base URL; "" if it is not allowed there."""
        for tpu in (app.tpu, f"{app.zone}~{app.tpu}"):
            if f"{tpu}:{app.port}" in self._entries:
                # With the zone, because another zone may have a TPU of the same name.
                return f"{ROOT}/{app.zone}~{app.tpu}/{app.host}/{app.port}{app.path}"
        return ""


#: The handler's URL below the base URL: TPU, host, port, and the path on that port.
PATTERN = f"/{ROOT}/([^/]+)/([^/]+)/([^/]+)(/.*)?"


@web.stream_request_body
class ProxyHandler(StreamingHandler):
    """One request. Everything is checked before the first byte of its body is read."""

    def initialize(self, ports: ProxyPorts, fleet: FleetHandle) -> None:
        self._ports = ports
        self._fleet = fleet
        self._buffered_body = bytearray()
        self._body_read = False
        #: On the core thread: a body that is forwarded while it arrives; b"" ends it.
        self._body: asyncio.Queue[bytes] | None = None
        self._forwarding: asyncio.Future[None] | None = None
        self._relaying: asyncio.Future[None] | None = None

    async def prepare(self) -> None:  # type: ignore[override]
        await super().prepare()
        if not self._finished:
            await ensure_async(self._authorize())

    @web.authenticated
    @authorized("write")
    async def _authorize(self) -> None:
        """Refuses a request, or starts to forward one whose body is large."""
        from ..apps import PathMount
        from ..apps.reverse_proxy import MAX_BUFFERED

        request = self.request
        tpu, _, port, path = self.path_args
        try:
            self._ports.check(tpu, port)
        except TPUError as error:
            return self._write_failure(error, 403)
        # As it stands in the request, where parts may be percent-encoded.
        uri = request.uri or ""
        depth = self.base_url.count("/") + ROOT.count("/") + 4
        prefix = "/".join(uri.partition("?")[0].split("/")[:depth])
        self._mount = PathMount(request.host, prefix)
        self._upgrade = request.headers.get("Upgrade", "").lower() == "websocket"
        if (refused := self._refusal()) is not None:
            return self._write_failure(TPUError(refused, Reason.PERMISSION), 403)
        if not path:
            return self.redirect(f"{prefix}/{uri[len(prefix) :]}", status=307)
        self._transforms = []  # the host's response is not compressed again
        # The body must not wait for the browser's TCP acknowledgement of the head.
        connection: Any = request.connection
        connection.stream.set_nodelay(True)
        length = request.headers.get("Content-Length", "0")
        if re.fullmatch("[0-9]{1,18}", length) is None:
            raise web.HTTPError(400, "Content-Length must be a number.")
        if "Transfer-Encoding" in request.headers or int(length) > MAX_BUFFERED:
            connection.set_max_body_size(sys.maxsize)
            self._body = asyncio.Queue(4)
            self._start_forwarding(_body_chunks(self._body))
        return None

    def _refusal(self) -> str | None:
        """Why a request is refused, by its origin. This replaces the XSRF cookie."""
        from ..apps.headers import refusal

        if self.token_authenticated:
            return None  # no browser adds a token automatically, as it does a cookie
        method, headers = self.request.method or "", self.request.headers
        if method not in ("GET", "HEAD") and not {"Origin", "Sec-Fetch-Site"} & set(headers):
            return "This request needs an Origin header."
        refused = refusal(self._mount, method, headers, upgrade=self._upgrade)
        return refused.message if refused is not None else None

    def check_xsrf_cookie(self) -> None:
        """`_authorize` checks the origin instead."""

    def check_origin(self, origin_to_satisfy_tornado: str = "") -> bool:
        """`_authorize` checks the origin."""
        return True

    def get_login_url(self) -> str:
        """Navigation is redirected to the login page; other requests are refused."""
        if self._is_navigation():
            return super(APIHandler, self).get_login_url()
        raise web.HTTPError(403)

    async def data_received(self, chunk: bytes) -> None:
        if self._body is None or self._forwarding is None:
            if not self._finished:
                self._buffered_body += chunk
            return
        put = asyncio.ensure_future(core_thread().call(self._body.put(chunk)))
        await asyncio.wait([put, self._forwarding], return_when=asyncio.FIRST_COMPLETED)
        put.cancel()  # the forwarding has ended

    def on_connection_close(self) -> None:
        super().on_connection_close()  # ends the wait for the rest of a body
        if self._forwarding is not None:
            self._forwarding.cancel()

    def finish(self, *args: Any, **kwargs: Any) -> asyncio.Future[None]:
        if not self._body_read and not self._headers_written:
            # Tornado closes the connection then. A client that reused it would lose a request.
            self.set_header("Connection", "close")
        return super().finish(*args, **kwargs)

    async def _answer(self, *_: str) -> None:
        self._body_read = True
        if self._finished:
            return
        if self._body is not None:
            await core_thread().call(self._body.put(b""))
        elif self._forwarding is None:
            self._start_forwarding(bytes(self._buffered_body) or None)
        assert self._forwarding is not None
        await asyncio.wait([self._forwarding])
        if self._relaying is not None:
            await self._relaying
        if self._forwarding.cancelled():  # the browser is gone
            self._auto_finish = False
        else:
            self._forwarding.result()

    get = head = post = put = patch = delete = _answer
    options = _answer  # type: ignore[assignment]

    # ---- forwarding, on both loops ----

    def _start_forwarding(self, body: Any) -> None:
        from ..apps import BrowserRequest

        ours = self.request
        length = ours.headers.get("Content-Length")
        request = BrowserRequest(
            ours.method or "",
            self._mount.to_host_path(ours.uri or "") or "/",
            [(name, value) for name, value in ours.headers.get_all()],
            body,
            int(length) if length is not None else None,
        )
        self._forwarding = asyncio.ensure_future(self._run(request))

    async def _run(self, request: BrowserRequest) -> None:
        from ..apps.reverse_proxy import status_of

        try:
            await core_thread().call(self._forward(request))
        except TPUError as error:
            self._write_failure(error, status_of(error))
        except ConnectionResetError:
            self.detach().close()
        except StreamClosedError:
            self._auto_finish = False

    async def _forward(self, request: BrowserRequest) -> None:
        """On the core thread."""
        from ..apps import ReverseProxy

        tpu, host, port, _ = self.path_args
        number, at = small_number(host), small_number(port)
        if number is None or at is None:
            raise InvalidInput(
                f"{host[:20]}/{port[:20]} is not a host and a port.", "Hosts are numbered from 0."
            )
        begin = self.request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        site = await self._fleet.call("apps.site", tpu, number, at, begin)
        proxy = ReverseProxy(site.upstream, site.name, self._mount, "", site.allow_external)
        if self._upgrade:
            return await self._forward_websocket(proxy, request)
        async with proxy.forward(request) as response:
            head = self._write_head(response.status, response.reason, response.headers)
            await self.on_server_loop(head)
            async for chunk in response.chunks():
                await self.on_server_loop(self.write_chunk(chunk))
        return None

    async def _forward_websocket(self, proxy: ReverseProxy, request: BrowserRequest) -> None:
        from ..apps.websocket_tunnel import tunnel

        handshake = await proxy.open_websocket(request)
        if handshake.status != 101:
            status, headers = handshake.refuse()
            return await self.on_server_loop(self._write_head(status, "", headers))
        browser = await self.on_server_loop(self._detach_socket())
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(_PausedProtocol, browser)
        return await tunnel(transport, handshake)

    async def _write_head(self, status: int, reason: str, headers: Headers) -> None:
        self._headers = httputil.HTTPHeaders()  # without Jupyter's own
        self.set_status(status, reason or None)
        for name, value in headers:
            self.add_header(name, value.encode("utf-8", "surrogateescape"))
        await self.flush()

    async def _detach_socket(self) -> socket.socket:
        """The browser's connection as a socket for another loop. TLS stays on this one."""
        stream: IOStream = self.detach()
        ours, theirs = socket.socketpair()
        self._relaying = asyncio.ensure_future(_relay(stream, IOStream(ours)))
        return theirs

    # ---- failures ----

    def _is_navigation(self) -> bool:
        headers = self.request.headers
        # Browsers send no Sec-Fetch headers over http to another machine.
        return headers.get("Sec-Fetch-Mode", "navigate") == "navigate" and "text/html" in (
            headers.get("Accept", "")
        )

    def _write_failure(self, error: TPUError, status: int) -> None:
        """A page for people, a Problem for programs. After the head: closes the connection."""
        from ..apps.site import page

        if self._headers_written:
            self.detach().close()
            return
        if not self._is_navigation():
            self.write_problem(error, status)
            return
        refresh = error.reason is Reason.NOT_FOUND and self.request.method == "GET"
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
        self.set_header("Content-Security-Policy", policy)
        tpu, _, port, _ = self.path_args
        text = page(f"Port {port} of {tpu}", error.message, error.hint, refresh=refresh)
        self.finish(text, set_content_type="text/html; charset=utf-8")


async def _body_chunks(body: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while chunk := await body.get():
        yield chunk


class _PausedProtocol(asyncio.Protocol):
    """Reads nothing until another protocol takes the connection over."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


async def _relay(one: IOStream, other: IOStream) -> None:
    """Copies data both ways until one stream closes."""

    async def carry(source: IOStream, sink: IOStream) -> None:
        with contextlib.suppress(StreamClosedError):
            while True:
                await sink.write(await source.read_bytes(256 << 10, partial=True))
        source.close()
        sink.close()

    await asyncio.gather(carry(one, other), carry(other, one))
