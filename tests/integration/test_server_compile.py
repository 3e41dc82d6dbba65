"""POST jax/compile on a real Jupyter server that knows no project and no credentials."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from agent_client import Client
from children import children
from jupyter_server.auth import Authorizer
from waiting import eventually

from jupyter_tpu.server.events import CHANGE

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest_plugins = ["pytest_jupyter.jupyter_server"]

LIMIT = 150.0  # seconds: a compiler on a busy machine
PROGRAM = """
import jax.numpy as jnp

print("the code runs")

def fn(weights, x):
    return jnp.tanh(x @ weights)
"""
ARGUMENTS = [{"shape": [512, 512]}, {"shape": [64, 512], "spec": ["data"]}]
COMPILE = {"code": PROGRAM, "function": "fn", "arguments": ARGUMENTS, "mesh": {"data": -1}}
ENDLESS = {**COMPILE, "code": "print('on and on')\nwhile True: pass", "type": "v6e-1"}


@pytest.fixture
def jp_server_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> dict[str, Any]:
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody is logged in
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "tpu"))  # and nothing is left
    return {"ServerApp": {"jpserver_extensions": {"jupyter_tpu": True}}}


@pytest.fixture
def call(person: Client) -> Client:
    return person


async def next_operation(socket: Any, condition: Callable[[Any], bool]) -> Any:
    """The next operation in the server's events that meets the condition."""
    while True:
        event = json.loads(await asyncio.wait_for(socket.read_message(), LIMIT))
        if event["schema_id"] == CHANGE and condition(event["operation"]):
            return event["operation"]


def compilers() -> list[psutil.Process]:
    return children("jupyter_tpu.jaxkit.compile.child")


async def ended(call: Callable[..., Any], operation: dict[str, Any]) -> dict[str, Any]:
    async def it() -> dict[str, Any] | None:
        status, now = await call("GET", f"operations/{operation['id']}")
        assert status == 200, now
        return now if now["state"] != "running" else None

    return await eventually(it, LIMIT)


async def test_a_program_is_compiled_without_a_project_and_reported_by_events(call, jp_ws_fetch):
    events = await jp_ws_fetch("api", "events", "subscribe")
    status, answer = await call("GET", "tpus")
    assert (status, answer["tpus"]) == (200, [])
    assert answer["problem"]["reason"] in ("NO_PROJECT", "NO_CREDENTIALS")

    status, operation = await call("POST", "jax/compile", {**COMPILE, "type": "v5litepod-4"})
    assert status == 202, operation
    assert (operation["kind"], operation["tpu"], operation["result"]) == ("compile", "", None)

    running = await next_operation(events, lambda o: "the code runs" in o["log"])
    assert running["steps"][0]["title"] == "Compile for v5litepod-4"
    done = await next_operation(events, lambda o: o["state"] != "running")
    status, asked = await call("GET", f"operations/{operation['id']}")
    assert asked == done
    assert (done["state"], done["problem"], done["progress"]) == ("done", None, 1.0)
    assert [step["state"] for step in done["steps"]] == ["done"]
    result = done["result"]
    assert result["type"] == "v5litepod-4"
    assert result["report"]["fits"]
    assert result["report"]["devices_used"] == 4
    assert result["report"]["libtpu_version"]
    (trial,) = result["tried"]
    assert trial["usd_per_hour"] == 4.8
    assert "2024-12-23" in result["prices"]
    status, operations = await call("GET", "operations")
    assert [o["id"] for o in operations] == [operation["id"]]
    assert compilers() == []
    events.close()


@pytest.mark.long
async def test_types_are_tried_in_order_until_the_program_fits(call):
    """A grant with a type whose devices don't divide, one too small, one that fits, one more."""
    weights = {"shape": [98304, 98304], "dtype": "bfloat16", "spec": [None, "model"]}
    request = {
        **COMPILE,
        "code": PROGRAM.replace("fn(weights, x)", "fn(weights, x, extra)"),
        "mesh": {"model": -1},
        "arguments": [weights, {"shape": [8, 98304]}, {"shape": [20], "spec": ["model"]}],
        "types": ["v2-8", "v5litepod-1", "v6e-1", "v5p-8"],
    }
    status, operation = await call("POST", "jax/compile", request)
    assert status == 202, operation
    done = await ended(call, operation)
    assert done["state"] == "done", done["problem"]
    result = done["result"]
    assert result["type"] == result["report"]["type"] == "v6e-1"
    tried = result["tried"]
    assert [(row["type"], row["fits"]) for row in tried] == [
        ("v2-8", None),
        ("v5litepod-1", False),
        ("v6e-1", True),
    ]
    assert "does not divide" in tried[0]["why"]
    assert tried[1]["needed_bytes"] > tried[1]["hbm_bytes"]
    assert [step["state"] for step in done["steps"]] == ["skipped", "done", "done", "skipped"]
    assert f"It does not fit v5litepod-1: {tried[1]['why']}" in done["log"]


