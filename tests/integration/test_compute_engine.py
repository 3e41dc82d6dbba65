"""`ComputeEngine` on the emulator: instances and slices, from their creation to their end."""

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from cloud_operations import Tomorrow
from msgspec import structs
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud import (
    OPERATION_LABEL,
    ComputeEngine,
    Node,
    NodeName,
    NodeSpec,
    NodeState,
    QueuedSpec,
    QueuedState,
    Target,
    google_apis,
)
from jupyter_tpu.cloud.compute_engine import slices
from jupyter_tpu.errors import Reason, TPUError

ZONE = "us-east5-a"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHC2yl1hW7YPL3mTLmlS1VJmJWVm2S7x0wdnqMyQ2c2U"


@pytest_asyncio.fixture
async def cloud(emulator: Any, faults: Any) -> AsyncIterator[ComputeEngine]:
    cloud = ComputeEngine(Target(emulator=str(emulator.state_file)))
    yield cloud
    emulator.request("DELETE", "/emulator/v1/faults")
    for node in (await cloud.list_nodes()).nodes:
        await remove(cloud, node.name)
    await cloud.close()


def new_name() -> NodeName:
    return NodeName("emulated", ZONE, f"ce-{uuid.uuid4().hex[:6]}")


def spec(type: str = "v6e-4", **more: Any) -> NodeSpec:
    labels = {OPERATION_LABEL: uuid.uuid4().hex, "mine": "yes"}
    return NodeSpec(type=type, labels=labels, **{"version": "", **more})


async def ended(cloud: ComputeEngine, operation: str) -> None:
    async def status() -> Any:
        answer = await cloud.operation(operation)
        return answer if answer.done else None

    if (error := (await eventually(status, 60)).error) is not None:
        raise error


async def create(cloud: ComputeEngine, name: NodeName, spec: NodeSpec) -> Node:
    """As the fleet does it: step by step, until it is READY."""
    await ended(cloud, await cloud.begin_create(name, spec))
    while (await cloud.get_node(name)).unfinished:
        await ended(cloud, await cloud.begin_create(name, spec))

    async def ready() -> Node | None:
        node = await cloud.get_node(name)
        if node.problem is not None:
            raise node.problem
        return node if node.state is NodeState.READY else None

    return await eventually(ready, 60)


async def remove(cloud: ComputeEngine, name: NodeName) -> None:
    with contextlib.suppress(TPUError):
        while True:
            await ended(cloud, await cloud.begin_delete(name))


def left(emulator: Any, *collections: str) -> list[str]:
    """The names of what there is, in all places."""
    kinds = collections or (
        *("instances", "instanceGroupManagers", "instanceTemplates", "resourcePolicies"),
    )
    names = []
    for kind in kinds:
        page = emulator.request("GET", f"/compute/v1/projects/emulated/aggregated/{kind}")
        names += [item["name"] for scope in page["items"].values() for item in scope.get(kind, ())]
    return sorted(names)


async def test_one_host_is_an_instance(cloud, emulator):
    name = new_name()
    made = await create(cloud, name, spec(run_for=7200.0, metadata={"a": "b"}))
    assert (made.type, made.tier, made.api, made.run_for) == ("v6e-4", "on-demand", "compute", 7200)
    assert made.ends
    assert made.version == "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
    (host,) = made.endpoints
    assert (host.instance, bool(host.internal), bool(host.external)) == (name.node, True, True)
    assert (await cloud.list_nodes()).nodes == (made,)
    assert (await cloud.list_nodes("us-central1-c")).nodes == ()
    assert await cloud.add_ssh_key(name, "ann", f"{KEY} x")
    assert not await cloud.add_ssh_key(name, "ann", f"{KEY} y")
    await cloud.set_label(made, "owner", "ann")
    await cloud.remove_metadata(made, "a")
    now = await cloud.get_node(name)
    assert now.metadata["ssh-keys"].startswith("ann:ssh-ed25519 ")
    assert (now.labels["owner"], now.labels["mine"], "a" in now.metadata) == ("ann", "yes", False)
    (published,) = await cloud.guest_attributes(name)
    assert ("hostkeys", "ssh-ed25519") in published
    await ended(cloud, await cloud.begin_stop(name))
    assert (await cloud.get_node(name)).state is NodeState.STOPPED
    await ended(cloud, await cloud.begin_start(name))
    assert (await cloud.get_node(name)).state is NodeState.READY
    emulator.inject_fault("announce-maintenance", node=name.node, seconds=86_400)
    assert (await cloud.maintenance())[made.id].scheduled
    await remove(cloud, name)
    assert left(emulator) == []


