"""What the client of a running server asks for, by the fleet's table of routes."""

import asyncio
import json
from operator import attrgetter
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from refusals import raises

from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.client import CHANGE_SCHEMA, FleetClient, RESTResponse, error_of
from jupyter_tpu.fleet.models import Change, OpenTunnel, Operation, Problem, StopTPU


class Recorder(FleetClient):
    """Keeps what would be sent, and answers *answer*."""

    def __init__(self, answer: Any = None, status: int = 200) -> None:
        super().__init__("http://localhost:8888/", "secret")
        self.asked: list[tuple[str, str, bytes | None]] = []
        self._answer = RESTResponse(status, "application/json", msgspec.json.encode(answer))

    async def fetch(self, method: str, path: str, body: bytes | None = None) -> RESTResponse:
        self.asked.append((method, path, body))
        return self._answer


OPERATION = Operation(id="1", kind="stop")


@pytest.mark.parametrize(
    ("call", "arguments", "answer", "asked"),
    [
        ("stop", ("my-tpu",), OPERATION, ("POST", "tpus/my-tpu/stop", None)),
        (
            "stop",
            ("us-west4-a/my-tpu", StopTPU(end_kernels=True)),
            OPERATION,
            (
                "POST",
                "tpus/us-west4-a~my-tpu/stop",
                b'{"end_kernels":true,"end_jobs":false,"sessions":"save","confirm_name":""}',
            ),
        ),
        (
            "kernels.shut_down",
            ("us-west4-a~my-tpu", "a/b c"),
            None,
            ("DELETE", "tpus/us-west4-a~my-tpu/kernels/a%2Fb%20c", None),
        ),
        ("tunnels.list", ("my-tpu",), [], ("GET", "tpus/my-tpu/tunnels", None)),
    ],
)
async def test_a_method_asks_its_route(call, arguments, answer, asked):
    client = Recorder(answer)
    assert await attrgetter(call)(client)(*arguments) == answer
    method, path, body = asked
    assert client.asked == [(method, f"jupyter-tpu/v1/{path}", body)]


async def test_a_query_is_sent_only_if_it_is_given():
    client = Recorder({"message": "No.", "reason": "QUOTA", "hint": "Wait."}, 429)
    for arguments in ((), (None,), ("us west4",)):
        with raises(Reason.QUOTA, r"No\. Wait\."):
            await client.catalog(*arguments)
    asked = [path.removeprefix("jupyter-tpu/v1/") for _, path, _ in client.asked]
    assert asked == ["catalog", "catalog", "catalog?zone=us+west4"]


async def test_an_answer_of_another_version_is_a_clear_error():
    with pytest.raises(TPUError, match="another version of jupyter-tpu"):
        await Recorder({"port": "x"}).tunnels.open("my-tpu", OpenTunnel(port=6006))


def test_what_has_no_route_is_no_method():
    with pytest.raises(AttributeError, match="create_everything"):
        _ = Recorder().create_everything
    with pytest.raises(AttributeError, match=r"tunnels\.open_all"):
        _ = Recorder().tunnels.open_all


def test_an_error_keeps_googles_limit_and_time_to_wait():
    error = TPUError("Wait.", Reason.RATE_LIMITED, retry_after=30.0, scope="region")
    answer = RESTResponse(429, "application/json", msgspec.json.encode(Problem.of(error)))
    read = error_of(answer, "http://here")
    assert (read.reason, read.retry_after, read.scope) == (Reason.RATE_LIMITED, 30.0, "region")


def test_a_refused_request_is_a_value_error_here_too():
    """Also one that a finished operation reports: packages to remove that are not installed."""
    problem = Problem.of(InvalidInput("Package flax is not installed.", field="remove"))
    read = problem.to_error()
    assert isinstance(read, ValueError)
    assert (read.message, read.field) == (problem.message, "remove")
    proxy = RESTResponse(400, "text/html", b"<html>")
    assert isinstance(error_of(proxy, "http://here"), ValueError)


async def test_an_event_that_can_not_be_read_or_handled_ends_nothing(caplog):
    sent = asyncio.Event()
    good = {"schema_id": CHANGE_SCHEMA, "what": "tpu", "id": "good", "gone": True}
    texts = (
        "[]",
        "{",
        '{"schema_id": 3}',
        json.dumps({**good, "what": "planet"}),
        json.dumps({**good, "id": "bad"}),
        json.dumps(good),
    )

    async def events(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for text in texts:
            await socket.send_str(text)
        await sent.wait()
        return socket

    app = web.Application()
    app.router.add_get("/api/events/subscribe", events)
    async with TestServer(app) as server:
        client = FleetClient(str(server.make_url("/")), "secret")
        changes: asyncio.Queue[str] = asyncio.Queue()

        def refuse(change: Change) -> None:
            if change.id == "bad":
                raise RuntimeError("a bug")

        client.subscribe(refuse)
        client.subscribe(lambda change: changes.put_nowait(change.id))
        async with asyncio.timeout(30):
            assert [await changes.get(), await changes.get()] == ["bad", "good"]
        sent.set()
        await client.close()
    assert caplog.text.count("that can't be read") == 3  # '{"schema_id": 3}' is another's


async def test_a_request_over_a_unix_socket_is_answered_and_one_that_is_cancelled_is_closed(
    tmp_path,
):
    asked = asyncio.Event()
    closed = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/slow%20one" in head:
            asked.set()
            assert await reader.read() == b""  # the other end is closed
            closed.set()
        else:
            body = b'{"a": 1}'
            start = (
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            )
            writer.write(start.encode() + b"\r\n\r\n" + body)
        writer.close()

    socket = tmp_path / "s"
    async with await asyncio.start_unix_server(answer, socket):
        client = FleetClient("http://localhost/", "", socket=str(socket))
        assert await client.fetch("GET", "quick") == (200, "application/json", b'{"a": 1}')
        waiting = asyncio.ensure_future(client.fetch("GET", "slow one"))
        async with asyncio.timeout(30):
            await asked.wait()
            waiting.cancel()
            await closed.wait()
    with raises(Reason.UNREACHABLE, "can't be reached"):
        await client.fetch("GET", "quick")
