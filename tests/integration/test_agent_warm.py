"""Warm kernels: what a host keeps ready, what it is worth, and when it is gone. No SSH here."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_world import others
from local_host import LocalHost
from local_kernels import Notebook, local_host
from waiting import eventually, until

from jupyter_tpu.links import core_thread
from jupyter_tpu.on_host.agent.protocol import requests

ENVIRONMENT = {"python": sys.executable, "imports": ["wave"], "env": {"A_VARIABLE": "1"}}


async def keep(host: LocalHost, *environments: dict[str, Any]) -> list[dict[str, Any]]:
    agent = await host.agent()
    return (await agent.request(requests.KeepWarmRequest(environments=list(environments))))["warm"]


async def warmed(host: LocalHost, environment: dict[str, Any], state: str = "ready") -> dict:
    async def is_so() -> dict[str, Any] | None:
        kernels = [warm for warm in await keep(host, environment) if warm["state"] == state]
        return kernels[0] if kernels else None

    return await eventually(is_so)


def keepers(host: LocalHost) -> list[str]:
    return [line for line in host.processes() if "keeper" in line or "ipython_kernel" in line]


async def start(host: LocalHost, kernel_id: str, **order: Any) -> dict[str, Any]:
    agent = await host.agent()
    order = {"python": sys.executable, "key": "k", "secret": "s", "launch": kernel_id, **order}
    return await agent.request(requests.StartKernelRequest(id=kernel_id, **order))


async def test_it_is_the_next_kernel_and_another_takes_its_place(host):
    warm = await warmed(host, ENVIRONMENT)
    assert warm["memory"] > 10e6
    assert len(keepers(host)) == 2
    started = await start(host, "a", env={"A_VARIABLE": "1"})
    assert started["pid"] == warm["pid"]
    agent = await host.agent()

    async def idle() -> bool:
        (kernel,) = (await agent.request(requests.ListKernelsRequest()))["kernels"]
        return kernel["state"] == "idle"

    await eventually(idle)
    assert (await warmed(host, ENVIRONMENT))["pid"] != started["pid"]
    assert await agent.request(requests.EndKernelRequest(id="a", now=True)) == {"ended": True}
    await keep(host)  # none any more
    await eventually(lambda: not keepers(host))


async def test_one_question_keeps_it_warm_and_lists_the_kernels(host):
    agent = await host.agent()
    await start(host, "a")

    async def both() -> bool:
        answer = await agent.request(requests.GetStatusRequest(environments=[ENVIRONMENT]))
        assert [kernel["id"] for kernel in answer["kernels"]] == ["a"]
        return [warm["state"] for warm in answer["warm"]] == ["ready"]

    await eventually(both)


async def test_a_warm_kernel_exists_as_long_as_a_client_that_wants_it_is_connected(host):
    first = await warmed(host, ENVIRONMENT)
    assert len(keepers(host)) == 2
    host.cut()
    await eventually(lambda: not host.processes())
    host.mend()
    assert (await warmed(host, ENVIRONMENT))["pid"] != first["pid"]
    assert len(keepers(host)) == 2
    agent = await host.agent()
    await agent.close()
    await eventually(lambda: not host.processes())


async def test_it_ends_with_a_daemon_that_is_killed(host):
    await warmed(host, ENVIRONMENT)
    assert len(keepers(host)) == 2
    agent = await host.agent()
    os.kill(agent.hello["pid"], signal.SIGKILL)
    await eventually(lambda: not host.processes())


async def test_one_that_was_killed_is_replaced_and_a_start_meanwhile_works(host):
    warm = await warmed(host, ENVIRONMENT)
    os.kill(warm["pid"], signal.SIGKILL)
    started = await start(host, "a", env=ENVIRONMENT["env"])
    assert started["pid"] != warm["pid"]
    await warmed(host, ENVIRONMENT)


@pytest.mark.parametrize("dies", [False, *others(True)], ids=["hangs", "dies"])
async def test_one_that_does_not_answer_when_it_becomes_a_kernel_is_replaced(host, dies):
    warm = await warmed(host, ENVIRONMENT)
    os.kill(warm["pid"], signal.SIGSTOP)  # it looks alive, as one does that was just killed
    starting = asyncio.ensure_future(start(host, "a", env=ENVIRONMENT["env"]))
    await eventually(lambda: list(host.home.rglob("warm-pid")))
    if dies:
        os.kill(warm["pid"], signal.SIGKILL)
    assert (await starting)["pid"] != warm["pid"]
    await eventually(lambda: not Path(f"/proc/{warm['pid']}").exists())


@pytest.mark.long
async def test_variables_that_come_too_late_for_it_start_a_cold_one(host):
    plain = {**ENVIRONMENT, "imports": []}
    warm = await warmed(host, plain)
    cold = await start(host, "a", env={"PYTHONHASHSEED": "7", "A_VARIABLE": "1"})
    assert cold["pid"] != warm["pid"]
    taken = await start(host, "b", env={"A_VARIABLE": "2"})
    assert taken["pid"] == warm["pid"]
    # What it was told to import may have read any variable.
    warm = await warmed(host, ENVIRONMENT)
    cold = await start(host, "c", env={"A_VARIABLE": "2"})
    assert cold["pid"] != warm["pid"]


async def test_a_module_that_cannot_be_imported_is_reported_and_kernels_start_cold(host):
    asked = {**ENVIRONMENT, "imports": ["no_such_module"]}
    failed = await warmed(host, asked, "failed")
    assert "no_such_module cannot be imported" in failed["problem"]
    assert failed["memory"] == 0
    assert (await start(host, "a", env=asked["env"]))["pid"]


@pytest.mark.long
async def test_one_whose_environment_changes_is_replaced(host):
    uv = Path(sys.executable).with_name("uv")
    place = host.home / "env"
    subprocess.run(
        [uv, "venv", "-q", "--python", sys.executable, "--system-site-packages", place], check=True
    )
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", place / "bin/python", "ipykernel"], check=True
    )
    environment = {"python": str(place / "bin/python"), "imports": [], "env": {}}
    first = await warmed(host, environment)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "new-1.0.dist-info").mkdir()

    async def other() -> bool:
        return (await warmed(host, environment))["pid"] != first["pid"]

    await eventually(other)
    await eventually(lambda: not Path(f"/proc/{first['pid']}").exists())


# ---- as a user has it ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warm_kernels() -> Iterator[tuple[LocalHost, Callable[..., Any]]]:
    with local_host("warm") as (host, make):
        yield host, make


def test_a_warm_kernel_is_the_same_as_a_cold_one(warm_kernels):
    host, make = warm_kernels
    look = (
        "import os, sys, json, threading\n"
        "env = {k: v for k, v in os.environ.items() if k not in ('JPY_PARENT_PID', "
        "'JUPYTER_TPU_KERNEL_FOLDER', 'PYDEVD_USE_FRAME_EVAL')}\n"
        "print(json.dumps([os.getcwd(), env, sys.path, sys.flags.interactive, "
        "threading.active_count(), sorted(globals()), sys.stdin.closed]))"
    )
    environment = {"python": sys.executable, "imports": [], "env": {}}
    cold = make()
    cold.start_kernel()
    notebook = Notebook(cold)
    expected = notebook.text(look)
    notebook.close()
    cold.shutdown_kernel()

    ready = until(lambda: core_thread().wait(is_ready(host, environment)))
    warm = make()
    warm.start_kernel()
    notebook = Notebook(warm)
    assert notebook.text(look) == expected
    assert notebook.text("print(os.getpid())") == f"{ready['pid']}\n"

    def answer(_: dict) -> None:
        notebook.client.input("said")

    assert notebook.text("print(input())", allow_stdin=True, stdin_hook=answer) == "said\n"
    warm.restart_kernel()
    notebook.client.wait_for_ready(timeout=60)
    assert notebook.text("print('anew')") == "anew\n"
    notebook.close()
    warm.shutdown_kernel()
    core_thread().wait(keep(host))


async def is_ready(host: LocalHost, environment: dict[str, Any]) -> dict[str, Any] | None:
    kernels = await keep(host, environment)
    return kernels[0] if kernels and kernels[0]["state"] == "ready" else None