async def test_several_hosts_are_a_template_a_policy_and_a_group(cloud, emulator):
    name, asked = new_name(), spec("v6e-2x4", tier="spot")
    made = await create(cloud, name, asked)
    assert (made.type, made.tier, made.id) == ("v6e-2x4", "spot", asked.labels[OPERATION_LABEL])
    assert [endpoint.instance for endpoint in made.endpoints] == [
        f"{name.node}-w-00{n}" for n in (1, 2)
    ]
    assert made.labels == asked.labels
    assert (await cloud.list_nodes()).nodes == (made,)
    assert len(await cloud.guest_attributes(name)) == 2
    assert await cloud.add_ssh_key(name, "ann", KEY)
    await cloud.set_label(made, "owner", "ann")
    now = await cloud.get_node(name)
    assert KEY.split()[1] in now.metadata["ssh-keys"]
    assert now.labels["owner"] == "ann"
    with pytest.raises(TPUError, match="slice of several hosts"):
        await cloud.begin_stop(name)
    await remove(cloud, name)
    assert left(emulator) == []


async def test_a_tpu_of_several_hosts_is_restarted_as_a_whole_and_a_spot_one_is_preempted(
    cloud, emulator
):
    name = new_name()
    await create(cloud, name, spec("v6e-2x4"))
    emulator.inject_fault("host-error", node=f"{name.node}-w-001", seconds=1)
    states: list[str] = []

    async def again() -> bool:
        node = await cloud.get_node(name)
        if node.state not in states:
            states.append(node.state)
        return len(states) > 1 and node.state is NodeState.READY

    await eventually(again, 60)
    assert states[0] == "REPAIRING", states
    await remove(cloud, name)

    name = new_name()
    made = await create(cloud, name, spec(tier="spot"))
    emulator.inject_fault("preempt", node=name.node)

    async def preempted() -> bool:
        return (await cloud.get_node(name)).state is NodeState.PREEMPTED

    await eventually(preempted)
    with pytest.raises(TPUError, match="which Google does not start again"):
        await cloud.begin_stop(made.name)


async def test_flex_start_waits_gets_capacity_or_vanishes_and_is_asked_for_at_once(
    cloud, emulator, faults
):
    name = new_name()
    full = faults("no-capacity", zone=ZONE)
    asked = QueuedSpec(node=spec(tier="flex-start"), node_id=name.node, run_for=3600.0)
    begun = await cloud.begin_queue(name, asked)
    waits = await cloud.get_queued(name)
    assert (waits.state, waits.nodes, waits.run_for) == (
        QueuedState.WAITING_FOR_RESOURCES,
        (name.node,),
        3600.0,
    )
    assert (await cloud.list_queued()).queued == (waits,)
    assert (await cloud.operation(begun)).waiting
    (shown,) = (await cloud.list_nodes()).nodes
    assert (shown.state, shown.cloud_state, shown.waiting) == ("CREATING", "PENDING", True)
    emulator.request("DELETE", f"/emulator/v1/faults/{full['id']}")
    await ended(cloud, begun)
    assert (await cloud.get_queued(name)).state is QueuedState.ACTIVE
    with pytest.raises(TPUError, match="has capacity now"):
        await cloud.begin_delete_queued(name, force=False)
    await ended(cloud, await cloud.begin_delete_queued(name, force=True))

    name = new_name()
    faults("no-capacity", zone=ZONE)
    begun = await cloud.begin_queue(name, structs.replace(asked, node_id=name.node))
    emulator.inject_fault("vanish", node=name.node)
    with raises(Reason.NO_CAPACITY):
        await ended(cloud, begun)
    with raises(Reason.NOT_FOUND):
        await cloud.get_queued(name)

    # The quick look whether there is capacity: there is none, and nothing waits.
    at_once = spec(tier="flex-start", run_for=60.0, wait_for=0.0)
    begun = await cloud.begin_create(name, at_once)
    with raises(Reason.NO_CAPACITY):
        await ended(cloud, begun)
    assert left(emulator) == []


