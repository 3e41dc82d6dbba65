"""Who has stopped a TPU: its guard, or someone else."""

from typing import Any

import pytest
from core_parts import core_of
from msgspec import structs

from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.core.view import advice
from jupyter_tpu.fleet.jobs.guard_stops import GuardStops
from jupyter_tpu.fleet.models import TPU, Guard, GuardStop, TPUList
from jupyter_tpu.fleet.models.core import timestamp
from jupyter_tpu.terminal.tables import tpu_table

NAME = NodeName("p", "us-west4-a", "my-tpu")
NODE = Node(name=NAME, id="7", type="v5litepod-8", state=NodeState.READY)
NOW = 1_800_000_000.0
LATER = NOW + 20.0


def at(seconds: float) -> str:
    return timestamp("seconds", at=seconds)


WATCHING = Guard(action="stop", idle=7200.0, busy=["a job"])


class World:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.observed = ObservedState()
        self.observed.project, self.observed.unreachable = "p", frozenset()
        self.stops = GuardStops(core_of(store=store, observed=self.observed))

    def see(self, state: NodeState, now: float) -> GuardStop | None:
        node = structs.replace(NODE, state=state)
        self.observed.nodes = {NAME: node}
        self.stops.observe([node], now)
        return self.stops.of(node)


@pytest.fixture
def world(store: Store) -> World:
    world = World(store)
    world.see(NodeState.READY, NOW)
    return world


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (
            Guard(action="stop", idle=60.0, phase="due", reason="idle"),
            GuardStop(time=at(LATER), reason="idle"),
        ),
        (
            Guard(action="stop", max_cost=9.0, reason="cost", ends=at(NOW + 30)),
            GuardStop(time=at(NOW + 30), reason="cost"),
        ),
        (
            Guard(action="stop", until=at(NOW + 5), busy=["a job"]),
            GuardStop(time=at(NOW + 5), reason="time"),
        ),
        (Guard(action="stop", idle=7200.0, reason="idle", ends=at(NOW + 7200)), None),
        (WATCHING, None),
        (Guard(action="delete", idle=60.0, phase="due", reason="idle"), None),
    ],
)
async def test_a_tpu_is_stopped_by_its_guard_if_that_was_about_to(world, last, expected):
    world.stops.heard(NODE, last, NOW)
    assert world.see(NodeState.STOPPING, LATER) == expected
    assert world.see(NodeState.STOPPED, LATER + 60) == expected
    assert world.see(NodeState.READY, LATER + 600) is None
    # Then another life begins, in which someone else stops it.
    world.stops.heard(NODE, WATCHING, LATER + 610)
    assert world.see(NodeState.STOPPED, LATER + 620) is None


async def test_what_a_user_stops_was_not_stopped_by_the_guard(world):
    due = Guard(action="stop", idle=60.0, phase="due", reason="idle")
    world.stops.heard(NODE, due, NOW)
    world.stops.stopping(NODE, None, NOW + 1)
    assert world.see(NodeState.READY, NOW + 2) is None
    assert world.see(NodeState.STOPPED, LATER) is None
    world.see(NodeState.READY, LATER + 100)
    world.stops.heard(NODE, structs.replace(due, phase="ending"), LATER + 200)
    assert world.see(NodeState.STOPPED, LATER + 210) is not None, "and then the guard has"


async def test_what_a_server_stops_for_a_guard_was_stopped_by_the_guard(world):
    world.stops.stopping(NODE, "cost", NOW)  # its host could not be reached, ever
    assert world.see(NodeState.STOPPED, LATER) == GuardStop(time=at(NOW), reason="cost")


async def test_after_a_night_without_a_server_it_was_probably_the_guard(world, store, tmp_path):
    world.stops.heard(NODE, WATCHING, NOW)
    await store.flush()
    next_store = await Store.open(tmp_path / "fleet.sqlite", "google")
    next_world = World(next_store)
    morning = NOW + 8 * 3600.0
    assert next_world.see(NodeState.STOPPED, morning) == GuardStop(reason="idle", certain=False)
    await next_store.flush()
    third = await Store.open(tmp_path / "fleet.sqlite", "google")
    assert World(third).see(NodeState.STOPPED, morning + 60) is not None
    world.observed.nodes = {}
    world.stops.observe([], morning)
    assert world.stops.tpus() == [(NAME, "7")], "a list that lacks it is not enough"
    world.observed.gone = frozenset(world.stops.tpus())
    world.stops.observe([], morning)
    await store.flush()
    assert (await third.refresh() or third.snapshot).guards == {}, "the TPU is gone"
    await third.close()
    await next_store.close()


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (
            GuardStop(time="2026-11-25T18:00:30Z", reason="time"),
            "Its guard stopped it at 2026-11-25 18:00 UTC because its time limit was reached.",
        ),
        (
            GuardStop(reason="idle", certain=False),
            "It was stopped while no Jupyter server watched it, probably by its guard because it "
            "was idle.",
        ),
        (None, ""),
    ],
)
def test_a_stopped_tpu_says_who_stopped_it_when_why_and_what_now(stop, words):
    node = structs.replace(NODE, state=NodeState.STOPPED)
    text = advice(node, free=False, connected=True, guard_stop=stop)
    assert text == f"{words} Only its disk is billed. Start it, or delete it.".strip()
    shown: dict[str, Any] = {"name": "my-tpu", "zone": "z", "project": "p", "advice": text}
    table = tpu_table(TPUList(tpus=[TPU(**shown, guard_stop=stop)]))
    assert (f"my-tpu: {text}" in table) == (stop is not None)
