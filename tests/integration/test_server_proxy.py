"""Ports of hosts under Jupyter's own address: refused, unless allowed, and then without anything of
Jupyter's for the host.
"""

import asyncio
import hashlib
import re
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from apps_host import BLOCK, echo, take
from traitlets import TraitError
from waiting import eventually
from yarl import URL

from jupyter_tpu.fleet.models import OpenApp
from jupyter_tpu.server.app import JupyterTPU

pytest_plugins = ["pytest_jupyter.jupyter_server"]

LIMIT = 60.0  # seconds for anything
ZONE = "us-central1-a"
#: What a browser says that asks for a page, and what a page's script says.
NAVIGATION = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
SCRIPT = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}


@pytest.fixture(scope="module")
def node(emulator: Any) -> Iterator[dict[str, Any]]:
    """A TPU that the tests leave as it was."""
    with emulator.tpu("proxied", zone=ZONE) as node:
        yield node


@pytest.fixture
def tpu(node: dict[str, Any]) -> str:
    return node["name"].rpartition("/")[2]


@pytest.fixture
def sockets(node: dict[str, Any]) -> Iterator[list[socket.socket]]:
    """Two that listen on the host: the first one's port may be shown."""
    address = node["networkEndpoints"][0]["ipAddress"]
    made = [socket.create_server((address, 0)) for _ in range(2)]
    yield made
    for listener in made:
        listener.close()


@pytest.fixture
def jp_server_config(emulator: Any, tpu: str, sockets: list[socket.socket]) -> dict[str, Any]:
    allowed = [f"{tpu}:{sockets[0].getsockname()[1]}", "elsewhere~other:1"]
    return {
        "ServerApp": {"jpserver_extensions": {"jupyter_tpu": True}, "max_body_size": 1 << 20},
        "JupyterTPU": {"emulator": str(emulator.state_file), "proxy_ports": allowed},
    }