async def test_a_slice_of_flex_start_waits_without_instances(cloud, emulator, faults):
    name = new_name()
    full = faults("no-capacity", zone=ZONE)
    node = spec("v6e-2x4", tier="flex-start")
    asked = QueuedSpec(node=node, node_id=name.node, run_for=3600.0)
    await ended(cloud, await cloud.begin_queue(name, asked))
    while (await cloud.get_queued(name)).unfinished:
        await ended(cloud, await cloud.begin_queue(name, asked))
    waits = await eventually(lambda: cloud.get_queued(name))
    assert (waits.state, waits.type, waits.id) == (
        QueuedState.WAITING_FOR_RESOURCES,
        "v6e-2x4",
        node.labels[OPERATION_LABEL],
    )
    assert left(emulator, "instances") == []
    emulator.request("DELETE", f"/emulator/v1/faults/{full['id']}")

    async def ready() -> Node | None:
        vm = await cloud.get_node(name)
        return vm if vm.state is NodeState.READY else None

    made = await eventually(ready, 60)
    assert (made.tier, made.run_for, len(made.endpoints)) == ("flex-start", 3600.0, 2)
    # Its time is over: the group stays, without instances, and says so.
    for host in made.endpoints:
        emulator.inject_fault("run-over", node=host.instance)

    async def over() -> bool:
        return (await cloud.get_node(name)).state is NodeState.TERMINATED

    await eventually(over, 60)
    await remove(cloud, name)
    assert left(emulator) == []


async def test_what_was_never_finished_is_swept_and_what_may_be_in_progress_is_not(
    cloud, emulator, monkeypatch
):
    abandoned, name = new_name(), new_name()
    asked = spec("v6e-2x4")
    for _ in range(2):
        await ended(cloud, await cloud.begin_create(abandoned, asked))
    made = await create(cloud, name, spec("v6e-2x4"))
    assert await cloud.sweep() == []
    with pytest.raises(TPUError, match="is being created"):
        await cloud.begin_create(abandoned, spec("v6e-2x4"))
    # Google's clock is what counts where this computer's is a day ahead.
    monkeypatch.setattr(google_apis, "datetime", Tomorrow)
    assert await cloud.sweep() == []
    monkeypatch.setattr(slices, "LEFTOVER_SECONDS", -60.0)  # Google's clock has whole seconds
    assert await cloud.sweep() == [f"{abandoned.node}-a"] * 2
    assert await cloud.sweep() == []
    assert (await cloud.get_node(name)).id == made.id
    await remove(cloud, name)
    assert left(emulator) == []


async def test_what_can_be_created(cloud):
    zones = await cloud.locations()
    assert {"us-central1-c", "us-central1-ai1a", ZONE} <= set(zones)
    assert "v6e-2x4" in await cloud.accelerator_types(ZONE)
    assert await cloud.accelerator_types("us-central1-ai1a") == tuple(
        f"tpu7x-{2**power}" for power in range(3, 13)
    )
    assert "ubuntu-accel-2404-amd64-tpu-tpu7x" in await cloud.runtime_versions(ZONE)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"type": "v5litepod-8"}, "Compute Engine has no v5litepod-8"),
        ({"tier": "reserved"}, "needs the name of the reservation"),
        ({"tier": "flex-start"}, "needs a run time"),
        ({"network": "none"}, "networks/none' was not found"),
        ({"version": "none"}, "family/none' was not found"),
    ],
)
async def test_what_compute_engine_does_not_make_is_refused(cloud, emulator, options, text):
    with pytest.raises(TPUError, match=text):
        await cloud.begin_create(new_name(), spec(**options))
    assert left(emulator) == []
