"""Broken hardware: a host is reported to Google, and a TPU is replaced by the same one."""

from pathlib import Path
from typing import Any

import pytest
from compute_world import ZONE, ComputeWorld
from fleet_world import Server
from waiting import eventually

from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.models import (
    ConnectTPU,
    KeepWarm,
    NodeOptions,
    OpenTunnel,
    ReplaceTPU,
    ReportFault,
    SetGuard,
    SplitChips,
    SyncProject,
)

WORLD = ComputeWorld


def machines(world: ComputeWorld, name: str) -> dict[str, str]:
    """Where its hosts run; "" while they don't."""
    return {
        instance["name"]: instance["resourceStatus"].get("physicalHostTopology", {}).get("host", "")
        for instance in world.instances(name)
    }


def reports(world: ComputeWorld, name: str) -> list[str]:
    path = f"/compute/v1/projects/emulated/zones/{ZONE}/operations"
    return [
        operation["targetLink"].rpartition("/")[2]
        for operation in world.emulator.request("GET", path)["items"]
        if operation["operationType"] == "reportHostAsFaulty"
        and f"/{name}" in operation["targetLink"]
    ]


async def test_a_reported_host_of_a_slice_is_started_on_another_machine(world, name):
    server = await world.made(name, "v6e-2x4")
    before = machines(world, name)
    known = next(tpu for tpu in (await server.fleet.tpus()).tpus if tpu.name == name)
    operation = await server.fleet.report_fault(
        name, ReportFault(host=1, fault="wrong-results", about="NaN on one chip")
    )
    ended = await server.end(operation)
    assert (ended.state, ended.problem) == ("done", None)
    (reported,) = reports(world, name)
    # Host 1 is Google's worker 1, as far as its hosts have said so.
    addresses = {
        instance["name"]: instance["networkInterfaces"][0]["networkIP"]
        for instance in world.instances(name)
    }
    assert addresses[reported] == known.hosts[1].internal_address

    def again() -> bool:
        after = machines(world, name)
        moved = [host for host in after if after[host] != before[host]]
        return moved == [reported] and world.state(name) == "ACTIVE" and all(after.values())

    await eventually(again, 60)


@pytest.mark.long
async def test_what_google_refuses_of_a_report_changes_nothing(world, name):
    server = await world.made(name, "v6e-4")
    before = machines(world, name)
    world.fault(
        "error",
        method="instances.reportHostAsFaulty",
        code="INVALID_ARGUMENT",
        message="Reporting is not supported for this reservation.",
    )
    ended = await server.end(await server.fleet.report_fault(name))
    assert ended.state == "failed"
    assert "not supported" in ended.problem.message
    assert machines(world, name) == before
    with pytest.raises(TPUError, match="no host 3"):
        await server.fleet.report_fault(name, ReportFault(host=3))


async def test_a_tpu_is_replaced_by_the_same_one(world, name, tmp_path):
    guard = SetGuard(action="delete", idle=7200, notice=60)
    options = NodeOptions(metadata={"team": "vision"}, tags=["mine"], scopes=["storage-ro"])
    server = await world.made(
        name, "v6e-4", guard=guard, labels={"mine": "yes"}, options=options, disk_gb=77
    )

    async def guarded() -> bool:
        return (await server.fleet.tpu(name)).guard is not None

    await eventually(guarded, 60)
    (before,) = world.instances(name)
    # A process that no host has told of the guard asks it.
    server = await world.server()
    tunnel = await server.fleet.tunnels.open(name, OpenTunnel(port=6006))
    watched = SyncProject(folder=str(project(tmp_path)), watch=True)
    watch = await server.fleet.sync.start(name, watched)
    plan = await server.fleet.hunts.replacement(name)
    assert len(plan.restored) == 2, plan.restored
    assert plan.question == ""  # emulated
    assert any("files" in sentence for sentence in plan.lost)
    assert (plan.request.guard, plan.request.disk_gb) == (guard, 77)
    hunt = await server.fleet.hunts.replace(name, ReplaceTPU())
    assert not hunt.waiting, "for no preemption"
    assert (await server.end(await server.fleet.operations.get(hunt.id))).state == "done"
    (after,) = world.instances(name)
    assert after["id"] != before["id"]
    for key in ("machineType", "disks", "tags", "serviceAccounts", "networkInterfaces"):
        old, new = before[key], after[key]
        if key == "networkInterfaces":
            old, new = old[0]["network"], new[0]["network"]
        assert old == new, key
    assert after["labels"]["mine"] == "yes"
    items = {item["key"]: item["value"] for item in after["metadata"]["items"]}
    assert items["team"] == "vision"
    await eventually(guarded, 60)

    async def ports() -> list[int]:
        return [reopened.local_port for reopened in await server.fleet.tunnels.list(name)]

    await eventually(ports, 60)
    assert await ports() == [tunnel.local_port]
    assert (await server.ended(watch.id)).state == "cancelled"
    await eventually(lambda: copied(server), 60)


