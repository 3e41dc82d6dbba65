"""What ends costs is carried out, and what no one wants any more is not begun: against a model of
Google, with servers that are killed, full disks and clocks that are set.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from google_model import Google
from msgspec import structs
from test_money_interleavings import NAMES, Server, World, use_clock

from jupyter_tpu.cloud import Node, NodeState
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.core.operation_records import HuntRecord
from jupyter_tpu.fleet.models import (
    CreateTPU,
    DeleteTPU,
    Operation,
    QueueTPU,
    SetGuard,
    StartHunt,
    StopTPU,
)
from jupyter_tpu.fleet.models.core import timestamp

NAME = NAMES[0]
TPU = CreateTPU(name=NAME.node, type="v5litepod-1", zone=Google.zone, confirm_price=True)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World()
    use_clock(world, monkeypatch)
    world.start()
    yield world
    world.close()


@pytest.fixture
def server(world: World) -> Server:
    return world.servers[0]


def run(world: World, work: Any) -> Any:
    return world.loop.run_until_complete(work)


def ready(world: World) -> Node:
    node = Node(name=NAME, id="1", type="v5litepod-1", state=NodeState.READY)
    become(world, node)
    return node


def become(world: World, node: Node) -> None:
    """So it is at Google, and the servers know it."""
    world.google.nodes[node.name] = world.google.created[node.id] = node
    for server in world.servers:
        server.observed.nodes[node.name] = node


def ended(world: World, kind: str) -> Operation:
    (record,) = [record.operation for record in world.records() if record.operation.kind == kind]
    return record


# ---- queued resources ----


def queue(world: World, server: Server) -> None:
    run(world, server.queued.create(QueueTPU(tpu=TPU)))
    world.loop.pass_time(2.0)
    assert world.google.queued[NAME].state == "WAITING_FOR_RESOURCES"


def test_a_queued_resource_that_gets_its_tpu_while_it_is_deleted_is_deleted_with_it(world, server):
    queue(world, server)
    world.google.deletes = False
    run(world, server.queued.delete(NAME.node))
    world.loop.pass_time(60.0)
    assert world.google.queued[NAME].state == "ACTIVE"
    world.google.deletes = True
    world.loop.pass_time(60.0)
    assert (ended(world, "unqueue").state, world.google.queued, world.google.nodes) == (
        "done",
        {},
        {},
    )


def test_the_tpu_of_a_queued_resource_that_google_does_not_delete_can_be_deleted(world, server):
    queue(world, server)
    world.google.fates["delete"] = 3 * ["CONFLICT"] + 60 * ["PERMISSION"]
    run(world, server.queued.delete(NAME.node))
    world.loop.pass_time(60.0)
    assert world.google.nodes[NAME].state == "READY"
    world.google.fates["delete"] = []
    assert run(world, server.power.delete(NAME, DeleteTPU())).kind == "delete"
    world.loop.pass_time(60.0)
    assert world.google.nodes == {}


# ---- stops ----


@pytest.mark.parametrize(
    "stands_in_the_way", ["409", "lost", "answer lost", "silent", "unreadable"]
)
def test_a_stop_is_asked_for_again_until_it_is_carried_out(world, server, stands_in_the_way):
    ready(world)
    fate = "CONFLICT" if stands_in_the_way == "409" else stands_in_the_way
    world.google.fates["stop"] = 3 * [fate]
    run(world, server.power.stop(NAME, StopTPU()))
    world.loop.pass_time(400.0)
    assert ended(world, "stop").state == "done"
    assert world.google.nodes[NAME].state == "STOPPED"


@pytest.mark.parametrize("state", [NodeState.REPAIRING, NodeState.HIDDEN, NodeState.UNKNOWN])
def test_a_stop_waits_while_the_tpu_is_in_a_state_that_passes(world, server, state):
    node = ready(world)
    world.google.fates["stop"] = ["CONFLICT"]
    run(world, server.power.stop(NAME, StopTPU()))
    become(world, structs.replace(node, state=state))
    world.loop.pass_time(3600.0)
    assert ended(world, "stop").state == "running"
    become(world, node)
    world.loop.pass_time(30.0)
    assert ended(world, "stop").state == "done"
    assert world.google.nodes[NAME].state == "STOPPED"


@pytest.mark.parametrize(("reason", "after"), [("PERMISSION", 0.0), ("CONFLICT", 900.0)])
def test_a_stop_that_google_refuses_ends_with_its_words(world, server, reason, after):
    ready(world)
    world.google.fates["stop"] = 2000 * [reason]
    run(world, server.power.stop(NAME, StopTPU()))
    if after:
        world.loop.pass_time(after - 30.0)
        assert ended(world, "stop").state == "running"
    world.loop.pass_time(60.0)
    failed = ended(world, "stop")
    assert failed.state == "failed"
    assert (failed.problem.reason, failed.problem.message) == (reason, "Refused.")


def test_an_accepted_stop_is_carried_out_hours_later_by_the_next_server(world, server):
    node = ready(world)
    world.google.fates["stop"] = 100 * ["UNAVAILABLE"]
    run(world, server.power.stop(NAME, StopTPU()))
    world.loop.pass_time(5.0)
    world.kill(server)
    world.google.fates["stop"] = []
    world.loop.pass_time(4 * 3600.0)
    world.start()
    become(world, node)
    world.loop.pass_time(60.0)
    assert ended(world, "stop").state == "done"
    assert world.google.nodes[NAME].state == "STOPPED"


def test_what_was_stopped_and_started_again_meanwhile_is_not_stopped_once_more(world, server):
    node = ready(world)
    run(world, server.power.stop(NAME, StopTPU()))
    world.loop.pass_time(1.0)
    world.kill(server)
    world.loop.pass_time(3600.0)
    assert world.google.nodes[NAME].state == "STOPPED"
    become(world, node)  # somebody has started it
    world.start()
    world.loop.pass_time(300.0)
    assert world.google.nodes[NAME].state == "READY"
    assert world.google.stopped == 1
    problem = ended(world, "stop").problem
    assert problem.message == f"Google has stopped {NAME.node}, and it is READY again."


# ---- hunts ----


@pytest.mark.parametrize("killed", [False, True])
def test_a_tpu_whose_deletion_was_accepted_is_not_hunted_for_again(world, server, killed):
    run(world, server.hunts.start(StartHunt(tpu=TPU, again=True)))
    world.loop.pass_time(60.0)
    node = world.google.nodes[NAME]
    become(world, structs.replace(node, state=NodeState.PREEMPTED))
    world.google.deletes = False  # yet
    run(world, server.power.delete(NAME, DeleteTPU()))
    world.loop.pass_time(30.0)
    if killed:
        world.kill(server)
        world.start()
        become(world, world.google.nodes[NAME])
    world.google.deletes = True
    world.loop.pass_time(600.0)
    assert world.google.nodes == {}
    assert (ended(world, "delete").state, ended(world, "hunt").state) == ("done", "cancelled")
    assert len(world.google.created) == 1


class FullDisk:
    """On which a server can write nothing for some time."""

    def __init__(self, server: Server) -> None:
        self._database = server.store._database
        self._write = self._database.write

    def __enter__(self) -> None:
        def full(_: object) -> int:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        self._database.write = full

    def __exit__(self, *_: object) -> None:
        self._database.write = self._write


@pytest.mark.parametrize("hunted", [False, True])
def test_a_disk_that_is_full_for_a_moment_ends_no_creation(world, server, hunted):
    if hunted:
        run(world, server.hunts.start(StartHunt(tpu=TPU)))
    else:
        run(world, server.create.start(TPU))
    with FullDisk(server):
        world.loop.pass_time(20.0)
        assert world.google.created == {}, "what is not written down is not asked for"
        (operation,) = server.runner.known.all()
        assert operation.problem.reason is Reason.DISK_FULL
    world.loop.pass_time(120.0)
    assert ended(world, "hunt" if hunted else "create").state == "done"
    assert world.google.nodes[NAME].state == "READY"


@pytest.mark.parametrize("way", ["hunt", "guard"])
def test_after_the_deadline_google_is_not_asked_once_more(world, server, way):
    end = timestamp("seconds", at=world.time() + 100.0)
    world.google.fates["create"] = ["lost"]
    if way == "hunt":
        run(world, server.hunts.start(StartHunt(tpu=TPU, deadline=end)))
    else:
        world.loop.run_until_complete(_create_until(server, end))
    world.loop.pass_time(600.0)
    failed = ended(world, "hunt" if way == "hunt" else "create")
    assert (failed.state, failed.problem and failed.problem.reason) == ("failed", Reason.TIMEOUT)
    assert len(world.google.created_as) == 1
    assert world.google.created == {}


async def _create_until(server: Server, end: str) -> None:
    with pytest.MonkeyPatch.context() as patch:  # a time of the world is long ago
        patch.setattr("jupyter_tpu.fleet.jobs.guard.future_seconds", lambda *_: 0.0)
        await server.create.start(structs.replace(TPU, guard=SetGuard(until=end)))


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_clock_that_is_set_changes_no_pause_of_a_hunt(world, server, seconds):
    world.google.fates["create"] = ["no capacity"]
    run(world, server.hunts.start(StartHunt(tpu=TPU)))
    world.loop.pass_time(35.0)
    contents = [record.content for record in world.records()]
    (hunt,) = [content for content in contents if isinstance(content, HuntRecord)]
    assert hunt.candidates[0].retry_at > world.time(), "it waits"
    world.clock_set = seconds
    world.loop.pass_time(5.0)
    assert len(world.google.created_as) == 1, "not earlier"
    world.loop.pass_time(60.0)
    assert world.google.nodes[NAME].state == "READY", "and not later"


def test_a_clock_that_is_set_back_while_no_server_runs_does_not_delay_a_hunt(world, server):
    world.google.fates["create"] = ["no capacity"]
    run(world, server.hunts.start(StartHunt(tpu=TPU)))
    world.loop.pass_time(35.0)
    world.kill(server)
    world.clock_set = -3600.0
    world.start()
    world.loop.pass_time(120.0)
    assert world.google.nodes[NAME].state == "READY"


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
@pytest.mark.parametrize("when", [0.05, 70.0, 110.0])
@pytest.mark.parametrize("killed", [False, True])
def test_a_clock_that_is_set_makes_no_tpu_that_nobody_knows_of(
    world, server, seconds, when, killed
):
    world.google.fates["create"] = ["late"]
    world.google.late_after_kill = True
    run(world, server.create.start(TPU))
    world.loop.pass_time(when)
    world.clock_set = seconds
    if killed:
        world.kill(server)
        world.start()
    world.loop.pass_time(240.0)
    created = ended(world, "create")
    if killed and not world.google.created:
        return  # the request was lost with the server, which could not know how late it is
    assert (created.state, created.problem) == ("done", None)
    assert world.google.nodes[NAME].state == "READY"
