"""The one local port that serves all apps of a process. The Host header tells them apart."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import secrets
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ..ssh.listening import listening_sockets
from .mounts import Origin
from .site import ERROR_HEADERS, Site, Untyped
from .upstream import MAX_HEAD, Upstream

log = logging.getLogger(__name__)

#: Seconds for which a browser's idle connection stays open.
KEEP_ALIVE = 75.0
#: Seconds for which closing waits for responses in progress.
SHUTDOWN_TIMEOUT = 1.0


class AppServer:
    """Listens on a random port of both loopback addresses, from the first app on."""

    def __init__(self) -> None:
        self.port = 0
        self._sites: dict[str, Site] = {}
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []
        self._starting = asyncio.Lock()

    async def add(
        self, upstream: Upstream, name: str, label: str, *, allow_external: bool = False
    ) -> Site:
        """A new app, at an origin that was never used and can't be guessed.

        name: shown to people. label: the origin's name begins with it, as far as possible.
        allow_external: see `Site`.
        """
        async with self._starting:
            if self._runner is None:
                await self._start()
        word = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:30] or "app"
        origin = Origin(f"{word}-{secrets.token_hex(8)}", self.port)
        site = Site(origin, upstream, name, allow_external=allow_external)
        self._sites[origin.host] = site
        return site

    def remove(self, site: Site) -> None:
        self._sites.pop(site.origin.host, None)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_response_prepare.append(_prepare_headers)
        runner = web.AppRunner(
            app,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_TIMEOUT,
        )
        await runner.setup()
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        protocol = functools.partial(
            _Connection,
            runner.server,
            loop=loop,
            access_log=cast(Any, None),  # URLs contain tickets
            auto_decompress=False,
            keepalive_timeout=KEEP_ALIVE,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
        )
        sockets = listening_sockets(0)
        for socket in sockets:
            self._servers.append(await loop.create_server(protocol, sock=socket))
        self.port = sockets[0].getsockname()[1]
        self._runner = runner

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        site = self._sites.get(request.headers.get("Host", "").lower())
        if site is None:
            return web.Response(
                status=421,
                text="This app is closed. Open it again from JupyterLab.\n",
                headers=ERROR_HEADERS,
            )
        return await site.handle(request)


class _Connection(web.RequestHandler):
    """aiohttp's own errors, for example for a URL that is too long, get our policy, too."""

    __slots__ = ()

    def handle_error(self, *args: Any, **kwargs: Any) -> web.StreamResponse:
        answer = super().handle_error(*args, **kwargs)
        answer.headers.update(ERROR_HEADERS)
        return answer

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        # A page could fill the log with requests that are not HTTP.
        malformed = isinstance(kwargs.get("exc_info"), HttpProcessingError)
        (log.debug if malformed else log.error)(*args, **kwargs)


async def _prepare_headers(request: web.BaseRequest, answer: web.StreamResponse) -> None:
    """Removes what aiohttp adds to a host's response. aiohttp's own answers, to CONNECT or an
    unknown Expect for example, get our policy, too.
    """
    if "Content-Security-Policy" not in answer.headers:
        answer.headers.update(ERROR_HEADERS)
    answer.headers.pop("Server", None)
    if isinstance(answer, Untyped):
        answer.headers.pop("Content-Type", None)
