"""jaxkit over the REST face of a real Jupyter server, computed in its worker processes."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
import jax
import numpy as np
import psutil
import pytest
from children import children
from own_jax import optimized
from tornado.httpclient import HTTPClientError, HTTPResponse
from waiting import eventually
from yarl import URL

from jupyter_tpu.server.routes import ROOT

pytest_plugins = ["pytest_jupyter.jupyter_server"]

NORMAL = {"key": {"seed": 42}, "distribution": "normal", "shape": [3]}
#: A second of work or more.
LONG = {
    "key": {"seed": 0},
    "distribution": "orthogonal",
    "parameters": {"n": 1400},
    "shape": [2],
    "format": "npy",
}
TILING: dict[str, Any] = {"arrays": {"x": {"shape": [3, 100]}}}


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_tpu": True}}}


@pytest.fixture
def gate(jp_serverapp: Any) -> Any:
    """The extension's way to jaxkit; closed when the server is stopped, after the test."""
    return jp_serverapp.extension_manager.extension_points["jupyter_tpu"].app.jax


@pytest.fixture
def post(jp_fetch: Callable[..., Any], gate: Any) -> Callable[..., Any]:
    """``await post(name, body)`` gives the answer, also one that says an error."""

    async def fetch(name: str, body: Any, **options: Any) -> HTTPResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        parts = [*ROOT.split("/"), "jax", *name.split("/")]
        options.setdefault("request_timeout", 60)
        try:
            return await jp_fetch(*parts, method="POST", body=text, **options)
        except HTTPClientError as error:
            if error.response is None:
                raise
            return error.response

    return fetch


def workers() -> list[psutil.Process]:
    return children("jupyter_tpu.jaxkit.rest.worker")


async def test_answers_come_as_json_or_where_large_as_npy(post, gate):
    """What they are: test_jaxkit_worker.py."""
    assert workers() == []  # none before the first request
    split = await post("prng/split", {"key": {"seed": 42}, "num": 2})
    assert split.headers["Content-Type"] == "application/json"
    # Numbers that jax itself gave.
    assert json.loads(split.body)["subkeys"] == [[64467757, 2916123636], [2465931498, 255383827]]
    large = await post("prng/sample", {**NORMAL, "shape": [200, 100]})
    assert large.headers["Content-Type"] == "application/x-npy"
    assert json.loads(large.headers["Jax-Key"])["data"] == [0, 42]
    drawn = optimized(lambda: jax.random.normal(jax.random.key(42), (200, 100)))
    assert np.load(io.BytesIO(large.body)).tobytes() == drawn.tobytes()
    refused = await post("prng/sample", {**NORMAL, "shape": [-3]})
    problem = json.loads(refused.body)
    assert (refused.code, problem["reason"]) == (400, "INVALID")
    assert "from 0 to 2**53, not -3" in problem["message"]
    assert refused.headers["Content-Type"] == "application/json"

    assert len(workers()) == 1
    await gate.close()
    assert workers() == []
    assert (await post("tiling", TILING)).code == 409  # the server is stopping


async def test_a_server_without_jax_says_how_to_get_it(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)  # as if it were not installed
    response = await post("tiling", TILING)
    problem = json.loads(response.body)
    assert (response.code, problem["reason"]) == (500, "ENVIRONMENT")
    assert "jupyter-tpu[jax]" in problem["hint"]
    assert workers() == []


async def test_while_one_request_computes_others_and_the_server_are_answered(
    post, jp_fetch, jp_base_url, jp_auth_header, http_server_port
):
    """And a caller who leaves takes the process that worked for him along."""
    url = f"http://127.0.0.1:{http_server_port[1]}{jp_base_url}{ROOT}/jax/prng/sample"

    async def call() -> None:
        async with (
            aiohttp.ClientSession(headers=jp_auth_header) as session,
            session.post(URL(url, encoded=True), json=LONG) as answer,
        ):
            await answer.read()

    await post("prng/sample", NORMAL)
    (first,) = workers()
    before = sum(first.cpu_times()[:2])
    running = asyncio.create_task(call())
    await eventually(lambda: sum(first.cpu_times()[:2]) > before + 0.1)
    first.suspend()  # in the middle of it: however fast the machine, it does not get done

    small = [post("tiling", TILING) for _ in range(20)]
    answers = await asyncio.gather(*small, jp_fetch("api", "status"))
    assert {answer.code for answer in answers} == {200}
    assert not running.done()

    running.cancel()  # its connection is closed
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: not first.is_running())
    assert (await post("tiling", TILING)).code == 200


async def test_turns_are_by_token_where_jupyter_invents_users(post, gate, monkeypatch):
    clients: list[str] = []
    real = gate.request

    async def request(name: str, body: bytes, client: str) -> Any:
        clients.append(client)
        return await real(name, body, client)

    monkeypatch.setattr(gate, "request", request)
    await asyncio.gather(post("tiling", TILING), post("tiling", TILING))
    assert len(clients) == 2
    assert len(set(clients)) == 1