@pytest.mark.long
@pytest.mark.parametrize(
    ("type", "tier", "fault", "state"),
    [
        ("v6e-4", "spot", "preempt", "PREEMPTED"),
        ("v6e-2x4", "flex-start", "run-over", "TERMINATED"),
    ],
)
async def test_what_does_not_run_is_replaced_by_the_same_one(world, name, type, tier, fault, state):
    more: dict[str, Any] = {"run_for": 7200} if tier == "flex-start" else {}
    options = NodeOptions(tags=["mine"], description="ours", secure_boot=True)
    server = await world.made(name, type, tier=tier, options=options, disk_gb=77, **more)
    for host in world.instances(name):
        world.fault(fault, node=host["name"])

    async def stopped() -> bool:
        return (await server.fleet.tpu(name)).state == state

    await eventually(stopped, 60)
    request = (await server.fleet.hunts.replacement(name)).request
    assert (request.type, request.tier, request.disk_gb) == (type, tier, 77)
    assert (request.run_for, request.options.tags) == (more.get("run_for"), ["mine"])
    assert (request.options.description, request.options.secure_boot) == ("ours", True)
    assert not request.options.internal_ips


@pytest.mark.long
async def test_a_replaced_tpu_gets_back_what_hung_on_it(world, name, tmp_path):
    server = await world.made(name, "v6e-2x4", connect=ConnectTPU())
    await eventually(lambda: ready(server, name, "default"), 180)
    fleet = server.fleet
    more = ConnectTPU(environment="extra", packages=["einops"])
    await fleet.connect(name, more)
    await eventually(lambda: ready(server, name, "default", "extra"), 300)
    await fleet.chip_kernels.split(name, SplitChips(environment="extra", each=2))
    await fleet.environments.keep_warm(name, "extra", KeepWarm(wanted=True))
    tunnel = await fleet.tunnels.open(name, OpenTunnel(port=6006))
    folder = project(tmp_path)
    watch = await fleet.sync.start(name, SyncProject(folder=str(folder), watch=True))
    specs = kernelspecs(tmp_path)
    assert len(specs) == 6  # two environments, with all hosts, and two with two chips each

    plan = await fleet.hunts.replacement(name)
    for said in ("default, extra are", f"{tunnel.local_port} → 6006 is", f"{folder} is"):
        assert any(said in sentence for sentence in plan.restored), plan.restored
    assert len(plan.lost) == 1, plan.lost

    hunt = await fleet.hunts.replace(name, ReplaceTPU(end_kernels=True))
    replaced = await server.ended(hunt.id)
    assert replaced.state == "done", (replaced.problem, replaced.log)
    ended = await server.ended(watch.id)
    assert ended.problem is not None, "it was of the TPU that is gone"
    assert [reopened.local_port for reopened in await fleet.tunnels.list(name)] == [
        tunnel.local_port
    ]

    await eventually(lambda: copied(server), 120)
    # The next process goes on with the environments.
    await world.stop(server)
    server = await world.server()
    await eventually(lambda: ready(server, name, "default", "extra"), 300)
    operations = await server.fleet.operations.list()
    connects = [
        operation
        for operation in operations
        if operation.kind == "connect" and operation.tpu == name
    ]
    assert [connect.state for connect in connects if connect.created > hunt.created] == [
        "done",
        "done",
    ]
    assert kernelspecs(tmp_path) == specs
    extra = next(e for e in await server.fleet.environments.list(name) if e.name == "extra")
    assert "einops" in extra.packages


async def ready(server: Server, name: str, *environments: str) -> bool:
    states = {
        environment.name: environment.state
        for environment in await server.fleet.environments.list(name)
    }
    return states == dict.fromkeys(environments, "ready")


def kernelspecs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "kernels").iterdir())


def project(folder: Path) -> Path:
    """A folder to watch."""
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text("print(1)")
    return project


async def copied(server: Server) -> bool:
    """Whether a folder is watched, and was copied."""
    operations = [
        operation for operation in await server.fleet.operations.list() if operation.kind == "sync"
    ]
    return any(
        operation.state == "running" and (operation.result or {}).get("rounds")
        for operation in operations
    )
