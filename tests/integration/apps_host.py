"""A web application on an emulated host, a browser's side of an app, and a fleet between them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import App, AppVisit, OpenApp, VisitApp
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links
from jupyter_tpu.ssh import Keepalive

LAB = "http://127.0.0.1:8888"
BLOCK = bytes(range(256)) * 1024  # 256 KiB


@contextlib.asynccontextmanager
async def fleet_on(state_file: Path, folder: Path) -> AsyncIterator[Fleet]:
    """A fleet as a Jupyter server has it."""
    links = Links(CloudTPU(Target(emulator=str(state_file))), keepalive=Keepalive(1, 2))
    fleet = await Fleet.open(links, KernelSpecs(folder / "kernels"), folder / "fleet.sqlite")
    try:
        yield fleet
    finally:
        await fleet.close()
        await links.close()
        await links.cloud.close()


@contextlib.asynccontextmanager
async def serving(app: web.Application, address: str) -> AsyncIterator[int]:
    """A web application on *address* of a host; gives its port."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, address, 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Visitor:
    """A browser that has one app open, as far as HTTP tells."""

    def __init__(self, visit: AppVisit) -> None:
        self.visit = visit
        parts = urlsplit(visit.url)
        self.host = parts.netloc
        self.port = parts.port
        self.origin = f"http://{self.host}"
        self.headers = {"Host": self.host, "Sec-Fetch-Site": "same-origin"}
        self.session = aiohttp.ClientSession(
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding", "Content-Type"],
        )

    async def enter(self) -> aiohttp.ClientResponse:
        """Uses the ticket, as the frame in JupyterLab does; keeps the cookie."""
        parts = urlsplit(self.visit.url)
        headers = {
            "Host": self.host,
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "iframe",
        }
        answer = await self.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        if "Set-Cookie" in answer.headers:
            self.headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
        return answer

    async def request(self, method: str, path: str, **more: Any) -> aiohttp.ClientResponse:
        headers = more.pop("headers", None) or self.headers
        url = aiohttp.client.URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        return await self.session.request(
            method, url, headers=headers, allow_redirects=False, **more
        )

    async def get(self, path: str, **more: Any) -> aiohttp.ClientResponse:
        return await self.request("GET", path, **more)

    def websocket(self, path: str, **more: Any) -> Any:
        headers = {**self.headers, "Origin": self.origin, **more.pop("headers", {})}
        url = f"http://127.0.0.1:{self.port}{path}"
        return self.session.ws_connect(url, headers=headers, **more)


@contextlib.asynccontextmanager
async def opened(
    fleet: Fleet,
    tpu: str,
    port: int,
    *,
    framed_by: str = LAB,
    path: str = "/",
    host: int = 0,
    allow_external: bool = False,
) -> AsyncIterator[Visitor]:
    """The app on *port*, and a browser that has entered it."""
    app: App = await fleet.apps.open(
        tpu, OpenApp(port=port, path=path, host=host, allow_external=allow_external)
    )
    visitor = Visitor(await fleet.apps.visit(app.id, VisitApp(framed_by=framed_by)))
    try:
        assert (await visitor.enter()).status == 303
        yield visitor
    finally:
        await visitor.session.close()
        if any(other.id == app.id for other in await fleet.apps.list()):
            await fleet.apps.close(app.id)


async def echo(request: web.Request) -> web.Response:
    """What the host was asked."""
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode("latin-1"),
        }
    )


async def take(request: web.Request) -> web.Response:
    """How much came, and what it was."""
    digest, count = hashlib.sha256(), 0
    async for piece in request.content.iter_chunked(1 << 18):
        digest.update(piece)
        count += len(piece)
    return web.json_response([count, digest.hexdigest()])
