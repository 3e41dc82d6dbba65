"""A TPU that stops itself: the real agent and guard, and the emulator's metadata, IAM and API."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cli_shell import Shell
from local_host import LocalHost
from waiting import eventually, until

from jupyter_tpu.emulator.api.host_identity import HostIdentities
from jupyter_tpu.emulator.state_folder import Token


@pytest.fixture(scope="module")
def node(emulator: Any) -> Iterator[dict[str, Any]]:
    with emulator.tpu("guard", "v5litepod-1", "us-west4-a") as made:
        yield made


@pytest.fixture
def variables(emulator: Any, node: dict[str, Any]) -> dict[str, str]:
    """What the hosts of the node have to call Google."""
    identities = HostIdentities(Token(Path(emulator.state.token_file)))
    return identities.variables(node["id"], emulator.state.rest)


@pytest_asyncio.fixture
async def host(variables: dict[str, str]) -> AsyncIterator[LocalHost]:
    home = Path(tempfile.mkdtemp(prefix="g-"))  # the paths of sockets must be short
    local = LocalHost(home, {"JUPYTER_TPU_AGENT_IDLE": "1", **variables})
    yield local
    await (await local.agent()).request("prepare_delete")
    await local.close()
    await eventually(lambda: not local.processes())
    shutil.rmtree(home)


async def set_guard(host: LocalHost, node: dict[str, Any], **rule: Any) -> dict[str, Any]:
    wanted = {"action": "stop", "node": node["name"], "node_id": node["id"], "notice": 0, **rule}
    return (await (await host.agent()).request("set_guard", **wanted))["guard"]


async def report(host: LocalHost, accept: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the guard reports once that is accepted."""

    async def found() -> dict[str, Any] | None:
        guard = (await (await host.agent()).request("guard"))["guard"]
        return guard if accept(guard) else None

    return await eventually(found)


def guards(host: LocalHost) -> list[Any]:
    return [each for each in host.processes() if each.split()[-1] == "guard"]


@pytest.mark.asyncio
async def test_a_host_that_may_not_stop_its_tpu_says_what_to_grant(
    host: LocalHost, node: dict[str, Any], faults: Any
) -> None:
    faults(kind="permission")
    guard = await set_guard(host, node, idle=3600)
    assert guard["host"] is False
    assert guard["refused"]["reason"] == "PERMISSION"
    assert "tpu.nodes.stop" in guard["refused"]["message"]
    assert "roles/tpu.admin" in guard["refused"]["hint"]


@pytest.mark.asyncio
async def test_a_job_keeps_the_tpu_and_a_keep_puts_the_end_off(
    host: LocalHost, node: dict[str, Any]
) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    await (await host.agent()).request("start_job", id="j-1", argv=argv)
    end = time.time() + 3600
    guard = await set_guard(host, node, idle=60, until=end)
    assert guard["host"] is True, guard["refused"]
    busy = await report(host, lambda guard: guard["busy"] is not None)
    assert "a job" in busy["busy"]
    assert busy["reason"] == "time", "the idle limit is not counted down"
    assert abs(busy["ends"] - end) < 30
    await (await host.agent()).request("keep", seconds=7200.0)
    kept = await report(host, lambda guard: guard["ends"] > end + 600)
    assert abs(kept["ends"] - end - 3600) < 60
    await (await host.agent()).request("remove_guard")
    await eventually(lambda: not guards(host))


@pytest.mark.asyncio
async def test_another_tpu_of_the_same_name_is_never_stopped(
    host: LocalHost, node: dict[str, Any], emulator: Any
) -> None:
    await set_guard(host, {**node, "id": "7"}, until=time.time())
    refused = await report(host, lambda guard: guard["problem"] is not None)
    assert refused["problem"]["reason"] == "CONFLICT"
    assert refused["phase"] == "due"
    assert emulator.request("GET", f"/v2/{node['name']}")["state"] == "READY"


@pytest.mark.asyncio
async def test_the_token_of_a_host_is_for_its_own_tpu(
    host: LocalHost, node: dict[str, Any], emulator: Any
) -> None:
    identities = HostIdentities(Token(Path(emulator.state.token_file)))
    token = identities.access_token(node["id"])
    assert emulator.request("GET", f"/v2/{node['name']}", token=token)["id"] == node["id"]
    for method, path in (
        ("GET", f"/v2/{node['name']}-other"),
        ("POST", f"/v2/{node['name']}:start"),
        ("GET", "/emulator/v1/hosts"),
    ):
        with pytest.raises(Exception, match="401"):
            emulator.request(method, path, token=token)
    with pytest.raises(Exception, match="401"):
        emulator.request("GET", f"/v2/{node['name']}", token=token[:-1] + "x")


@pytest.mark.asyncio
async def test_the_tpu_stops_without_any_client(
    host: LocalHost, node: dict[str, Any], emulator: Any
) -> None:
    await set_guard(host, node, until=time.time() + 3)
    host.cut()
    try:

        def state() -> str:
            return emulator.request("GET", f"/v2/{node['name']}")["state"]

        await eventually(lambda: state() == "STOPPED", 60)
    finally:
        host.mend()
    ended = await report(host, lambda guard: guard["phase"] == "ending")
    assert ended["problem"] is None


@pytest.mark.long
def test_a_tpu_stops_itself_after_the_command_has_ended(
    emulator: Any, create_tpu: Any, tmp_path: Path
) -> None:
    node = create_tpu(type="v5litepod-1", zone="us-west4-a")
    name = node["name"].rpartition("/")[2]
    shell = Shell(tmp_path, **emulator.environment)
    assert "has no guard" in shell.complaint("guard", "show", name)
    done = shell.run("guard", "set", name, "--max-idle", "2h")
    assert done.returncode == 0, done.stderr
    assert f"{name} stops after 2 h without work." in done.stdout
    assert shell.json("guard", "keep", name, "--json")["actor"] == "host"
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 20))
    assert shell.run("guard", "set", name, "--until", soon, "--notice", "0m").returncode == 0
    until(lambda: emulator.request("GET", f"/v2/{node['name']}")["state"] == "STOPPED")
