"""`ComputeEngine` on the emulator: instances and slices, from their creation to their end."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from waiting import eventually

from jupyter_tpu.cloud import (
    OPERATION_LABEL,
    ComputeEngine,
    Node,
    NodeName,
    NodeSpec,
    NodeState,
    Target,
)
from jupyter_tpu.errors import TPUError

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
    return NodeSpec(type=type, version="", labels=labels, **more)


async def ended(cloud: ComputeEngine, operation: str) -> None:
    async def status() -> Any:
        found = await cloud.operation(operation)
        return found if found.done else None

    if (error := (await eventually(status, 60)).error) is not None:
        raise error


async def create(cloud: ComputeEngine, name: NodeName, wanted: NodeSpec) -> Node:
    """As the fleet does it: step by step, until it is READY."""
    await ended(cloud, await cloud.begin_create(name, wanted))
    while (await cloud.get_node(name)).unfinished:
        await ended(cloud, await cloud.begin_create(name, wanted))

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
    found = []
    for kind in kinds:
        page = emulator.request("GET", f"/compute/v1/projects/emulated/aggregated/{kind}")
        found += [each["name"] for scope in page["items"].values() for each in scope.get(kind, ())]
    return sorted(found)


@pytest.mark.asyncio
async def test_one_host_is_an_instance(cloud: ComputeEngine, emulator: Any) -> None:
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


@pytest.mark.asyncio
async def test_several_hosts_are_a_template_a_policy_and_a_group(
    cloud: ComputeEngine, emulator: Any
) -> None:
    name, wanted = new_name(), spec("v6e-2x4", tier="spot")
    made = await create(cloud, name, wanted)
    assert (made.type, made.tier, made.id) == ("v6e-2x4", "spot", wanted.labels[OPERATION_LABEL])
    assert [each.instance for each in made.endpoints] == [f"{name.node}-w-00{n}" for n in (1, 2)]
    assert made.labels == wanted.labels
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
