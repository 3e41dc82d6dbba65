"""Apps of emulated hosts: who gets in, what passes, and how it ends.

The web servers run in this process and listen on a host's own address: emulated hosts share this
machine's network.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from apps_host import BLOCK, LAB, Visitor, echo, fleet_on, opened, serving, take
from refusals import raises
from waiting import eventually

from jupyter_tpu.apps import COOKIE
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import Change, OpenApp, VisitApp
from jupyter_tpu.ssh.transport import WINDOW_BYTES

LIMIT = 60.0  # seconds for anything
ZONE = "us-central1-a"


@pytest_asyncio.fixture
async def fleet(
    emulator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Fleet]:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    async with fleet_on(emulator.state_file, tmp_path) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def node(emulator: Any) -> Iterator[dict[str, Any]]:
    """A TPU for the tests that leave it as it was."""
    with emulator.tpu("apps", "v5litepod-16", ZONE) as node:
        yield node


@pytest.fixture
def tpu(node: dict[str, Any]) -> str:
    return node["name"].rpartition("/")[2]


@pytest.fixture
def address(node: dict[str, Any]) -> str:
    return node["networkEndpoints"][0]["ipAddress"]


def application(**handlers: Any) -> web.Application:
    """One handler per path: ``page=…`` answers /page, ``index=…`` answers /."""
    app = web.Application(client_max_size=0)
    for name, handler in handlers.items():
        app.router.add_route("*", "/" if name == "index" else f"/{name}", handler)
    return app


async def test_a_page_of_a_host_opens_at_an_origin_of_its_own(fleet, tpu, address):
    changes: list[Change] = []
    fleet.subscribe(changes.append)
    async with serving(application(deep=echo), address) as port:
        app = await fleet.apps.open(tpu, OpenApp(port=port, path="/deep?a=1", name="My App!"))
        assert (app.tpu, app.host, app.port, app.name) == (tpu, 0, port, "My App!")
        again = await fleet.apps.open(tpu, OpenApp(port=port, path="/deep?a=1"))
        assert again.id == app.id
        visitor = Visitor(await fleet.apps.visit(app.id, VisitApp(framed_by=LAB)))
        assert visitor.host.startswith("my-app-")
        assert visitor.host.partition(":")[0].endswith(".localhost")
        entered = await visitor.enter()
        assert (entered.status, entered.headers["Location"]) == (303, "/deep?a=1")
        assert entered.headers["Cache-Control"] == "no-store"
        assert entered.headers["Referrer-Policy"] == "no-referrer"
        name, *attributes = entered.headers["Set-Cookie"].split("; ")
        assert name.startswith(f"{COOKIE}=")
        assert attributes == ["Path=/", "HttpOnly", "Secure", "SameSite=None", "Partitioned"]

        cookie = f"theme=dark; {visitor.headers['Cookie']}; a=b"
        headers = {**visitor.headers, "Cookie": cookie, "Origin": visitor.origin, "X-Mine": "1"}
        headers["Referer"] = f"{visitor.origin}/deep"
        answer = await visitor.request("POST", "/deep?a=%2F&b", headers=headers, data=b"body")
        seen = await answer.json()
        assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/deep?a=%2F&b", "body")
        assert seen["headers"] == {
            "host": f"localhost:{port}",
            "x-forwarded-host": visitor.host,
            "x-forwarded-proto": "http",
            "origin": f"http://localhost:{port}",
            "referer": f"http://localhost:{port}/deep",
            "cookie": "theme=dark; a=b",
            "sec-fetch-site": "same-origin",
            "x-mine": "1",
            "content-length": "4",
        }
        assert answer.headers["Content-Security-Policy"] == (
            f"frame-ancestors 'self' {LAB}; connect-src 'self' ws://{visitor.host}; "
            "form-action 'self'"
        )
        [listed] = await fleet.apps.list()
        assert listed.sent > 0
        assert listed.received > 0
        await fleet.apps.close(app.id)
        gone = await visitor.get("/deep")
        assert gone.status == 421
        await visitor.session.close()
    assert await fleet.apps.list() == []
    with pytest.raises(TPUError, match="does not exist"):
        await fleet.apps.visit(app.id)
    await eventually(lambda: any(change.gone for change in changes if change.what == "app"))
    mine = [change for change in changes if change.what == "app"]
    assert mine[0].app is not None
    assert mine[-1].gone


async def test_only_its_own_pages_and_who_opens_it_reach_an_app(fleet, tpu, address):
    asked: list[str] = []

    async def note(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.Response(text="secret")

    async with (
        serving(application(index=note), address) as port,
        opened(fleet, tpu, port) as visitor,
    ):
        good = visitor.headers
        navigation = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
        for change, status in (
            ({}, 200),
            ({"Sec-Fetch-Site": "none"}, 200),
            ({"Origin": visitor.origin}, 200),
            ({**navigation, "Sec-Fetch-Dest": "iframe"}, 200),
            ({**navigation, "Sec-Fetch-Dest": "document"}, 200),
            ({**navigation, "Sec-Fetch-Dest": "embed"}, 403),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
            ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
            ({"Origin": "http://127.0.0.1:8888"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": visitor.origin.upper()}, 403),
            ({"Host": f"127.0.0.1:{visitor.port}"}, 421),
            ({"Host": f"localhost:{visitor.port}"}, 421),
            ({"Host": f"other-{visitor.host}"}, 421),
            ({"Cookie": ""}, 401),
            ({"Cookie": f"{COOKIE}=x"}, 401),
            ({"Cookie": f"{COOKIE}=ä"}, 401),
            (upgrade, 403),
            ({**upgrade, "Origin": "http://127.0.0.1:8888"}, 403),
        ):
            asked.clear()
            answer = await visitor.get("/", headers={**good, **change})
            assert answer.status == status, change
            assert asked == (["/"] if status == 200 else []), change
            assert ("secret" in await answer.text()) == (status == 200), change
        posted = {**good, **navigation, "Sec-Fetch-Dest": "document"}
        assert (await visitor.request("POST", "/", headers=posted)).status == 403
        # A ticket is for once, and another app's cookie is none of this one's.
        assert (await visitor.enter()).status == 401
        async with opened(fleet, tpu, port, path="/other") as other:
            assert other.host != visitor.host
            strange = {**good, "Cookie": other.headers["Cookie"]}
            assert (await visitor.get("/", headers=strange)).status == 401
        # Who can't be let in is told how to get in, and nothing of the host.
        refused = await visitor.get("/", headers={"Host": visitor.host, **navigation,
                                                  "Sec-Fetch-Dest": "iframe"})  # fmt: skip
        assert "Open the app again from JupyterLab" in await refused.text()
        # Whether the port can be reached at all, anybody may ask.
        probe = await visitor.get("/.jupyter-tpu/here", headers={"Host": visitor.host})
        assert (probe.status, await probe.read()) == (204, b"")
        for origin in ("http://a; script-src *", "http://a b", "javascript:x", "http://a\n"):
            [app] = await fleet.apps.list()
            with raises(Reason.INVALID):
                await fleet.apps.visit(app.id, VisitApp(framed_by=origin))


async def test_answers_come_back_as_the_apps_own(fleet, tpu, address):
    async def headers(request: web.Request) -> web.Response:
        answer = web.Response(text="x")
        del answer.headers["Content-Type"]
        for name, value in (
            ("X-Frame-Options", "DENY"),
            ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"),
            ("Set-Cookie", "mine=1; Path=/"),
            ("Set-Cookie", "wide=1; Domain=localhost"),
            ("Set-Cookie", f"{COOKIE}=stolen; Path=/; Secure"),
            ("Strict-Transport-Security", "max-age=1"),
            ("Connection", "X-Private"),
            ("X-Private", "1"),
            ("X-Umlaut", "ä"),
            ("Server", "host's"),
        ):
            answer.headers.add(name, value)
        return answer

    async def away(request: web.Request) -> web.Response:
        to = request.query["to"].replace("PORT", str(request.url.port))
        return web.Response(status=302, headers={"Location": to})

    async def empty(request: web.Request) -> web.Response:
        return web.Response(status=304 if request.query else 204)

    pages = application(headers=headers, away=away, empty=empty, echo=echo)
    async with serving(pages, address) as port, opened(fleet, tpu, port) as visitor:
        answer = await visitor.get("/headers")
        assert answer.headers.getall("Set-Cookie") == ["mine=1; Path=/"]
        policies = answer.headers.getall("Content-Security-Policy")
        assert policies[0] == "default-src 'self'"
        assert policies[1].startswith(f"frame-ancestors 'self' {LAB};")
        for name in ("X-Frame-Options", "Strict-Transport-Security", "X-Private"):
            assert name not in answer.headers, name
        assert answer.headers["X-Umlaut"] == "ä"
        assert answer.headers["Content-Type"] == "application/octet-stream"  # aiohttp's server
        for to, here in (
            ("http://localhost:PORT/next?a=1#b", f"{visitor.origin}/next?a=1#b"),
            ("http://127.0.0.1:PORT", visitor.origin),
            ("/next", "/next"),
            ("next", "next"),
            ("https://example.org/x", "https://example.org/x"),
            ("http://localhost:1/x", "http://localhost:1/x"),
        ):
            moved = await visitor.get("/away?to=" + quote(to, safe=""))
            assert (moved.status, moved.headers["Location"]) == (302, here)
        assert (await visitor.get("/empty")).status == 204
        assert (await visitor.get("/empty?304")).status == 304
        head = await visitor.request("HEAD", "/echo")
        assert head.status == 200
        assert int(head.headers["Content-Length"]) > 0
        assert await head.read() == b""
        put = await visitor.request("PUT", "/echo", data=b"x" * 200_000)
        assert len((await put.json())["body"]) == 200_000


async def test_events_arrive_as_they_are_sent(fleet, tpu, address):
    go = asyncio.Event()

    async def events(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for number in range(3):
            await answer.write(f"data: {number}\n\n".encode())
            await go.wait()
            go.clear()
        return answer

    async with serving(application(events=events), address) as port, opened(
        fleet, tpu, port
    ) as visitor:  # fmt: skip
        answer = await visitor.get("/events")
        assert answer.headers["Content-Type"] == "text/event-stream"
        for number in range(3):
            # The next one is not sent before this one has arrived.
            line = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), LIMIT)
            assert line == f"data: {number}\n\n".encode()
            go.set()
        assert await answer.read() == b""


async def test_a_websocket_carries_messages_both_ways_and_its_end(fleet, tpu, address):
    ended = asyncio.Event()

    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("chat",), max_msg_size=0)
        await socket.prepare(request)
        await socket.send_str("first")  # with the 101, so to speak
        async for message in socket:
            await socket.send_bytes(message.data)
        ended.set()
        return socket

    pages = application(talk=talk, page=echo)
    async with serving(pages, address) as port, opened(fleet, tpu, port) as visitor:
        async with visitor.websocket("/talk", protocols=("chat",), max_msg_size=0) as socket:
            assert socket.protocol == "chat"
            assert (await asyncio.wait_for(socket.receive(), LIMIT)).data == "first"
            for size in (0, 1, 125, 65_536, 5_000_000):
                await socket.send_bytes(BLOCK[:1] * size)
                came = await asyncio.wait_for(socket.receive(), LIMIT)
                assert came.data == BLOCK[:1] * size
            # Other requests go on meanwhile.
            assert (await visitor.get("/page")).status == 200
        await asyncio.wait_for(ended.wait(), LIMIT)
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await visitor.websocket("/missing")
        assert error.value.status == 404
        # The host ends it: so does ours.
        async with visitor.websocket("/talk") as socket:
            await socket.receive()
            [app] = await fleet.apps.list()
            await fleet.apps.close(app.id)
            came = await asyncio.wait_for(socket.receive(), LIMIT)
            assert came.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)


async def stream(request: web.Request) -> web.StreamResponse:
    """As many blocks as asked for."""
    blocks = int(request.query["blocks"])
    answer = web.StreamResponse()
    if "length" in request.query:
        answer.content_length = blocks * len(BLOCK)
    await answer.prepare(request)
    for _ in range(blocks):
        await answer.write(BLOCK)
    return answer


async def download(visitor: Visitor, path: str) -> tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    answer = await visitor.get(path)
    async for piece in answer.content.iter_chunked(1 << 18):
        digest.update(piece)
        count += len(piece)
    return count, digest.hexdigest()


def expected(blocks: int) -> tuple[int, str]:
    digest = hashlib.sha256()
    for _ in range(blocks):
        digest.update(BLOCK)
    return blocks * len(BLOCK), digest.hexdigest()


async def test_big_bodies_pass_both_ways_whole(fleet, tpu, address):
    async def give() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield BLOCK

    pages = application(stream=stream, take=take)
    async with serving(pages, address) as port, opened(fleet, tpu, port) as visitor:
        assert await download(visitor, "/stream?blocks=200") == expected(200)
        assert await download(visitor, "/stream?blocks=200&length") == expected(200)
        up = await visitor.request("POST", "/take", data=give())
        assert tuple(await up.json()) == expected(200)
        headers = {**visitor.headers, "Content-Length": str(200 * len(BLOCK))}
        headers["Expect"] = "100-continue"
        up = await visitor.request("POST", "/take", data=give(), headers=headers)
        assert tuple(await up.json()) == expected(200)


async def test_a_slow_reader_slows_the_host_down_instead_of_filling_memory(fleet, tpu, address):
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        answer = web.StreamResponse()
        await answer.prepare(request)
        with contextlib.suppress(OSError):
            for _ in range(2000):
                await answer.write(BLOCK)
                written += len(BLOCK)
        return answer

    pages = application(endless=endless, page=echo)
    async with serving(pages, address) as port, opened(
        fleet, tpu, port
    ) as visitor:  # fmt: skip
        answer = await visitor.get("/endless")
        read = 0

        async def still() -> int:
            """What the host has written, once it writes no more."""
            before, pages = -1, 0
            while pages < 30:  # that came while nothing else did, on the same way
                pages = pages + 1 if written == before else 0
                before = written
                await (await visitor.get("/page")).read()
            return written

        for _ in range(4):
            # Read a part, then nothing: what is under way stays the same, read after read.
            for _ in range(40):
                read += len(await answer.content.readexactly(len(BLOCK)))
            under_way = await asyncio.wait_for(still(), LIMIT) - read
            # Two windows, and what the sockets of all sides hold, which is the system's choice: a
            # fifth of all that there is.
            assert under_way < 2 * WINDOW_BYTES + (80 << 20), under_way
        answer.close()


async def test_a_response_that_a_host_breaks_off_is_not_shown_as_complete(fleet, tpu, address):
    async def half(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if "length" in request.query:
            answer.content_length = 1 << 20
        await answer.prepare(request)
        await answer.write(b"x" * 1000)
        request.transport.close()
        return answer

    async with serving(application(half=half), address) as port, opened(
        fleet, tpu, port
    ) as visitor:  # fmt: skip
        for path in ("/half", "/half?length"):
            answer = await visitor.get(path)
            with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
                await answer.read()


async def test_a_port_without_a_web_server_is_reported_as_such(fleet, tpu, address):
    said = [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"\x16\x03\x01\x00\x00", b"", b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx", b"H" * 200_000]  # fmt: skip

    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(now)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(garbage, address, 0)
    port = server.sockets[0].getsockname()[1]
    async with opened(fleet, tpu, port) as visitor:
        for now in said:
            answer = await asyncio.wait_for(visitor.get("/"), LIMIT)
            assert answer.status == 502, now
            assert "did not answer with HTTP" in await answer.text(), now
            with pytest.raises(aiohttp.WSServerHandshakeError) as error:
                await asyncio.wait_for(visitor.websocket("/"), LIMIT)
            assert error.value.status == (200 if b"200 OK" in now else 502), now
    server.close()
    async with serving(application(), address) as port:
        pass
    async with opened(fleet, tpu, port) as visitor:
        answer = await asyncio.wait_for(visitor.get("/"), LIMIT)
        assert answer.status == 502
        assert f"No server is listening on port {port}" in await answer.text()
        page = await visitor.get("/", headers={**visitor.headers, "Sec-Fetch-Mode": "navigate"})
        assert 'http-equiv="refresh"' in await page.text()
    for request in (
        OpenApp(port=0),
        OpenApp(port=70000),
        OpenApp(port=-1),
        OpenApp(port=80, host=9),
        OpenApp(port=80, path="x"),
        OpenApp(port=80, path="/\n"),
    ):
        with raises(Reason.INVALID):
            await fleet.apps.open(tpu, request)
    assert await fleet.apps.list() == []


async def test_a_server_that_closes_after_each_answer_serves_many(fleet, tpu, address):
    connections = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            connections += 1
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(once, address, 0)
    port = server.sockets[0].getsockname()[1]
    async with opened(fleet, tpu, port) as visitor:
        for _ in range(50):
            answer = await visitor.get("/")
            assert await answer.text() == "until the end"
        many = await asyncio.gather(*(visitor.get("/") for _ in range(50)))
        assert {await answer.text() for answer in many} == {"until the end"}
        assert connections == 100
    server.close()


async def test_a_host_that_reboots_cuts_what_is_under_way_and_is_found_again(
    fleet, create_tpu, faults
):
    made = create_tpu(zone=ZONE)
    name = made["name"].rpartition("/")[2]
    sent = asyncio.Event()

    async def forever(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        with contextlib.suppress(OSError):
            while True:
                await answer.write(b"x" * 1000)
                sent.set()
                await asyncio.sleep(0.01)
        return answer

    # It listens on this machine's own loopback: a host's address may be another one afterwards.
    pages = application(index=echo, forever=forever)
    async with serving(pages, "127.0.0.1") as port, opened(fleet, name, port) as visitor:
        answer = await visitor.get("/forever")
        await asyncio.wait_for(sent.wait(), LIMIT)
        await asyncio.to_thread(faults, kind="reboot", node=made["name"])
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
            await asyncio.wait_for(answer.read(), LIMIT)
        # The same page, at the same origin, with the same cookie: who asks waits for the link.

        async def is_back() -> bool:
            again = await visitor.get("/")
            assert again.status in (200, 502, 504), await again.text()
            return again.status == 200

        await eventually(is_back, 120)
        [app] = await fleet.apps.list()
        assert app.state == "open"


def confines(policies: list[str]) -> bool:
    """Whether a page with these policies can connect and send forms to its own origin at most."""
    directives = {
        part.split()[0]: part.split()[1:]
        for policy in policies
        for part in policy.split(";")
        if part.strip()
    }
    own = {"'self'", "'none'"}
    connects = directives.get("connect-src", directives.get("default-src"))
    forms = directives.get("form-action")
    return (
        connects is not None
        and forms is not None
        and all(source in own or source.startswith("ws://app-") for source in connects)
        and set(forms) <= own
    )


async def raw_answer(port: int, request: bytes) -> tuple[int, list[str]]:
    """Status and policies of the answer to a request that no client library would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    writer.close()
    policies = [
        line.partition(":")[2]
        for line in head
        if line.lower().startswith("content-security-policy:")
    ]
    return int(head[0].split()[1]), policies


