"""Queued resources against the emulator: lost answers, servers that end, what has TPUs.

There is no capacity in their zone, except where a test is about TPUs that are there.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fleet_world import LIMIT, ZONE, Server, World
from refusals import raises
from waiting import eventually

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.lifecycle import queued
from jupyter_tpu.fleet.models import (
    Change,
    CreateTPU,
    DeleteQueued,
    ListQuery,
    QueuedResource,
    QueueTPU,
)

QUEUED = f"/v2/projects/emulated/locations/{ZONE}/queuedResources"


@pytest_asyncio.fixture
async def world(
    emulator: Any, faults: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr(queued, "FRESH_ANSWER_SECONDS", 1.0)
    async with World(emulator, tmp_path) as world:
        yield world


def queued_at_google(world: World) -> dict[str, str]:
    """The states of all that are there, by their names."""
    listed = world.emulator.request("GET", QUEUED).get("queuedResources", [])
    return {resource["name"].rpartition("/")[2]: resource["state"]["state"] for resource in listed}


def request(name: str, **options: Any) -> QueueTPU:
    return QueueTPU(tpu=CreateTPU(name=name, type="v5litepod-1", zone=ZONE), **options)


async def in_state(server: Server, name: str, state: str) -> QueuedResource:
    async def reached() -> QueuedResource | None:
        now = await server.fleet.queued.get(f"{ZONE}~{name}")
        return now if now.state == state else None

    return await eventually(reached, LIMIT)


async def test_the_next_server_finds_one_whose_answer_was_lost_and_it_becomes_a_tpu(
    world, faults, name
):
    full = faults(kind="no-capacity", zone=ZONE)
    lost = faults(kind="lost-answer", method="CreateQueuedResource", count=1)
    first = await world.server()
    began = await first.fleet.queued.create(request(name))
    assert (began.kind, began.tpu, began.zone) == ("queue", name, ZONE)
    await world.used(lost)
    await world.stop(first)

    server = await world.server()
    assert (await server.ended(began.id)).state == "done"
    waiting = await in_state(server, name, "WAITING_FOR_RESOURCES")
    assert (waiting.tpus, waiting.type, waiting.has_tpus) == ([name], "v5litepod-1", False)
    assert (waiting.emulated, waiting.meaning) == (True, "It waits for capacity.")
    assert name in [resource.name for resource in (await server.fleet.queued.list()).queued]
    with raises(Reason.EXISTS):
        await server.fleet.queued.create(request(name))

    world.emulator.request("DELETE", f"/emulator/v1/faults/{full['id']}")
    await in_state(server, name, "ACTIVE")
    seen: list[Change] = []
    server.fleet.subscribe(seen.append)

    async def published() -> QueuedResource | None:
        await server.fleet.queued.list(ListQuery(fresh=True))  # somebody looks
        resources = (change.queued for change in seen if change.id == f"{ZONE}/{name}")
        return next(
            (resource for resource in resources if resource and resource.state == "ACTIVE"), None
        )

    assert (await eventually(published)).has_tpus
    assert world.state(name) == "READY"
    with pytest.raises(TPUError, match=rf"{name} is ACTIVE\. Its TPUs \({name}\) would be deleted"):
        await server.fleet.queued.delete(name)
    ended = await server.end(await server.fleet.queued.delete(name, DeleteQueued(force=True)))
    assert (ended.kind, ended.state) == ("unqueue", "done")
    assert (name in queued_at_google(world), world.state(name)) == (False, "gone")


async def test_a_cancelled_request_is_gone_and_a_multislice_names_its_tpus(world, faults, name):
    faults(kind="no-capacity", zone=ZONE)
    silence = faults(kind="error", method="GetOperation", code="UNAVAILABLE")
    server = await world.server()
    began = await server.fleet.queued.create(request(name))
    await eventually(lambda: name in queued_at_google(world))
    await server.fleet.operations.cancel(began.id)
    world.emulator.request("DELETE", f"/emulator/v1/faults/{silence['id']}")
    assert (await server.end(began)).state == "cancelled"
    assert name not in queued_at_google(world)

    end = "2999-01-01T00:00:00Z"
    began = await server.fleet.queued.create(request(name, node_count=2, valid_until=end))
    assert (await server.end(began)).state == "done"
    resource = await server.fleet.queued.get(name)
    assert (resource.tpus, resource.valid_until) == ([f"{name}-0", f"{name}-1"], end)
    with raises(Reason.CONFLICT):
        await server.fleet.queued.reset(name)
    assert (await server.end(await server.fleet.queued.delete(name))).state == "done"
    with raises(Reason.NOT_FOUND):
        await server.fleet.queued.get(name)


async def test_a_flex_start_tpu_comes_from_the_queue_for_the_time_that_it_runs(world, faults, name):
    lost = faults(kind="lost-answer", method="CreateQueuedResource", count=1)
    server = await world.server()
    tpu = CreateTPU(name=name, type="v5litepod-1", zone=ZONE, tier="flex-start", run_for=5400.0)
    ended = await server.end(await server.fleet.create(tpu))
    await world.used(lost)
    assert (ended.kind, ended.state, ended.problem) == ("create", "done", None)
    asked = world.emulator.request("GET", f"{QUEUED.replace('v2', 'v2alpha1', 1)}/{name}")
    assert asked["provisioningModel"] == "FLEX_START"
    assert asked["runDuration"] == {"maxRunDuration": "5400s"}
    created = await server.fleet.tpu(name)
    waited = await server.fleet.queued.get(f"{ZONE}~{name}")
    assert (created.tier, created.run_for) == (waited.tier, waited.run_for) == ("flex-start", 5400)
    assert created.cost.list_usd_per_hour is None, "it is not the price on demand"
    await server.end(await server.fleet.delete(name))
    assert (name in queued_at_google(world), world.state(name)) == (False, "gone")

    faults(kind="no-capacity", zone=ZONE)
    several = QueueTPU(tpu=tpu, node_count=2)
    assert (await server.end(await server.fleet.queued.create(several))).state == "done"
    waiting = await in_state(server, name, "WAITING_FOR_RESOURCES")
    assert (waiting.tpus, waiting.tier) == ([f"{name}-0", f"{name}-1"], "flex-start")
