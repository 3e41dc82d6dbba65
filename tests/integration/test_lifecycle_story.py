"""A TPU's way through the fleet, on the emulator: real gRPC, real SSH, real environments."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import (
    Change,
    ConnectionState,
    ConnectTPU,
    Operation,
)
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

ZONE = "us-west4-a"
LIMIT = 400.0  # seconds for one operation; the first environment downloads JAX


class Setting:
    """A fleet with files of its own, as one server would have it."""

    def __init__(self, state_file: Path, folder: Path) -> None:
        self.links = Links(CloudTPU(Target(emulator=str(state_file))))
        self.kernels = folder / "kernels"
        self._path = folder / "fleet.sqlite"
        self.fleet: Fleet

    async def open(self) -> Fleet:
        self.fleet = await Fleet.open(self.links, KernelSpecs(self.kernels), self._path)
        return self.fleet

    async def close(self) -> None:
        await self.fleet.close()
        await self.links.close()
        await self.links.cloud.close()

    def kernelspecs(self) -> list[str]:
        """Display names of the kernels that Jupyter would show."""
        paths = self.kernels.glob("*/kernel.json")
        return sorted(json.loads(path.read_text())["display_name"] for path in paths)

    async def end(self, operation: Operation) -> Operation:
        return await asyncio.wait_for(self.fleet.operations.wait(operation.id), LIMIT)

    async def done(self, operation: Operation) -> Operation:
        ended = await self.end(operation)
        assert ended.state == "done", ended
        return ended


@pytest_asyncio.fixture
async def setting(emulator: Any, faults: Any, tmp_path: Path) -> AsyncIterator[Setting]:
    setting = Setting(emulator.state_file, tmp_path)
    await setting.open()
    yield setting
    await setting.close()


@pytest.fixture(scope="module")
def shared_tpu(emulator: Any) -> Iterator[str]:
    """A TPU for tests that leave it as they found it; its environment is made once."""
    with emulator.tpu("shared", zone=ZONE) as node:
        yield node["name"].rpartition("/")[2]


def new_name() -> str:
    return f"tpu-{uuid.uuid4().hex[:8]}"


def processes(emulator: Any, name: str) -> str:
    """What runs on a TPU's hosts."""
    lines = (p["cmdline"] for host in emulator.hosts(name) for p in host["processes"])
    return "\n".join(" ".join(line) if isinstance(line, list) else line for line in lines)


async def test_a_package_that_does_not_exist_loses_nothing_and_can_be_left_out(setting, shared_tpu):
    fleet, name = setting.fleet, shared_tpu
    bad = ConnectTPU(environment="mended", packages=["there-is-no-such-package-0815"])
    failed = await setting.end(await fleet.connect(name, bad))
    assert failed.state == "failed"
    assert failed.problem.reason is Reason.ENVIRONMENT
    assert failed.problem.message == "Package there-is-no-such-package-0815 was not found."
    assert failed.problem.hint == "Correct the package names."
    assert [s.title for s in failed.steps if s.state == "failed"] == ["Choose the versions"]
    tpu = await fleet.tpu(name)
    assert tpu.connection is ConnectionState.NEEDS_ATTENTION
    assert tpu.problem == failed.problem

    good = await setting.done(
        await fleet.connect(name, ConnectTPU(environment="mended", packages=["einops"]))
    )
    states = {step.title: step.state for step in good.steps}
    assert states["Create the environment"] == "skipped", "it was made anew"
    assert (await fleet.tpu(name)).connection is ConnectionState.CONNECTED

    # What is ready stays so when adding to it fails.
    failed = await setting.end(await fleet.connect(name, bad))
    assert failed.state == "failed"
    [environment] = await fleet.environments.list(name)
    assert (environment.state, environment.packages) == ("ready", ["einops"])
    assert environment.problem is not None
    assert len(setting.kernelspecs()) == 1
    # Connecting again without saying anything mends it: einops is kept, the bad one is not.
    await setting.done(await fleet.connect(name, ConnectTPU(environment="mended")))
    [environment] = await fleet.environments.list(name)
    assert (environment.packages, environment.problem) == (["einops"], None)


async def test_cancelling_ends_what_runs_on_the_host(setting, shared_tpu, emulator):
    fleet, name = setting.fleet, shared_tpu
    await setting.done(await fleet.connect(name))
    before = processes(emulator, name)
    # A build that does not end by itself.
    endless = (
        "[build-system]\nrequires = []\nbuild-backend = 'slow'\nbackend-path = ['.']\n",
        "import time\ndef build_wheel(*_, **__):\n    time.sleep(600)\nbuild_editable = "
        "prepare_metadata_for_build_wheel = get_requires_for_build_wheel = build_wheel\n",
    )
    link = fleet._core.connections.links(fleet._core.connections.names()[0])[0]
    for file, text in zip(("pyproject.toml", "slow.py"), endless, strict=True):
        await link.put(text.encode(), f"slow/{file}")
    home = (await link.run(["pwd"])).stdout.strip()
    operation = await fleet.connect(name, ConnectTPU(packages=[f"slow @ file://{home}/slow"]))
    await eventually(lambda: "slow" in processes(emulator, name), LIMIT)
    cancelled = await fleet.operations.cancel(operation.id)
    assert (await setting.end(cancelled)).state == "cancelled"

    def ended() -> bool:
        now = processes(emulator, name).replace(before, "")
        return "slow" not in now and "uv" not in now

    await eventually(ended)
    [environment] = await fleet.environments.list(name)
    assert environment.state == "ready"
    assert (await fleet.tpu(name)).connection is ConnectionState.CONNECTED


