"""The MCP tools that an agent needs less often, each used by the SDK's own client."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell, nodes, running_server
from mcp_client import Agent, agent
from test_mcp_agent import ELSEWHERE
from waiting import eventually

pytest.importorskip("mcp")
ZONE, OTHER_ZONE = "us-west4-a", "us-central1-a"
TYPE = "v5litepod-1"
#: A cell that is traced.
BUSY = """\
import time, jax.numpy as jnp
while True:
    jnp.ones((64, 64)).sum().block_until_ready()
    print("begun")
    time.sleep(0.05)
"""
STEP = {
    "code": "def step(w, x):\n    return x @ w\n",
    "function": "step",
    "arguments": [
        {"shape": [1024, 1024], "dtype": "bfloat16"},
        {"shape": [64, 1024], "dtype": "bfloat16"},
    ],
}


@pytest.fixture
def shell(emulator: Any, tmp_path: Path) -> Shell:
    return Shell(tmp_path, **emulator.environment, HF_TOKEN="hf_verysecret")


@pytest.mark.long
def test_an_agent_compares_types_for_a_step_and_checks_whether_it_fits(shell):
    """On this computer, at no cost: no server runs."""
    pytest.importorskip("libtpu")
    pytest.importorskip("flatbuffers")

    async def story() -> None:
        async with agent(shell) as client:
            begun = await client.call("tpu_compare_types", **STEP, types=["v5litepod-1", "v6e-1"])
            answer = await client.read(begun["cell"])
            assert answer["state"] == "done", answer
            table = json.loads("\n".join(answer["lines"]))
            assert {row["type"] for row in table["rows"]} == {"v5litepod-1", "v6e-1"}
            for row in table["rows"]:
                assert row["flops"] == pytest.approx(2 * 64 * 1024 * 1024, rel=0.01)
                assert row["time"]["shortest_ms"] < row["time"]["ms"] < row["time"]["longest_ms"]
            costs = [row["usd_per_1000_steps"] for row in table["rows"]]
            assert costs == sorted(costs)
            # A program that compiles for too long: a partial table, and no error.
            begun = await client.call("tpu_compare_types", **STEP, types=["v5e"], minutes=0.01)
            answer = await client.read(begun["cell"])
            table = json.loads("\n".join(answer["lines"]))
            assert table["partial"]
            assert all("Not compiled" in row["reason"] for row in table["rows"])
            succeeded, refused = await client.try_call(
                "tpu_compare_types", **STEP, types=["v5litepod-9"]
            )
            assert (succeeded, refused["reason"]) == (False, "INVALID")
            begun = await client.call("tpu_compile_check", **STEP, type="v5litepod-1")
            answer = await client.read(begun["cell"])
            assert json.loads("\n".join(answer["lines"]))["report"]["fits"]

    asyncio.run(story())


@pytest.mark.long
def test_an_agent_hunts_cancels_copies_interrupts_looks_for_faults_and_stops(
    shell, name, emulator, faults
):
    async def hunt_and_cancel(client: Agent) -> None:
        plan = await client.call(
            "tpu_plan", name=f"{name}-hunt", type=TYPE, zone=f"{ZONE},{OTHER_ZONE}", max_cost=1
        )
        begun = await client.call("tpu_hunt", plan=plan["id"])
        listed = await client.call("tpu_operations")
        assert begun["operation"] in [operation["id"] for operation in listed["operations"]]
        await client.call("tpu_cancel", id=begun["operation"])
        assert (await client.done(begun["operation"]))["state"] == "cancelled"

    async def use(client: Agent, root: Path) -> None:
        plan = await client.call("tpu_plan", name=name, type=TYPE, zone=ZONE, max_cost=2)
        begun = await client.call("tpu_create", plan=plan["id"])
        assert (await client.done(begun["operation"]))["state"] == "done"

        async def connect() -> Any:
            succeeded, answer = await client.try_call("tpu_connect", name=name)
            return answer if succeeded else None  # the TPU is being connected already

        assert (await client.done((await eventually(connect, 240))["id"]))["state"] == "done"
        # What a program prints of a token that TPUs get is masked.
        cell = await client.cell(name, "import os; print('key', os.environ['HF_TOKEN'])")
        assert cell["lines"] == ["key [HF_TOKEN]"]
        id = (await client.call("tpu_execute", name=name, code="import time; time.sleep(600)"))[
            "cell"
        ]
        await client.call("tpu_interrupt", name=name)
        ended = await client.read(id)
        assert ended["state"] == "failed"
        assert "KeyboardInterrupt" in ended["lines"][-1]
        (root / "note.txt").write_text("a note")
        for sources, download in ((["note.txt"], False), (["note.txt"], True)):
            paths = [str(root / path) for path in sources] if not download else sources
            copying = await client.call(
                "tpu_copy", name=name, sources=paths, download=download,
                destination=str(root / "back.txt") if download else "",
            )  # fmt: skip
            assert (await client.done(copying["id"]))["state"] == "done"
        assert (root / "back.txt").read_text() == "a note"
        succeeded, answer = await client.try_call("tpu_copy", name=name, sources=["/etc/hostname"])
        assert (succeeded, answer["reason"]) == (False, "PERMISSION")
        job = await client.call("tpu_job_start", name=name, command="sleep 600")
        where = await client.call("tpu_job_why", name=name, job=job["id"])
        assert "sleep 600 waits" in where["untrusted_output"]
        assert (await client.call("tpu_job_stop", name=name, job=job["id"]))["id"] == job["id"]
        diagnosis = await client.call("tpu_doctor", name=name)
        assert "untrusted_output" in diagnosis
        assert (await client.call("tpu_doctor"))["checked"] == "setup"
        busy = await client.call("tpu_execute", name=name, code=BUSY)

        async def begun_to_work() -> bool:
            answer = await client.call("tpu_output", cell=busy["cell"], line=0, wait=10)
            return "begun" in answer["untrusted_output"]

        await eventually(begun_to_work, 240)
        profile = await client.call("tpu_profile", name=name, seconds=1)
        assert (await client.done(profile["id"]))["state"] == "done"
        await client.call("tpu_interrupt", name=name)
        stopping = await client.call("tpu_stop", name=name)
        kept = f"The disk of {name} with all environments and files is kept."
        assert kept in stopping["lost"]
        assert (await client.done(stopping["id"]))["state"] == "done"
        deleting = await client.call("tpu_delete", name=name)
        assert (await client.done(deleting["id"]))["state"] == "done"

    async def story() -> None:
        async with agent(shell) as client:
            await hunt_and_cancel(client)
            emulator.request("DELETE", "/emulator/v1/faults")
            await use(client, shell.folder / "root")
        compiled = {"tpu_compare_types", "tpu_compile_check"}
        assert client.succeeded >= ELSEWHERE - compiled

    for zone in (ZONE, OTHER_ZONE):
        faults(kind="no-capacity", zone=zone, count=1000)
    with contextlib.ExitStack() as server:
        server.enter_context(running_server(shell))
        shell.out("token", "pass", "HF_TOKEN", "--agents")
        shell.out("budget", "set", "agent", "--day", "5")
        asyncio.run(story())
    assert not [node for node in nodes(emulator) if f"/{name}" in node["name"]]
