"""Hunts in the queue: turns, and what has got room in the moment in which one ends."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from google_model import Google
from msgspec import structs
from test_money_interleavings import NAMES, World, use_clock

from jupyter_tpu.cloud import NodeName, NodeOptions, NodeState, QueuedTPUs
from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.hunts import run as hunt_run
from jupyter_tpu.fleet.models import ConnectTPU, CreateTPU, DeleteTPU, Operation, StartHunt
from jupyter_tpu.fleet.models.core import timestamp
from jupyter_tpu.fleet.money.owners import OWNER, own_name
from jupyter_tpu.fleet.reconcile import usage

NAME = NAMES[0]
#: The first has its turn first.
TYPES = ["v5litepod-1", "v5litepod-4"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World()
    use_clock(world, monkeypatch)
    world.start()
    yield world
    world.close()


def start(world: World, created: dict[str, Any] | None = None, **hunted: Any) -> None:
    tpu = CreateTPU(
        name=NAME.node,
        type=TYPES[0],
        zone=Google.zone,
        confirm_price=True,
        **{"connect": ConnectTPU(), **(created or {})},
    )
    hunt = StartHunt(tpu=tpu, **{"types": TYPES, "queued": True, **hunted})
    world.loop.run_until_complete(world.servers[0].hunts.start(hunt))


def after(world: World, seconds: float) -> Any:
    world.loop.pass_time(seconds)
    return world.loop.run_until_complete(world.servers[0].hunts.get(NAME.node))


def test_each_candidate_has_its_turn_and_what_waited_is_deleted(world):
    world.google.fates["create"] = ["no room", "no room", "no room"]
    end = timestamp("seconds", at=world.loop.now + 86_400.0)
    start(world, deadline=end)
    hunt = after(world, 100.0)
    assert [(attempt.type, attempt.state) for attempt in hunt.attempts] == [(TYPES[0], "trying")]
    hunt = after(world, 400.0)
    assert [(attempt.type, attempt.state) for attempt in hunt.attempts] == [
        (TYPES[0], "failed"),
        (TYPES[1], "failed"),
        (TYPES[0], "trying"),
    ]
    assert hunt.attempts[0].problem.reason == "NO_CAPACITY"
    assert len(world.google.queued) == 1
    assert {spec.valid_until for spec in world.google.asked} == {end}
    hunt = after(world, 600.0)
    assert (hunt.state, hunt.attempts[-1].type) == ("found", TYPES[1])
    (tpu,) = world.google.nodes.values()
    assert [connect.node_id for connect in world.connects] == [tpu.id], "and then it is connected"


def test_each_failed_attempt_says_why_and_when_the_next_one_begins(world, monkeypatch):
    said: list[str] = []
    set_message = OperationProgress.set_message

    def recorded(progress: OperationProgress, message: str) -> None:
        said.append(message)
        set_message(progress, message)

    monkeypatch.setattr(OperationProgress, "set_message", recorded)
    world.google.fates["create"] = ["no capacity", "leaves a wreck"]
    start(world, queued=False, types=TYPES[:1])
    trying = f"Trying {TYPES[0]} (on-demand) in {Google.zone}"
    failures: list[str] = []
    for number, end in ((1, 40.0), (2, 75.0)):
        hunt = after(world, end)
        begins = datetime.fromisoformat(hunt.next_attempt).astimezone()
        failures.append(
            f"Attempt {number} failed: There is no capacity. "
            f"The next one begins at {begins:%H:%M:%S %Z}."
        )
    assert said == [trying, failures[0], trying, "Deleting the TPU", failures[1]]
    (record,) = world.records()
    assert record.operation.log == [
        *(f"Attempt 1: {trying}", failures[0]),
        *(f"Attempt 2: {trying}", failures[1]),
    ]


NIGHT = 8 * 3600.0


def sleep(world: World) -> None:
    """The computer does, while Google goes on with what it has accepted."""
    for name in world.google.queued:
        world.google.get_room(name)
    world.slept += NIGHT


@pytest.mark.parametrize(
    ("fates", "seconds", "attempts"),
    [
        ({"create": ["RATE_LIMITED"]}, 1.0, ["failed", "found"]),
        ({"operation": ["forgotten"]}, 10.0, ["found"]),
        ({"create": ["answer lost"]}, 0.08, ["found"]),
        ({"create": ["no capacity"]}, 40.0, ["failed", "found"]),
        ({"create": ["no room"]}, 60.0, ["found"]),
    ],
    ids=["before it was asked for", "during its creation", "during a call", "between", "queued"],
)
def test_a_hunt_goes_on_when_the_computer_has_slept(world, monkeypatch, fates, seconds, attempts):
    monkeypatch.setattr(hunt_run, "WAIT_SLICE_SECONDS", 10.0)
    world.google.fates |= fates
    start(world, types=TYPES[:1], queued="no room" in fates.get("create", ()))
    world.loop.pass_time(seconds)
    sleep(world)
    hunt = after(world, 60.0)
    assert (hunt.state, [attempt.state for attempt in hunt.attempts]) == ("found", attempts)
    assert len(world.google.nodes) == len(world.connects) == 1


@pytest.mark.parametrize(
    ("fates", "seconds"),
    [
        ({}, 0.03),
        ({"create": ["RATE_LIMITED"]}, 1.0),
        ({"create": ["no capacity"]}, 40.0),
    ],
    ids=["before an attempt", "before it was asked for", "between attempts"],
)
def test_nothing_is_created_when_the_computer_has_slept_until_after_the_deadline(
    world, fates, seconds
):
    world.google.fates |= fates
    end = timestamp("seconds", at=world.time() + NIGHT / 2)
    start(world, types=TYPES[:1], queued=False, deadline=end)
    world.loop.pass_time(seconds)
    created = len(world.google.created)
    sleep(world)
    hunt = after(world, 700.0)
    assert (hunt.state, hunt.problem.reason) == ("failed", "TIMEOUT")
    assert len(world.google.created) == created
    assert world.google.nodes == {}


def test_what_gets_room_in_the_moment_in_which_its_turn_ends_is_kept(world, monkeypatch):
    google = world.google
    google.fates["create"] = ["no room"]
    begin = google.begin_delete_queued
    forced: list[bool] = []

    async def at_the_last_moment(name: Any, *, force: bool) -> str:
        forced.append(force)
        google.get_room(name)
        return await begin(name, force=force)

    monkeypatch.setattr(google, "begin_delete_queued", at_the_last_moment)
    start(world)
    hunt = after(world, 300.0)
    assert forced == [False]
    assert (hunt.state, hunt.attempted) == ("found", 1)
    assert google.deletions == []


def test_the_only_candidate_that_is_left_waits_as_long_as_it_likes(world):
    world.google.fates["create"] = ["no room", "INVALID", "no room"]
    start(world)
    hunt = after(world, 9_000.0)
    assert [attempt.state for attempt in hunt.attempts] == ["failed", "failed", "trying"]
    world.google.get_room(NAME)
    assert after(world, 90.0).state == "found"


def test_each_place_is_tried_with_and_without_the_queue_in_turn(world):
    world.google.fates["create"] = ["no capacity", "no capacity", "no room", "no room"]
    start(world, direct=True)
    hunt = after(world, 700.0)
    assert [(attempt.type, attempt.unattended) for attempt in hunt.attempts] == [
        (TYPES[0], False),
        (TYPES[1], False),
        (TYPES[0], True),
        (TYPES[1], True),
        (TYPES[0], False),
    ]
    assert hunt.state == "found"
    assert world.google.queued == {}, "nothing of the attempts in the queue is left"
    assert [(candidate.type, candidate.queued) for candidate in hunt.candidates] == [
        (type, queued) for queued in (False, True) for type in TYPES
    ]


def test_a_stopped_one_is_deleted_with_its_tpu(world):
    start(world)
    hunt = after(world, 20.0)
    assert world.google.queued[NAME].state == "PROVISIONING"
    world.loop.run_until_complete(world.servers[0].hunts.stop(NAME.node))
    hunt = after(world, 30.0)
    assert (hunt.state, hunt.attempts[-1].state) == ("stopped", "cancelled")
    assert (world.google.queued, world.google.nodes) == ({}, {})


def test_a_tpu_of_the_queue_has_its_job_with_it_and_others_get_it_when_they_are_connected(world):
    world.google.fates["create"] = ["no capacity", "no capacity", ""]
    job = ConnectTPU(then_run="python train.py")
    with pytest.raises(InvalidInput, match="has a startup script already"):
        start(world, {"connect": job, "options": NodeOptions(startup_script="echo mine")})
    start(world, {"connect": job}, direct=True)
    hunt = after(world, 200.0)
    assert (hunt.state, hunt.attempts[-1].unattended) == ("found", True)
    direct, waiting = world.google.created_as[0], world.google.asked[0].node
    assert "startup-script" not in direct.metadata
    assert waiting.metadata["startup-script"].startswith("#!/bin/sh\n")
    assert [connect.job for connect in world.connects] == [hunt.id[:8]], (
        "the same, so it begins once"
    )


def get_a_tpu(world: World) -> None:
    """Has a hunt find a TPU in the queue."""
    world.google.fates["create"] = [""]
    start(world)
    assert after(world, 120.0).state == "found"
    assert world.google.queued[NAME].state == "ACTIVE"


def delete(world: World) -> Operation:
    options = DeleteTPU(end_kernels=True)
    return world.loop.run_until_complete(world.servers[0].power.delete(NAME, options))


def ended(world: World, id: str) -> Operation:
    (record,) = (record for record in world.records() if record.operation.id == id)
    return record.operation


def test_the_queued_resource_of_a_deleted_tpu_is_deleted_also_after_lost_answers(world):
    get_a_tpu(world)
    began = delete(world)
    world.loop.pass_time(1.0)
    world.google.fates |= {"delete": ["lost", "answer lost"], "node": ["", "", "UNAVAILABLE"]}
    world.kill(world.servers[0])
    world.start()
    world.loop.pass_time(200.0)
    assert world.google.fates["delete"] == []
    assert ended(world, began.id).state == "done"
    assert (world.google.nodes, world.google.queued) == ({}, {})


def test_a_queued_resource_that_google_does_not_let_go_is_named_when_its_tpu_is_deleted(world):
    get_a_tpu(world)
    began = delete(world)
    world.loop.pass_time(1.0)
    world.google.fates["delete"] = ["CONFLICT", "PERMISSION"]
    world.loop.pass_time(200.0)
    problem = ended(world, began.id).problem
    assert problem.message == "tpu-a is deleted, and its queued resource tpu-a is not: Refused."
    assert "jupyter tpu queued delete tpu-a" in problem.hint
    assert (world.google.nodes, list(world.google.queued)) == ({}, [NAME])


@pytest.mark.parametrize(
    "others",
    [{"labels": {OWNER: "somebody-else"}}, {"nodes": ("tpu-a", "tpu-b")}, {"created": "later"}],
    ids=["another's", "with other TPUs", "a new one of that name"],
)
def test_a_queued_resource_stays_that_is(world, others):
    get_a_tpu(world)
    queued = world.google.queued
    if "created" not in others:
        queued[NAME] = structs.replace(queued[NAME], **others)
    began = delete(world)
    if "created" in others:
        queued[NAME] = structs.replace(queued[NAME], **others)
    world.loop.pass_time(200.0)
    assert ended(world, began.id).state == "done"
    assert (world.google.nodes, list(queued)) == ({}, [NAME])


def test_own_queued_resources_that_use_quota_for_nothing_are_named_once(world, monkeypatch, caplog):
    google, (server,) = world.google, world.servers

    def left(name: str, state: str, owner: str = own_name()) -> None:
        there = NodeName(google.project, google.zone, name)
        labels = {OWNER: owner}
        google.queued[there] = QueuedTPUs(name=there, state=state, created="1", labels=labels)

    left("failed", "FAILED")
    left("waiting", "WAITING_FOR_RESOURCES")
    left("others", "SUSPENDED", "somebody-else")
    google.fates = {"create": ["leaves a wreck"], "list": ["UNAVAILABLE"]}
    google.deletes = False
    start(world)
    world.loop.pass_time(30.0)
    wreck = google.queued[NAME]
    google.queued[NAME] = structs.replace(wreck, labels={**wreck.labels, OWNER: own_name()})
    monkeypatch.setattr(usage, "PAUSES", (600.0, 60.0))
    look = world.loop.create_task(usage.ForgottenQueued(server.queued, 10.0).run())
    world.loop.pass_time(60.0)
    assert caplog.messages == [], "Google did not answer"
    world.loop.pass_time(1300.0)
    assert caplog.messages == [
        "The queued resource failed is FAILED, and uses quota until it is deleted: "
        "`jupyter tpu queued delete failed`."
    ]
    assert google.queued[NAME].state == "FAILED", "its hunt is about to delete it"
    look.cancel()


@pytest.mark.parametrize("queued", [True, False])
def test_one_that_begins_again_finds_the_next_tpu_whose_job_is_another(world, queued):
    google = world.google
    job = ConnectTPU(then_run="python train.py")
    with pytest.raises(InvalidInput, match="can't have a deadline") as refused:
        start(world, deadline="2100-01-01T00:00:00Z", again=True)
    assert refused.value.field == "deadline"
    start(world, {"connect": job}, again=True, queued=queued)
    hunt = after(world, 120.0)
    assert (hunt.state, hunt.waiting, hunt.attempted) == ("running", True, 1)
    first = google.nodes[NAME]
    google.nodes[NAME] = structs.replace(first, state=NodeState.PREEMPTED)
    world.servers[0].observed.nodes[NAME] = google.nodes[NAME]
    hunt = after(world, 300.0)
    assert (hunt.waiting, hunt.attempted) == (True, 2)
    (second,) = google.nodes.values()
    assert [connect.node_id for connect in world.connects] == [first.id, second.id]
    assert [connect.job for connect in world.connects] == [f"{hunt.id[:8]}-1", f"{hunt.id[:8]}-2"]
    google.others_delete(NAME)
    del world.servers[0].observed.nodes[NAME]
    assert after(world, 60.0).state == "stopped", "what somebody deletes is not hunted for again"
