"""What is there and whose it is, of several projects, against the emulator; and a TPU Node."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fleet_world import LIMIT, NODES, ZONE, World
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import (
    AdoptTPU,
    DeleteQueued,
    DeleteTPU,
    ResetQueued,
    StopTPU,
    Usage,
    UsedTPU,
)
from jupyter_tpu.fleet.money.owners import OWNER
from jupyter_tpu.fleet.reconcile import usage as usage_module

QUEUED = f"/v2/projects/emulated/locations/{ZONE}/queuedResources"
VERSION = "v2-alpha-tpuv5-lite"
SECOND = f"/v2/projects/second/locations/{ZONE}/nodes"


@pytest_asyncio.fixture
async def world(
    emulator: Any, faults: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setenv("JUPYTER_TPU_OWNER", "Ana@example.com")
    async with World(emulator, tmp_path) as world:
        yield world


def begin(world: World, nodes: str, name: str, type: str, **fields: Any) -> str:
    """A TPU that is CREATING; returns its path."""
    body = {"acceleratorType": type, "runtimeVersion": VERSION, **fields}
    world.emulator.request("POST", f"{nodes}?nodeId={name}", body)
    return f"{nodes.removeprefix('/v2/')}/{name}"


def ask_for_tpus(world: World, name: str, labels: dict[str, str]) -> None:
    node = {"acceleratorType": "v5litepod-16", "runtimeVersion": VERSION, "labels": labels}
    spec = {"parent": f"projects/emulated/locations/{ZONE}", "nodeId": name, "node": node}
    world.emulator.request(
        "POST", f"{QUEUED}?queuedResourceId={name}", {"tpu": {"nodeSpec": [spec]}}
    )


def entry(usage: Usage, name: str) -> UsedTPU:
    (one,) = (tpu for tpu in usage.tpus if tpu.name == name)
    return one


async def test_what_is_there_is_listed_with_its_owners_over_projects(
    world, faults, create_tpu, monkeypatch, caplog
):
    fleet = (await world.server()).fleet
    mine = create_tpu(type="v5litepod-1", zone=ZONE, labels={OWNER: "ana_example-com"})
    name = parse_node_path(mine["name"])
    faults(kind="slow", zone=ZONE, seconds=600)  # the others need no hosts
    bobs = begin(world, NODES, "bobs", "v5litepod-16", labels={"owner": "bob"})
    nobodys = begin(world, NODES, "nobodys", "v5litepod-1")
    other = begin(world, SECOND, "other", "v5litepod-1")
    faults(kind="quota", zone=ZONE)
    ask_for_tpus(world, "failed", {OWNER: "ana_example-com"})
    try:

        async def failed() -> Usage | None:
            usage = await fleet.usage.show("emulated,second")
            return usage if entry(usage, "failed").state == "FAILED" else None

        usage = await eventually(failed, LIMIT)
        assert (usage.me, usage.projects) == ("ana_example-com", ["emulated", "second"])
        assert [tpu.name for tpu in usage.tpus[:1]] == ["bobs"], "the most expensive is first"
        shown = entry(usage, name.node)
        assert (shown.owner, shown.mine, shown.owner_source) == (usage.me, True, "label")
        assert (shown.chips, shown.holds, shown.cost.usd) == (1, "chips", 0)
        assert not shown.forgotten
        assert not entry(usage, "bobs").mine
        assert (entry(usage, "nobodys").owner, entry(usage, "other").project) == ("", "second")
        queued = entry(usage, "failed")
        assert (queued.kind, queued.chips, queued.holds) == ("queued", 16, "quota")
        assert "It still uses quota: delete it" in queued.advice
        assert (await fleet.queued.get("failed")).forgotten
        holding = [(owner.owner, owner.chips, owner.blocked_chips) for owner in usage.owners]
        # Other tests' TPUs on this emulator may be listed, too.
        made = [owner for owner in holding if owner[0] in ("bob", "", usage.me)]
        assert made == [("bob", 16, 0), ("", 2, 0), (usage.me, 1, 16)]
        assert (usage.chips, usage.problems) == (sum(chips for _, chips, _ in holding), [])

        # It counts as forgotten only when it is mine, and nothing of this server uses it.
        monkeypatch.setattr(usage_module, "FORGOTTEN_SECONDS", -1.0)
        usage = await fleet.usage.show()
        unused = {tpu.name for tpu in usage.tpus if tpu.forgotten}
        assert name.node in unused
        assert not unused & {"bobs", "nobodys"}
        assert "other" not in [tpu.name for tpu in usage.tpus]
        assert (await fleet.tpu(name.node)).forgotten
        await fleet._core.observer.refresh()
        await fleet._core.observer.refresh()
        said = [
            record.message for record in caplog.records if "has been READY for hours" in record.msg
        ]
        assert len([text for text in said if name.node in text]) == 1
        fleet._core.desired.connect(name, mine["id"])
        shown = entry(await fleet.usage.show(), name.node)
        assert (shown.connected, shown.forgotten) == (True, False)
        assert not (await fleet.tpu(name.node)).forgotten
        fleet._core.desired.disconnect(name)

        # What does not answer keeps nothing else from being shown.
        monkeypatch.setattr(fleet.usage._listings, "_keep", 0.0)
        faults(kind="error", method="ListQueuedResources", code="INTERNAL", message="Oh.")
        usage = await fleet.usage.show("emulated,second")
        assert {tpu.name for tpu in usage.tpus} >= {name.node, "bobs", "nobodys", "other"}
        assert {tpu.kind for tpu in usage.tpus} == {"tpu"}
        assert [problem.message for problem in usage.problems] == ["emulated: Oh.", "second: Oh."]
        with pytest.raises(TPUError, match="'b c' is not the ID of a project"):
            await fleet.usage.show("a,b c")
    finally:
        world.emulator.request("DELETE", "/emulator/v1/faults")
        paths = [f"{QUEUED}/failed?force=true", *(f"/v2/{path}" for path in (bobs, nobodys, other))]
        for ending in [world.emulator.request("DELETE", path) for path in paths]:
            world.emulator.wait(ending)


async def test_a_tpu_node_is_shown_and_explained_where_it_is_used(world, faults, create_tpu):
    node = create_tpu(type="v5litepod-1", zone=ZONE)
    name = node["name"].rpartition("/")[2]
    server = await world.server()
    fleet = server.fleet
    assert (await fleet.tpu(name)).problem is None
    faults(kind="tpu-node", node=name)
    with contextlib.suppress(TPUError):  # it may have been polled since then
        ended = await server.end(await fleet.connect(name))
        assert ended.problem.message.startswith(f"{name} is a TPU Node")
    await fleet._core.observer.refresh()
    tpu = await fleet.tpu(name)
    assert tpu.problem.message.startswith(f"{name} is a TPU Node, which has no hosts to log in to")
    assert "Create a TPU VM instead" in tpu.problem.hint
    assert (tpu.state, tpu.hosts[0].external_address) == ("READY", "")
    for refused in (fleet.connect(name), fleet.files.on_host(name, "0"), fleet.doctor.check(name)):
        with raises(Reason.CONFLICT, "is a TPU Node"):
            await refused
    assert "Google has retired" in entry(await fleet.usage.show(), name).advice
    with raises(Reason.INVALID, "is the address of a TPU Node"):
        await fleet.connect("grpc://10.0.0.2:8470")


async def test_another_persons_tpu_is_adopted_stopped_or_deleted_by_its_name_only(
    world, create_tpu
):
    tpu = create_tpu(type="v5litepod-1", zone=ZONE, labels={"owner": "bob", "team": "x"})
    name = parse_node_path(tpu["name"]).node
    server = await world.server()
    fleet = server.fleet
    assert (await fleet.tpu(name)).not_yours
    for refused in (
        fleet.delete(name, DeleteTPU(confirm_name=name[:-1])),
        fleet.usage.adopt(name, AdoptTPU(confirm_name=f"{ZONE}/{name}")),
        fleet.stop(name, StopTPU(end_kernels=True, end_jobs=True)),
    ):
        with raises(Reason.NOT_YOURS, rf"{name} belongs to bob\."):
            await refused
    assert world.state(name) == "READY"

    adopted = await fleet.usage.adopt(name, AdoptTPU(confirm_name=name))
    assert (adopted.owner, adopted.mine) == ("ana_example-com", True)
    node = world.node(name) or {}
    assert node["labels"] == {"owner": "bob", "team": "x", OWNER: "ana_example-com"}
    assert entry(await fleet.usage.show(), name).mine
    assert not (await fleet.tpu(name)).not_yours
    ended = await server.end(await fleet.delete(name))
    assert (ended.state, world.state(name)) == ("done", "gone")


async def test_another_persons_queued_resource_is_reset_or_deleted_by_its_name_only(world, faults):
    server = await world.server()
    queued = server.fleet.queued
    name = "bobs-queued"
    exceeded = faults(kind="quota", zone=ZONE)
    ask_for_tpus(world, name, {"owner": "bob"})

    async def failed() -> bool:
        return (await queued.get(f"{ZONE}~{name}")).state == "FAILED"

    await eventually(failed, LIMIT)
    faults(kind="no-capacity", zone=ZONE)
    world.emulator.request("DELETE", f"/emulator/v1/faults/{exceeded['id']}")
    for refused in (
        queued.reset(name),
        queued.reset(name, ResetQueued(confirm_name="bob")),
        queued.delete(name),
    ):
        with raises(Reason.NOT_YOURS, rf"{name} belongs to bob\."):
            await refused
    assert await failed(), "it was not reset"
    await queued.reset(name, ResetQueued(confirm_name=name))
    assert not await failed()
    began = await queued.delete(name, DeleteQueued(force=True, confirm_name=name))
    assert (await server.end(began)).state == "done"
