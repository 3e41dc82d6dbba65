"""Hunts against the emulator: zones without capacity and quota, lost answers, servers that end in
the middle. What a hunt says is what is true at the cloud, and there is never a second TPU.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fleet_world import LIMIT, Server, World
from refusals import raises
from waiting import eventually

from jupyter_tpu.backoff import Backoff
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.hunts import planner
from jupyter_tpu.fleet.models import (
    TPU,
    Change,
    ConnectTPU,
    CreateTPU,
    Hunt,
    Job,
    JobLogQuery,
    StartHunt,
    StartJob,
    StopJob,
    SyncProject,
)

ZONES = ["us-west4-a", "us-central1-a", "us-west1-c"]


@pytest_asyncio.fixture
async def world(
    emulator: Any, faults: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setitem(planner.MENDED_BY_TIME, Reason.NO_CAPACITY, Backoff(0.1, 0.1))
    monkeypatch.setattr(planner, "GOOGLE", Backoff(0.1, 0.1))
    async with World(emulator, tmp_path) as world:
        yield world


def nodes(world: World, name: str, state: str = "") -> list[str]:
    """The paths of the nodes of this name, in all zones; of those in *state*, if that is given."""
    return world.paths(name, "nodes", state)


def request(name: str, *zones: str, **options: Any) -> StartHunt:
    return StartHunt(tpu=CreateTPU(name=name, type="v5litepod-1"), zones=[*zones], **options)


async def ended(server: Server, hunt: Hunt) -> Hunt:
    async def state() -> Hunt | None:
        now = await server.fleet.hunts.get(hunt.id)
        return now if now.state in ("found", "failed", "stopped") else None

    return await eventually(state, LIMIT)


async def test_zones_without_capacity_and_quota_are_passed_until_there_is_a_tpu(
    world, faults, name
):
    faults(kind="no-capacity", zone=ZONES[0], count=2)
    faults(kind="quota", zone=ZONES[1])
    server = await world.server()
    seen: list[Change] = []
    server.fleet.subscribe(seen.append)
    began = await server.fleet.hunts.start(request(name, ZONES[0], ZONES[1]))
    with raises(Reason.EXISTS, "There is a hunt"):
        await server.fleet.hunts.start(request(name, ZONES[2]))
    hunt = await ended(server, began)
    assert (hunt.state, hunt.zone, hunt.attempted) == ("found", ZONES[0], 4)
    assert [(attempt.zone, attempt.state) for attempt in hunt.attempts] == [
        (ZONES[0], "failed"),
        (ZONES[1], "failed"),
        (ZONES[0], "failed"),
        (ZONES[0], "found"),
    ]
    capacity, quota, *_ = [attempt.problem for attempt in hunt.attempts]
    assert capacity.reason is Reason.NO_CAPACITY
    assert "no more capacity in the zone" in capacity.message
    assert quota.reason is Reason.QUOTA
    assert len(nodes(world, name)) == 1
    tpu = await server.fleet.tpu(name)
    assert (tpu.zone, tpu.state) == (ZONES[0], "READY")
    await eventually(lambda: "found" in [change.hunt.state for change in seen if change.hunt])
    with pytest.raises(TPUError, match="already exists"):
        await server.fleet.hunts.start(request(name, *ZONES))


async def test_it_fails_with_every_reason_when_waiting_does_not_help(world, faults, name):
    faults(kind="permission", zone=ZONES[0])
    faults(kind="permission", zone=ZONES[1])
    server = await world.server()
    hunt = await ended(server, await server.fleet.hunts.start(request(name, *ZONES[:2])))
    assert (hunt.state, hunt.attempted) == ("failed", 2)
    assert hunt.problem.reason is Reason.PERMISSION
    assert ZONES[0] in hunt.problem.message
    assert ZONES[1] in hunt.problem.message
    with pytest.raises(TPUError, match=r"The zone .* does not exist"):
        await server.fleet.hunts.start(request(name, "mars-north1-a"))


async def test_a_stopped_hunt_leaves_nothing_whether_it_waits_or_tries(
    world, faults, name, monkeypatch
):
    monkeypatch.setitem(planner.MENDED_BY_TIME, Reason.NO_CAPACITY, Backoff(3000.0, 3000.0))
    faults(kind="no-capacity", zone=ZONES[0], count=1)
    servers = [await world.server(), await world.server()]
    asked = [server.fleet.hunts.start(request(name, ZONES[0])) for server in servers]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    server = servers[isinstance(answers[0], TPUError)]
    (refused,) = (answer for answer in answers if isinstance(answer, TPUError))
    assert refused.reason is Reason.EXISTS
    (waiting,) = (answer for answer in answers if isinstance(answer, Hunt))
    hunt = await eventually(lambda: next_attempt(server, name))
    assert hunt.candidates[0].retry_at == hunt.next_attempt
    assert (await server.fleet.hunts.stop(name)).state == "stopped"
    faults(kind="slow", seconds=60, zone=ZONES[1], count=1)
    trying = await server.fleet.hunts.start(request(name, ZONES[1]))
    await eventually(lambda: nodes(world, name))
    shown = await server.fleet.tpu(name)
    assert (shown.state, shown.operations) == ("CREATING", [trying.id])
    await server.fleet.hunts.stop(trying.id)
    hunt = await ended(server, trying)
    assert (hunt.state, hunt.attempts[-1].state) == ("stopped", "cancelled")
    assert nodes(world, name) == []
    listed = [hunt.id for hunt in await server.fleet.hunts.list()]
    assert listed == [trying.id, waiting.id]


async def next_attempt(server: Server, name: str) -> Hunt | None:
    hunt = await server.fleet.hunts.get(name)
    return hunt if hunt.next_attempt else None


async def test_it_waits_for_a_way_to_google_and_says_what_is_in_it(world, faults, name):
    faults(kind="error", method="GetNode", code="UNAUTHENTICATED", message="The token expired.")
    server = await world.server()
    began = await server.fleet.hunts.start(request(name, ZONES[0]))
    await eventually(lambda: stands_in_the_way(server, name))
    assert not (await server.fleet.hunts.get(name)).candidates[0].ruled_out
    world.emulator.request("DELETE", "/emulator/v1/faults")
    hunt = await ended(server, began)
    assert (hunt.state, hunt.problem) == ("found", None)


async def stands_in_the_way(server: Server, name: str) -> bool:
    problem = (await server.fleet.hunts.get(name)).problem
    return problem is not None and problem.reason is Reason.NO_CREDENTIALS


async def test_in_the_queue_each_zone_has_its_turn_and_google_goes_on_without_a_server(
    world, faults, name, monkeypatch
):
    monkeypatch.setattr(planner, "TURN", Backoff(0.5, 3600.0))
    faults(kind="quota", zone=ZONES[0])
    full = [faults(kind="no-capacity", zone=zone) for zone in ZONES[1:]]
    first = await world.server()
    asked = request(name, *ZONES, deadline="2999-01-01T00:00:00Z", tiers=["spot"])
    began = await first.fleet.hunts.start(asked)

    async def second_turn() -> list[str]:
        attempts = (await first.fleet.hunts.get(name)).attempts
        return world.paths(name, "queuedResources") if len(attempts) > 3 else []

    (queued,) = await eventually(second_turn, LIMIT)
    hunt = await first.fleet.hunts.get(name)
    assert hunt.queued
    failed = [
        (attempt.zone, attempt.problem.reason) for attempt in hunt.attempts if attempt.problem
    ]
    assert failed[0] == (ZONES[0], Reason.QUOTA)
    assert failed[1:3] == [(zone, Reason.NO_CAPACITY) for zone in ZONES[1:]]
    waiting = hunt.attempts[-1]
    assert (waiting.state, waiting.unattended) == ("trying", True)
    assert f"/{waiting.zone}/" in queued, "what waited before is deleted"
    there = await first.fleet.queued.get(f"{waiting.zone}~{name}")
    assert (there.state, there.tier) == ("WAITING_FOR_RESOURCES", "spot")
    assert there.valid_until == "2999-01-01T00:00:00Z"
    await world.stop(first)

    for fault in full:
        world.emulator.request("DELETE", f"/emulator/v1/faults/{fault['id']}")
    await eventually(lambda: nodes(world, name, "READY"), LIMIT)
    second = await world.server()
    ended_hunt = await ended(second, began)
    assert (ended_hunt.state, ended_hunt.zone, ended_hunt.attempted) == (
        "found",
        waiting.zone,
        waiting.number,
    )
    assert (await second.fleet.tpu(name)).tier == "spot"
    assert (await second.fleet.tpu(name)).queued == name
    assert world.paths(name, "queuedResources") == [queued]
    lost = faults(kind="lost-answer", method="DeleteQueuedResource", count=1)
    deleted = await second.end(await second.fleet.delete(name))
    assert (deleted.state, nodes(world, name)) == ("done", [])
    assert world.paths(name, "queuedResources") == [], "it would use quota"
    await world.used(lost)


@pytest.mark.long
async def test_a_hunt_for_flex_start_passes_zones_without_it_and_is_connected_until_its_end(
    world, faults, name
):
    words = "Method not found."
    for zone, code in zip(ZONES, ("NOT_FOUND", "UNIMPLEMENTED"), strict=False):
        faults(kind="error", method="CreateQueuedResource", zone=zone, code=code, message=words)
    faults(kind="no-capacity", tier="spot")
    server = await world.server()
    asked = request(name, *ZONES, tiers=["spot", "flex-start"])
    asked.tpu.run_for, asked.tpu.connect = 7200.0, ConnectTPU()
    hunt = await ended(server, await server.fleet.hunts.start(asked))
    attempt = hunt.attempts[-1]
    assert (hunt.state, attempt.zone, attempt.tier) == ("found", ZONES[2], "flex-start")
    refused = [candidate for candidate in hunt.candidates if candidate.ruled_out]
    assert [(candidate.zone, candidate.tier) for candidate in refused] == [
        (zone, "flex-start") for zone in ZONES[:2]
    ]
    problems = [candidate.problem for candidate in refused if candidate.problem]
    assert [problem.message for problem in problems] == [words, words]
    assert all("may not offer flex-start" in problem.hint for problem in problems)

    async def listed() -> list[TPU]:
        return [tpu for tpu in (await server.fleet.tpus()).tpus if tpu.name == name]

    async def connected() -> TPU | None:
        return next((tpu for tpu in await listed() if tpu.connection == "connected"), None)

    there = await eventually(connected, LIMIT)
    assert (there.tier, there.run_for) == ("flex-start", 7200)
    runs = datetime.fromisoformat(there.run_ends) - datetime.fromisoformat(there.created)
    assert abs(runs.total_seconds() - 7200) <= 1

    faults(kind="run-over", node=name)

    async def gone() -> bool:
        return not await listed()

    await eventually(gone, LIMIT)
    assert nodes(world, name) == []
    with raises(Reason.NOT_FOUND):
        await server.fleet.connect(name, ConnectTPU())
    left = await server.fleet.queued.get(name)
    assert (left.state, left.has_tpus) == ("SUSPENDED", False)
    assert "quota" in left.meaning
    assert (await server.end(await server.fleet.queued.delete(name))).state == "done"


@pytest.mark.long
async def test_a_tpu_that_google_took_back_is_hunted_for_again_and_one_that_was_deleted_is_not(
    world, faults, name
):
    server = await world.server()
    asked = request(name, ZONES[0], ZONES[1], when_preempted=True)
    with pytest.raises(TPUError, match=f"The TPU {name} does not exist"):
        await server.fleet.hunts.start(asked)
    await server.end(await server.create(name))
    first = world.node(name)
    assert first is not None
    hunt = await server.fleet.hunts.start(asked)
    assert hunt.waiting
    with raises(Reason.EXISTS):
        await server.fleet.hunts.start(asked)
    await world.stop(server)  # Google takes it while no server runs
    faults(kind="preempt", node=first["name"])
    faults(kind="no-capacity", zone=ZONES[0])
    server = await world.server()
    await eventually(lambda: nodes(world, name, "READY") != [], LIMIT)
    (again,) = nodes(world, name)
    assert f"/{ZONES[1]}/" in again, "what was left is deleted, and there is one TPU only"

    async def waits() -> Hunt | None:
        now = await server.fleet.hunts.get(hunt.id)
        return now if now.waiting else None

    waiting = await eventually(waits, LIMIT)
    assert [attempt.state for attempt in waiting.attempts] == ["failed", "found"]
    world.emulator.wait(world.emulator.request("DELETE", f"/v2/{again}"))
    over = await ended(server, hunt)
    assert (over.state, over.waiting) == ("stopped", False)
    assert nodes(world, name) == []


async def test_a_tpu_that_is_hunted_for_again_has_the_project_before_its_job_starts_again(
    world, faults, name, tmp_path
):
    project, data = tmp_path / "project", tmp_path / "data"
    for folder in (project, data):
        folder.mkdir()
        (folder / "word").write_text(folder.name)
    server = await world.server()
    await server.end(await server.create(name))
    copied = await server.fleet.sync.start(name, SyncProject(folder=str(data)))
    assert (await server.end(copied)).state == "done"
    watching = SyncProject(folder=str(project), watch=True)
    watched = await server.fleet.sync.start(name, watching)

    def there(file: str) -> str:
        (host,) = world.emulator.hosts(name)
        path = Path(host["folder"], "home/tpu", file)
        return path.read_text() if path.exists() else ""

    await eventually(lambda: there("project/word") == "project", LIMIT)
    start = StartJob(
        command=["sh", "-c", "cat word ../data/word; exec sleep 1000"],
        cwd="project", restart_with_tpu=True,
    )  # fmt: skip
    job = await server.fleet.jobs.start(name, start)
    await server.fleet.hunts.start(request(name, ZONES[1], when_preempted=True))
    (first,) = nodes(world, name, "READY")
    faults(kind="preempt", node=first)

    async def again() -> Job | None:
        try:
            now = await server.fleet.jobs.get(name, job.id)
        except TPUError:  # the new TPU does not have its jobs yet
            return None
        running = len(now.attempts) == 2 and now.state in ("running", "failed", "ended")
        return now if running else None

    (host,) = (await eventually(again, LIMIT)).attempts[1].hosts
    assert host.state == "running", host
    log = await server.fleet.jobs.log(name, job.id, JobLogQuery(wait=20))
    assert "".join(line.text for line in log.lines) + log.partial_out == "projectdata"
    (project / "word").write_text("changed")  # it is watched for the new one
    await eventually(lambda: there("project/word") == "changed", LIMIT)
    assert (await server.fleet.operations.get(watched.id)).state != "running"
    await server.fleet.jobs.stop(name, job.id, StopJob(patience=0))