async def test_no_answer_of_an_apps_origin_lets_a_page_reach_other_programs(
    fleet, tpu, address, caplog
):
    """A page gets at documents of its own origin in frames and popups, error pages included."""

    async def fine(_: web.Request) -> web.Response:
        return web.Response(text="fine")

    async with (
        serving(application(index=fine), address) as port,
        opened(fleet, tpu, port) as visitor,
    ):
        good = visitor.headers
        for change, path, status in (
            ({}, "/", 200),
            ({"Cookie": ""}, "/", 401),
            ({"Origin": "http://127.0.0.1:8888"}, "/", 403),
            ({"Host": f"other-{visitor.host}"}, "/", 421),
            ({}, "/.jupyter-tpu/here", 204),
            ({}, "/.jupyter-tpu/enter/wrong", 401),
        ):
            answer = await visitor.get(path, headers={**good, **change})
            assert answer.status == status, (change, path)
            policies = answer.headers.getall("Content-Security-Policy", [])
            assert confines([policy.replace(visitor.host, "app-own") for policy in policies]), (
                change
            )
        host = f"Host: {visitor.host}\r\n".encode()
        for request, status in (
            (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n", 400),
            (b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 100_000 + b"\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n" + host + b"Content-Length: x\r\n\r\n", 400),
            (b"GET http://a/ HTTP/1.1\r\n" + host + b"\r\n", 400),
        ):
            answered, policies = await raw_answer(visitor.port, request)
            assert answered == status, request[:80]
            assert confines(policies), request[:80]
    assert not caplog.records  # a page can't fill the log


async def test_a_service_worker_is_refused_unless_the_page_may_use_other_servers(
    fleet, tpu, address
):
    """It could answer with pages that have no policy, also when the app is closed."""

    async def script(_: web.Request) -> web.Response:
        return web.Response(text="1", content_type="text/javascript")

    async with serving(application(index=script), address) as port:
        for allow_external, status in ((False, 403), (True, 200)):
            async with opened(fleet, tpu, port, allow_external=allow_external) as visitor:
                worker = {**visitor.headers, "Service-Worker": "script"}
                assert (await visitor.get("/", headers=worker)).status == status
                assert (await visitor.get("/")).status == 200