async def test_cancelling_ends_the_compiler_and_the_next_program_gets_its_turn(call):
    _, endless = await call("POST", "jax/compile", ENDLESS)
    _, waiting = await call("POST", "jax/compile", ENDLESS)
    _, failing = await call("POST", "jax/compile", {**ENDLESS, "code": "1 / 0"})
    await eventually(lambda: compilers() != [])
    (first,) = compilers()
    status, waiting = await call("DELETE", f"operations/{waiting['id']}")
    assert (status, waiting["state"]) == (202, "cancelled")
    assert waiting["problem"]["reason"] == "CANCELLED"
    assert first.is_running()

    status, _ = await call("DELETE", f"operations/{endless['id']}")
    assert status == 202
    assert (await ended(call, endless))["state"] == "cancelled"
    await eventually(lambda: not first.is_running())
    failed = await ended(call, failing)
    assert failed["state"] == "failed"
    assert failed["problem"]["reason"] == "INVALID"
    assert "line 1: ZeroDivisionError" in failed["problem"]["message"]
    assert compilers() == []


async def test_types_are_compared_over_rest(call):
    plain = [{"shape": [512, 512]}, {"shape": [64, 512]}]
    request = {**COMPILE, "arguments": plain, "types": ["v5litepod-4"], "axes": ["data", "fsdp"]}
    del request["mesh"]
    status, operation = await call("POST", "jax/plan", request)
    assert status == 202, operation
    assert operation["kind"] == "plan"
    done = await ended(call, operation)
    assert done["state"] == "done", done["problem"]
    assert [step["title"] for step in done["steps"]] == [
        "Compile for v5litepod-4 data=4 fsdp=1",
        "Compile for v5litepod-4 data=1 fsdp=4",
    ]
    result = done["result"]
    assert not result["partial"]
    costs = [row["usd_per_1000_steps"] for row in result["rows"]]
    assert costs == sorted(costs)
    assert {row["mesh"]["data"] for row in result["rows"]} == {1, 4}
    assert all(row["fits"] and row["time"]["bound"] for row in result["rows"])
    for change, says in (
        ({"types": ["v9"]}, "does not exist"),
        ({"axes": ["model"]}, "Unknown axis"),
        ({"mesh": {"data": 4}}, "not both"),
        ({"arguments": COMPILE["arguments"]}, "not both"),
        ({"tier": "cheap"}, "cheap"),
    ):
        status, problem = await call("POST", "jax/plan", {**request, **change})
        assert (status, problem["reason"]) == (400, "INVALID"), problem
        assert says in problem["message"] + problem["hint"]


BAD = [
    ('{"code": NaN}', "not JSON"),
    ({"type": "v5e-7"}, "v5litepod-8"),
    ({"types": ["v6e-8"], "type": "v6e-8"}, "not both"),
    ({"types": []}, "no types"),
    ({"type": "v6e-1", "arguments": [{"shape": [-8]}]}, "from 0 to 2**53, not -8"),
    ({"type": "v6e-1", "arguments": [{"shape": ["n"]}]}, "Expected `int`, got `str`"),
    ({"type": "v6e-1", "arguments": [{"shape": [1 << 60]}]}, "from 0 to 2**53"),
    ({"type": "v6e-1", "arguments": [{"shape": [8], "dtype": "float7"}]}, "Unknown dtype 'float7'"),
    ({"type": "v6e-1", "arguments": [{}]}, "Argument 0 needs either a shape or a tree"),
    ({"type": "v6e-1", "mesh": {"data": 0}}, "positive whole number, not 0"),
    ({"type": "v6e-1", "limits": {"seconds": 0}}, "> 0"),
    ({"type": "v6e-1", "limits": {"memory_bytes": 1}}, ">="),
    ({"type": "v6e-1", "code": "x" * (1 << 20) + "y"}, "length <="),
    ({"type": "v6e-1", "code": "x" * (2 << 20)}, "are allowed"),
    ({"type": "v6e-1", "colour": 1}, "colour"),
]


async def test_requests_that_can_not_be_meant_are_refused_at_once(call):
    for change, says in BAD:
        body = change if isinstance(change, str) else {**COMPILE, **change}
        status, problem = await call("POST", "jax/compile", body)
        assert (status, problem["reason"]) == (400, "INVALID"), problem
        assert says in problem["message"] + problem["hint"], problem
    assert (await call("GET", "operations")) == (200, [])
    assert compilers() == []


class NoKernels(Authorizer):
    """Everything but running code."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return action != "execute"


async def test_who_may_not_run_code_in_kernels_may_not_run_it_here(call, jp_serverapp):
    jp_serverapp.web_app.settings["authorizer"] = NoKernels(parent=jp_serverapp)
    status, problem = await call("POST", "jax/compile", {**COMPILE, "type": "v6e-1"})
    assert (status, problem["reason"]) == (403, "PERMISSION")
    assert "execute" in problem["message"]