class Host:
    """The web server on both ports, which notes all that it is told."""

    def __init__(self) -> None:
        self.seen: list[web.Request] = []
        self.go = asyncio.Event()
        self.left = asyncio.Event()
        self.app = web.Application(client_max_size=0)
        for name in ("echo", "stream", "events", "away", "cookies", "half", "talk",
                     "forever"):  # fmt: skip
            self.app.router.add_route("*", f"/{name}", getattr(self, name))
        self.app.router.add_route("*", "/take", take)
        self.app.router.add_route("*", "/", self.echo)

    async def echo(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        return await echo(request)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        if "length" in request.query:
            answer.content_length = 64 * len(BLOCK)
        await answer.prepare(request)
        for _ in range(64):
            await answer.write(BLOCK)
        return answer

    async def events(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for number in range(3):
            await answer.write(f"data: {number}\n\n".encode())
            await self.go.wait()
            self.go.clear()
        return answer

    async def away(self, request: web.Request) -> web.Response:
        to = request.query["to"].replace("PORT", str(request.url.port))
        return web.Response(status=302, headers={"Location": to})

    async def cookies(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        answer = web.Response(text="x")
        for value in request.query.getall("set", []):
            answer.headers.add("Set-Cookie", value)
        answer.headers["Service-Worker-Allowed"] = "/"
        answer.headers["Content-Security-Policy"] = "img-src *; frame-ancestors *"
        return answer

    async def half(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"x" * 1000)
        request.transport.close()
        return answer

    async def forever(self, request: web.Request) -> web.StreamResponse:
        """Until nobody listens any more."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 1000)
                await asyncio.sleep(0.01)
        except OSError:
            return answer
        finally:
            self.left.set()

    async def talk(self, request: web.Request) -> web.WebSocketResponse:
        self.seen.append(request)
        socket = web.WebSocketResponse(protocols=("chat",), max_msg_size=0)
        await socket.prepare(request)
        await socket.send_str("first")
        async for message in socket:
            if message.data == "end":
                break
            await socket.send_bytes(message.data)
        return socket


@pytest.fixture
def host(sockets: list[socket.socket], jp_asyncio_loop: Any) -> Iterator[Host]:
    host = Host()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(host.app, shutdown_timeout=0.1)
        await runner.setup()
        for listener in sockets:
            await web.SockSite(runner, listener).start()
        return runner

    runner = jp_asyncio_loop.run_until_complete(start())
    yield host
    jp_asyncio_loop.run_until_complete(runner.cleanup())


class Browser:
    """Somebody who is logged in, as far as HTTP tells: with Jupyter's cookies and no token."""

    def __init__(self, url: str, base: str, prefix: str) -> None:
        self.url = url
        self.base = base
        self.prefix = prefix
        self.cookies: dict[str, str] = {}  # whatever their path
        self.session = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding", "Content-Type"],
        )

    async def log_in(self, token: str) -> None:
        url = URL(f"{self.url}{self.base}api/me?token={token}", encoded=True)
        async with self.session.get(url) as answer:
            assert answer.status == 200
            self._keep(answer)
        self.cookies["_xsrf"] = "2|xsrf-of-jupyter"  # as JupyterLab's page sets it
        self.cookies["jupyterhub-session-id"] = "session-of-a-hub"
        assert any(name.startswith("username-") for name in self.cookies)

    def _keep(self, answer: aiohttp.ClientResponse) -> None:
        self.cookies |= {name: cookie.coded_value for name, cookie in answer.cookies.items()}

    def _sent(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def request(self, method: str, path: str, **more: Any) -> aiohttp.ClientResponse:
        headers = {**SCRIPT, "Origin": self.url, "Cookie": self._sent(), **more.pop("headers", {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        url = URL(f"{self.url}{self.prefix}{path}", encoded=True)
        asking = self.session.request(method, url, headers=headers, allow_redirects=False, **more)
        answer = await asyncio.wait_for(asking, LIMIT)
        self._keep(answer)
        return answer

    async def get(self, path: str, **more: Any) -> aiohttp.ClientResponse:
        return await self.request("GET", path, **more)

    def websocket(self, path: str, **more: Any) -> Any:
        headers = {"Origin": self.url, "Cookie": self._sent(), **more.pop("headers", {})}
        url = URL(f"{self.url}{self.prefix}{path}", encoded=True)
        return self.session.ws_connect(url, headers=headers, **more)


@pytest.fixture
def browser(
    jp_asyncio_loop: Any,
    jp_serverapp: Any,
    http_server: Any,
    http_server_port: Any,
    jp_base_url: str,
    tpu: str,
    sockets: list[socket.socket],
    host: Host,
) -> Iterator[Browser]:
    """With the port that may be shown."""

    async def start() -> Browser:
        port = sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{http_server_port[1]}"
        browser = Browser(url, jp_base_url, f"{jp_base_url}jupyter-tpu/proxy/{tpu}/0/{port}")
        await browser.log_in(jp_serverapp.identity_provider.token)
        # Only a page that is gone to opens a port; what a page asks for comes later.
        page = await browser.get("/", headers={**NAVIGATION, "Origin": None})
        assert page.status == 200, await page.text()
        host.seen.clear()
        return browser

    browser = jp_asyncio_loop.run_until_complete(start())
    yield browser
    jp_asyncio_loop.run_until_complete(browser.session.close())


async def test_a_port_is_refused_with_the_reason_and_the_way_unless_it_is_allowed(
    browser, tpu, sockets, host, jp_base_url
):
    other = sockets[1].getsockname()[1]
    root = f"{jp_base_url}jupyter-tpu/proxy"
    for place in (
        f"{tpu}/0/{other}/echo",
        f"{tpu}/1/{other}/",
        f"{tpu}/0/{other}",
        f"{ZONE}~{tpu}/0/{other}/",
        "other/0/1/",  # allowed is the one of another zone
        "nothing/x/y/",
    ):
        browser.prefix = f"{root}/{place}"
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = await browser.request(method, "", data=None if method == "GET" else b"x")
            assert answer.status == 403, (method, place)
            assert answer.headers["Connection"] == "close", "its body is not read"
            problem = await answer.json()
            assert problem["reason"] == "PERMISSION"
            assert "is not allowed under Jupyter's own address" in problem["message"]
            assert "start terminals" in problem["hint"]
            assert "c.JupyterTPU.proxy_ports = [" in problem["hint"]
        page = await browser.get("", headers={**NAVIGATION, "Origin": None})
        assert (page.status, page.content_type) == (403, "text/html")
        assert "start terminals" in await page.text()
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await browser.websocket("")
        assert error.value.status == 403
    assert host.seen == []


async def test_what_is_allowed_says_which_port_of_which_tpu():
    assert JupyterTPU().proxy_ports == []
    for wrong in ("my-tpu", "my-tpu:0", "my-tpu:70000", "my-tpu:*", "*:80", ":80", "a/b:80", ""):
        with pytest.raises(TraitError, match="is not a port of a TPU"):
            JupyterTPU(proxy_ports=[wrong])


async def test_the_host_is_asked_without_anything_of_jupyters(browser, host, sockets, jp_serverapp):
    token = jp_serverapp.identity_provider.token
    port = sockets[0].getsockname()[1]
    path = f"/echo?a=%2F&token={token}&b&_xsrf=1"
    referer = f"{browser.url}{browser.prefix}/page?token={token}&c=1"
    headers = {"X-XSRFToken": "1", "X-Mine": "2", "Referer": referer}
    answer = await browser.request("POST", path, headers=headers, data=b"body")
    seen = await answer.json()
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/echo?a=%2F&b", "body")
    assert seen["headers"] == {
        "host": f"localhost:{port}",
        "origin": f"http://localhost:{port}",
        "referer": f"http://localhost:{port}/page?c=1",
        "sec-fetch-site": "same-origin",
        "sec-fetch-mode": "cors",
        "x-mine": "2",
        "content-length": "4",
    }
    # With the token instead of cookies, from a program.
    async with (
        aiohttp.ClientSession() as program,
        program.put(
            URL(f"{browser.url}{browser.prefix}/echo", encoded=True),
            headers={"Authorization": f"token {token}"},
            data=b"x",
        ) as answer,
    ):
        assert (await answer.json())["method"] == "PUT"
    # Jupyter's cookies go nowhere, and the host's own come back to it alone.
    login = next(name for name in browser.cookies if name.startswith("username-"))
    real = browser.cookies[login]
    sets = ["mine=1; Path=/; HttpOnly", f"{login}=stolen; Path=/", "_xsrf=2", "wide=1; Domain=x.y"]
    answer = await browser.get(
        "/cookies?" + "&".join(f"set={quote(value, safe='')}" for value in sets)
    )
    for value in answer.headers.getall("Set-Cookie"):
        assert re.match(r"jupyter-tpu-[0-9a-f]{12}-\w", value), value
        assert f"Path={browser.prefix}/" in value
        assert "domain" not in value.lower()
    seen = await (await browser.get("/echo")).json()
    assert sorted(seen["headers"]["cookie"].split("; ")) == sorted(
        ["mine=1", f"{login}=stolen", "_xsrf=2", "wide=1"]
    )
    assert "Service-Worker-Allowed" not in answer.headers
    assert answer.headers.getall("Content-Security-Policy") == [
        "img-src *",
        f"frame-ancestors 'self'; connect-src 'self' ws://{browser.url[7:]} "
        f"wss://{browser.url[7:]}; form-action 'self'",
    ]
    everything = "".join(f"{r.raw_path} {r.headers}" for r in host.seen)
    assert browser.cookies[login] == real
    assert real not in everything
    for theirs in (token, "of-jupyter", "of-a-hub"):
        assert theirs not in everything
    # Still logged in, and Jupyter's own API asks for its XSRF cookie as ever.
    browser.prefix = f"{browser.base}api"
    assert (await browser.get("/me")).status == 200
    assert (await browser.request("POST", "/terminals")).status == 403


async def test_only_jupyters_own_pages_and_who_is_logged_in_get_to_it(browser, host):
    there = {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}
    for method, change, status in (
        ("GET", {}, 200),
        ("POST", {}, 200),
        ("GET", {**NAVIGATION, "Sec-Fetch-Site": "cross-site", "Origin": None}, 200),
        ("POST", {**NAVIGATION, "Sec-Fetch-Site": "cross-site", "Origin": None}, 403),
        ("POST", there, 403),
        ("GET", there, 403),
        ("GET", {**there, "Origin": None}, 403),
        ("POST", {"Origin": "null"}, 403),
        ("POST", {"Sec-Fetch-Site": None, "Sec-Fetch-Mode": None, "Origin": None}, 403),
        ("POST", {"Sec-Fetch-Site": None, "Sec-Fetch-Mode": None}, 200),
        ("OPTIONS", there, 403),
    ):
        host.seen.clear()
        answer = await browser.request(method, "/echo", headers=change)
        assert (answer.status, len(host.seen)) == (status, int(status == 200)), (method, change)
    host.seen.clear()
    for origin in ("http://evil.example", "null"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await browser.websocket("/talk", headers={"Origin": origin})
        assert error.value.status == 403
    browser.cookies.clear()
    for headers, status in (({}, 403), ({**NAVIGATION, "Origin": None}, 302)):
        answer = await browser.get("/echo", headers=headers)
        assert answer.status == status
    assert "/login?next=" in answer.headers["Location"]
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        await browser.websocket("/talk")
    assert error.value.status == 403
    assert (await browser.request("POST", "/echo", data=b"x" * 200_000)).status == 403
    assert host.seen == []


async def test_redirects_stay_beneath_the_prefix(browser):
    bare = await browser.get("?a=1")
    assert (bare.status, bare.headers["Location"]) == (307, f"{browser.prefix}/?a=1")
    for to, here in (
        ("/next?a=1#b", f"{browser.prefix}/next?a=1#b"),
        ("next", "next"),
        ("http://localhost:PORT/x", f"{browser.prefix}/x"),
        ("http://127.0.0.1:PORT", browser.prefix),
        (f"{browser.prefix}/told", f"{browser.prefix}/told"),
        ("https://example.org/x", "https://example.org/x"),
    ):
        moved = await browser.get("/away?to=" + quote(to, safe=""))
        assert (moved.status, moved.headers["Location"]) == (302, here)


async def test_answers_pass_as_the_host_gives_them(browser, host):
    digest = hashlib.sha256(BLOCK * 64).hexdigest()
    for path in ("/stream", "/stream?length"):
        answer = await browser.get(path, headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in answer.headers
        assert ("Content-Length" in answer.headers) == ("length" in path)
        assert hashlib.sha256(await answer.read()).hexdigest() == digest
    head = await browser.request("HEAD", "/echo")
    assert head.status == 200, head.headers
    assert int(head.headers["Content-Length"]) > 0
    assert await head.read() == b""
    events = await browser.get("/events")
    assert events.headers["Content-Type"] == "text/event-stream"
    for number in range(3):
        # The next one is not sent before this one has arrived.
        line = await asyncio.wait_for(events.content.readuntil(b"\n\n"), LIMIT)
        assert line == f"data: {number}\n\n".encode()
        host.go.set()
    half = await browser.get("/half")
    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
        await half.read()
    assert (await browser.get("/missing")).status == 404


async def upload(browser: Browser, blocks: int) -> None:
    async def give() -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield BLOCK

    expected = [blocks * len(BLOCK), hashlib.sha256(BLOCK * blocks).hexdigest()]
    for length in ({}, {"Content-Length": str(blocks * len(BLOCK))}):
        answer = await browser.request("POST", "/take", headers=length, data=give())
        assert await answer.json() == expected


async def test_a_body_goes_to_the_host_while_it_comes(browser):
    await upload(browser, 80)


@pytest.mark.long
async def test_a_body_above_jupyters_own_limit_goes_to_the_host(browser):
    await upload(browser, 500)


async def test_a_websocket_carries_messages_both_ways_and_its_end(browser, host):
    async with browser.websocket("/talk", protocols=("chat",), max_msg_size=0) as socket:
        assert socket.protocol == "chat"
        assert (await asyncio.wait_for(socket.receive(), LIMIT)).data == "first"
        for size in (0, 1, 125, 65_536, 5_000_000):
            await socket.send_bytes(BLOCK[:1] * size)
            assert (await asyncio.wait_for(socket.receive(), LIMIT)).data == BLOCK[:1] * size
        assert (await browser.get("/echo")).status == 200
        await socket.send_str("end")
        ended = await asyncio.wait_for(socket.receive(), LIMIT)
        assert ended.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    for request in host.seen:
        assert "username-" not in str(request.headers)
        assert "_xsrf" not in str(request.headers)
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        await browser.websocket("/missing")
    assert error.value.status == 404


async def test_a_browser_that_leaves_ends_what_the_host_sends(browser, host):
    answer = await browser.get("/forever")
    assert answer.status == 200
    await answer.content.readexactly(1000)
    answer.close()
    await asyncio.wait_for(host.left.wait(), LIMIT)


async def test_an_upload_that_is_aborted_ends_its_handler(browser):
    def handlers() -> int:
        """Requests that this server is still working on."""
        tasks = (task.get_coro() for task in asyncio.all_tasks())
        return sum(getattr(task, "__qualname__", "").endswith("._execute") for task in tasks)

    await eventually(lambda: not handlers())
    sent = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield BLOCK
        sent.set()
        await asyncio.Event().wait()

    upload = asyncio.ensure_future(browser.request("POST", "/take", data=body()))
    await asyncio.wait_for(sent.wait(), LIMIT)
    await eventually(handlers)
    upload.cancel()
    await asyncio.gather(upload, return_exceptions=True)
    await eventually(lambda: not handlers())


async def test_a_visit_says_where_an_app_is_beneath_jupyter(browser, tpu, sockets, jp_serverapp):
    fleet = jp_serverapp.extension_manager.extension_points["jupyter_tpu"].app.fleet
    allowed, other = (listener.getsockname()[1] for listener in sockets)
    visits = []
    for port in (allowed, other):
        app = await fleet.call("apps.open", tpu, OpenApp(port=port, path="/echo"))
        visits.append(await fleet.call("apps.visit", app.id))
    path = f"jupyter-tpu/proxy/{ZONE}~{tpu}/0/{allowed}/echo"
    assert [visit.server_path for visit in visits] == [path, ""]
    browser.prefix = f"{browser.base}{path}"
    assert (await browser.get("")).status == 200
    # Closed: a page that was left open gets no answer, and does not open it again.
    for app in await fleet.call("apps.list"):
        await fleet.call("apps.close", app.id)
    stale = await browser.get("")
    assert stale.status == 502
    assert "is closed" in (await stale.json())["message"]
    anew = await browser.get("", headers={**NAVIGATION, "Origin": None})
    assert anew.status == 200