async def test_old_operations_are_deleted_and_published_as_gone(setting, monkeypatch):
    fleet = setting.fleet
    monkeypatch.setattr(fleet._core.runner, "_keep", 2)
    told: list[Change] = []
    setting.fleet.subscribe(told.append)

    async def nothing(progress: Any) -> None:
        pass

    ids = []
    for _ in range(4):
        record = fleet._core.runner.new_record("profile", NodeName("emulated", ZONE, new_name()))
        ids.append((await fleet._core.runner.start(record, nothing)).id)
        await setting.fleet.operations.wait(ids[-1])
        fleet._core.changes.flush()
    assert [change.id for change in told if change.gone] == ids[:2]
    assert [id for what, id in fleet._core.changes._published if what == "operation"] == ids[2:]
    with raises(Reason.NOT_FOUND):
        await setting.fleet.operations.get(ids[0])


async def test_a_stopped_tpu_is_connected_again_when_it_is_started(setting, shared_tpu):
    fleet, name = setting.fleet, shared_tpu
    await setting.done(await fleet.connect(name))
    await setting.done(await fleet.stop(name))
    tpu = await fleet.tpu(name)
    assert (tpu.state, tpu.connection) == ("STOPPED", ConnectionState.DISCONNECTED)
    assert tpu.guard_stop is None, "a user has stopped it"
    await eventually(lambda: setting.kernelspecs()[0].endswith(f"{name} (emulated, stopped)"))
    with pytest.raises(TPUError, match="Start it first"):
        await fleet.connect(name)
    with pytest.raises(TPUError, match="is STOPPED") as stopped:
        await fleet.stop(name)
    assert not stopped.value.hint  # to start it costs money
    await setting.done(await fleet.start(name))
    await eventually(
        lambda: (
            setting.fleet._core.tpus.tpu(_name(setting, name)).connection
            is ConnectionState.CONNECTED
        )
    )
    await eventually(lambda: setting.kernelspecs()[0].endswith(f"{name} (emulated)"))


async def test_disconnecting_removes_the_kernel_and_keeps_the_environment(setting, shared_tpu):
    fleet, name = setting.fleet, shared_tpu
    await setting.done(await fleet.connect(name))
    await setting.done(await fleet.disconnect(name))
    assert setting.kernelspecs() == []
    tpu = await fleet.tpu(name)
    assert tpu.connection is ConnectionState.DISCONNECTED
    assert [e.kernelspec for e in tpu.environments] == [""]
    again = await setting.done(await fleet.connect(name))
    assert not any("Resolved" in line for line in again.log)
    assert len(setting.kernelspecs()) == 1


@pytest.mark.long
@pytest.mark.parametrize(("type", "hosts"), [("v5p-8", 1), ("v5p-16", 2)])
async def test_two_servers_connect_a_tpu_at_once_and_see_it_deleted_elsewhere(
    setting, create_tpu, emulator, tmp_path, type, hosts
):
    path = create_tpu(type=type, zone="us-east5-a", runtimeVersion="v2-alpha-tpuv5")["name"]
    name = path.rpartition("/")[2]
    (tmp_path / "other").mkdir()
    other = Setting(emulator.state_file, tmp_path / "other")
    await other.open()
    try:
        both = await asyncio.gather(setting.fleet.connect(name), other.fleet.connect(name))
        mine, theirs = await asyncio.gather(setting.done(both[0]), other.done(both[1]))
        for connected in (mine, theirs):
            on_hosts = [step for step in connected.steps[1:-1] if step.hosts]
            assert {(step.hosts_done, step.hosts) for step in on_hosts} == {(hosts, hosts)}
            assert any(line.startswith(f"host {hosts - 1}: Python") for line in connected.log)
        # Once on each host, although both connect.
        assert sum("+ jax==" in line for line in mine.log + theirs.log) == hosts
        [environment] = await setting.fleet.environments.list(name)
        assert environment.devices == 4  # on each host
        # A pod has one for all hosts, too.
        of_all = [spec for spec in setting.kernelspecs() if f"all {hosts} hosts" in spec]
        assert len(of_all) == (1 if hosts > 1 else 0)
        expected = [*of_all, environment.display_name]
        assert setting.kernelspecs() == other.kernelspecs() == expected

        emulator.wait(emulator.request("DELETE", f"/v2/{path}"))
        for one in (setting, other):
            one.fleet._core.observer.request_refresh()
            await eventually(lambda one=one: one.kernelspecs() == [])
            assert name not in [tpu.name for tpu in (await one.fleet.tpus()).tpus]
    finally:
        await other.close()


def _name(setting: Setting, node: str) -> Any:
    return next(name for name in setting.fleet._core.tpus.names() if name.node == node)
