"""Bad days with Compute Engine that are not about one slice's parts: two control planes at once,
zones that refuse what they list, rules of the organization, and clocks.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from cloud_operations import Tomorrow
from compute_world import ZONE, ComputeWorld
from waiting import eventually

from jupyter_tpu.cloud import (
    OPERATION_LABEL,
    ComputeEngine,
    NodeName,
    NodeSpec,
    QueuedSpec,
    Target,
    google_apis,
)
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import CreateTPU, Operation, StartHunt

WORLD = ComputeWorld
NODES = f"/v2/projects/emulated/locations/{ZONE}/nodes"


@pytest.fixture
def name(world: ComputeWorld) -> Iterator[str]:
    with world.new_name() as name:
        yield name
    for node in world.emulator.request("GET", NODES).get("nodes", []):
        if node["name"].endswith(f"/{name}"):
            world.emulator.wait(world.emulator.request("DELETE", f"/v2/{node['name']}"))


def request(name: str, api: Any) -> CreateTPU:
    return CreateTPU(name=name, type="v6e-4", zone=ZONE, api=api)


def on_both(world: ComputeWorld, name: str) -> list[str]:
    """The control planes that have a TPU of the name."""
    nodes = world.emulator.request("GET", NODES).get("nodes", [])
    planes = ["tpu" for node in nodes if node["name"].endswith(f"/{name}")]
    return planes + ["compute" for instance in world.items("instances") if instance["name"] == name]


async def test_of_two_processes_of_one_user_one_creates_a_name_on_whichever_control_plane(
    world, name
):
    servers = [await world.server(), await world.server()]
    answers = await asyncio.gather(
        *(
            server.fleet.create(request(name, api))
            for server, api in zip(servers, ("tpu", "compute"), strict=True)
        ),
        return_exceptions=True,
    )
    begun = [answer for answer in answers if isinstance(answer, Operation)]
    (refused,) = [answer for answer in answers if isinstance(answer, TPUError)]
    assert refused.reason is Reason.EXISTS
    (operation,) = begun
    ended = await servers[answers.index(operation)].end(operation)
    assert ended.state == "done"
    assert len(on_both(world, name)) == 1


async def test_two_people_who_create_one_name_on_both_control_planes_are_told(
    world, name, tmp_path
):
    """Neither knows of the other; nothing is deleted that somebody may use."""
    another = tmp_path / "theirs"
    another.mkdir()
    mine, theirs = await world.server(), await world.server(another)
    # Each has looked before the other has made something.
    world.fault("slow", zone=ZONE, seconds=4, count=1)
    first = await mine.fleet.create(request(name, "tpu"))
    await eventually(lambda: on_both(world, name) == ["tpu"])
    cloud = ComputeEngine(Target(emulator=str(world.emulator.state_file)))
    spec = NodeSpec(type="v6e-4", version="", labels={OPERATION_LABEL: "theirs"})
    await cloud.begin_create(NodeName("emulated", ZONE, name), spec)
    ended = await mine.end(first)
    assert ended.state == "done"
    said = "\n".join(ended.log)
    assert f"Compute Engine has a TPU called {name}" in said
    assert f"{name}@compute" in said
    assert "nothing was deleted" in said
    assert on_both(world, name) == ["tpu", "compute"]

    async def listed() -> set[str]:
        return {tpu.name for tpu in (await theirs.fleet.tpus()).tpus if tpu.name.startswith(name)}

    async def both() -> bool:
        return len(await listed()) == 2

    await eventually(both, 60)
    await cloud.close()


@pytest.mark.long
async def test_a_zone_that_refuses_what_it_lists_says_so_and_a_hunt_tries_the_next(world, name):
    server = await world.server()
    message = "This user agent is not allowed to use the machine type [ct6e-standard-4t]."
    world.fault(
        "error", zone=ZONE, method="instances.insert", code="PERMISSION_DENIED", message=message
    )
    ended = await server.end(await server.fleet.create(request(name, "compute")))
    assert ended.state == "failed"
    assert "not allowed to use the machine type" in ended.problem.message
    assert on_both(world, name) == []
    tpu = CreateTPU(name=name, type="v6e-4", api="compute")
    hunt = await server.fleet.hunts.start(StartHunt(tpu=tpu, zones=[ZONE, "us-central1-b"]))
    ended = await server.end(await server.fleet.operations.get(hunt.id))
    assert (ended.state, ended.zone) == ("done", "us-central1-b")


async def test_how_long_a_request_waits_follows_googles_clock(world, name, monkeypatch):
    cloud = ComputeEngine(Target(emulator=str(world.emulator.state_file)))
    world.fault("no-capacity", zone=ZONE)
    monkeypatch.setattr(google_apis, "datetime", Tomorrow)
    until = (datetime.now().astimezone() + timedelta(hours=1)).isoformat()
    labels = {OPERATION_LABEL: "clock"}
    node = NodeSpec(type="v6e-4", version="", tier="flex-start", labels=labels)
    spec = QueuedSpec(node=node, node_id=name, valid_until=until, run_for=3600.0)
    await cloud.begin_queue(NodeName("emulated", ZONE, name), spec)
    (instance,) = [instance for instance in world.items("instances") if instance["name"] == name]
    seconds = int(instance["params"]["requestValidForDuration"]["seconds"])
    assert seconds == pytest.approx(3600, abs=120)
    await cloud.close()
