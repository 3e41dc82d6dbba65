"""What hunts, starts and queued resources may cost: against a model of Google that bills."""

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from google_model import Google
from refusals import raises
from test_money_interleavings import NAMES, Server, World, use_clock

from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.models import (
    CreateTPU,
    Grant,
    Hunt,
    QueueTPU,
    SetGuard,
    StartHunt,
    StartTPU,
)

T = TypeVar("T")
NAME = NAMES[0]
TYPE = "v5litepod-1"  # $1.20 an hour on demand


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World()
    use_clock(world, monkeypatch)
    world.start()
    world.servers[0].observed.unreachable = frozenset()  # what of a grant is in use is known
    yield world
    world.close()


@pytest.fixture
def server(world: World) -> Server:
    return world.servers[0]


def run(world: World, work: Coroutine[Any, Any, T]) -> T:
    return world.loop.run_until_complete(work)


def refusal(world: World, work: Coroutine[Any, Any, object]) -> str:
    with raises(Reason.PRICE) as caught:
        run(world, work)
    return caught.value.message


def request(**options: Any) -> CreateTPU:
    return CreateTPU(**{"name": NAME.node, "type": TYPE, "zone": Google.zone, **options})


def grant(world: World, chips: int) -> None:
    trc = Grant(name="trc", types=["v5e"], zones=[Google.zone], tiers=["spot"], chips=chips)
    run(world, world.servers[0].grants.add(trc))


def node(name: NodeName, state: str = "READY") -> Node:
    return Node(name=name, id="1", type=TYPE, state=NodeState(state), tier="spot")


def after(world: World, seconds: float) -> Hunt:
    world.loop.pass_time(seconds)
    return run(world, world.servers[0].hunts.get(NAME.node))


def test_a_hunt_does_not_begin_without_a_grant_or_a_confirmed_price(world, server):
    to_start = StartHunt(tpu=request())
    assert "costs about $1.20 an hour" in refusal(world, server.hunts.start(to_start))
    assert run(world, server.hunts.list()) == []
    limited = StartHunt(tpu=request(max_price=1.5), types=["v5litepod-8", TYPE])
    run(world, server.hunts.start(limited))
    hunt = after(world, 60.0)
    assert (hunt.state, [attempt.type for attempt in hunt.attempts]) == ("found", [TYPE])
    dear = hunt.candidates[0]
    assert dear.ruled_out
    assert "You allowed at most $1.50 an hour." in dear.problem.message


def test_a_cost_limit_that_is_never_reached_is_refused_where_the_hunt_is_typed(world, server):
    grant(world, chips=1)
    limit = SetGuard(action="delete", max_cost=20.0)
    with raises(Reason.INVALID, "costs nothing, so no cost limit can be set"):
        run(world, server.hunts.start(StartHunt(tpu=request(guard=limit), tiers=["spot"])))
    assert run(world, server.hunts.list()) == []
    # Beside it, one that costs something is looked for.
    both = StartHunt(tpu=request(guard=limit, max_price=1.5), tiers=["spot", "on-demand"])
    run(world, server.hunts.start(both))
    inside, outside = after(world, 60.0).candidates
    assert (inside.ruled_out, outside.ruled_out) == (True, False)


def test_a_hunt_waits_for_chips_of_its_grant_and_never_leaves_it(world, server):
    grant(world, chips=1)
    other = NAMES[1]
    server.observed.nodes[other] = node(other)  # has the only chip
    to_start = StartHunt(tpu=request(), tiers=["spot", "on-demand"])
    run(world, server.hunts.start(to_start))
    hunt = after(world, 300.0)
    inside, outside = hunt.candidates
    assert hunt.state == "running"
    assert "The grant trc has 0 of its 1 chip left" in inside.problem.message
    assert (inside.ruled_out, outside.ruled_out, outside.attempts) == (False, True, 0)
    assert world.google.created == {}

    server.observed.nodes[other] = node(other, "STOPPED")
    hunt = after(world, 2000.0)
    assert (hunt.state, hunt.attempts[-1].tier) == ("found", "spot")
    assert len(world.google.created) == 1


def test_a_stopped_tpu_is_started_only_at_a_price_that_was_confirmed(world, server):
    stopped = node(NAME, "STOPPED")
    server.observed.nodes[NAME] = stopped
    text = refusal(world, server.power.start(NAME, StartTPU(max_price=0.1)))
    assert "You allowed at most $0.10 an hour." in text
    refusal(world, server.power.start(NAME, StartTPU()))
    assert server.runner.known.all() == []
    grant(world, chips=1)
    server.observed.nodes[NAME] = node(NAME, "STOPPING")  # it has its own chip still
    assert run(world, server.power.start(NAME, StartTPU())).kind == "start"
    # It has the grant's chip from now on, also while Google still calls it STOPPED.
    server.observed.nodes[NAME] = stopped
    assert "has 0 of its 1 chip left" in server.grants.decide(TYPE, NAME.zone, "spot").uncovered


@pytest.mark.parametrize(("night", "state"), [(0.0, "READY"), (8 * 3600.0, "STOPPED")])
def test_a_tpu_is_not_started_hours_after_it_was_asked_for(world, server, night, state):
    world.google.nodes[NAME] = server.observed.nodes[NAME] = node(NAME, "STOPPED")
    world.google.fates["node"] = 3 * ["UNAVAILABLE"]
    run(world, server.power.start(NAME, StartTPU(confirm_price=True)))
    world.loop.pass_time(0.5)
    world.slept += night  # the computer, before it has asked for anything
    world.loop.pass_time(300.0)
    [operation] = server.runner.known.all()
    assert operation.state == ("failed" if night else "done")
    assert world.google.nodes[NAME].state == state
    if night:
        assert operation.problem.message == (
            "tpu-a was not started within 15 minutes. It is STOPPED."
        )


def test_several_tpus_at_once_need_the_price_of_all_confirmed(world, server):
    grant(world, chips=4)
    inside = request(tier="spot")
    text = refusal(world, server.queued.create(QueueTPU(tpu=inside, node_count=2)))
    assert text.startswith("2 TPUs. Each: inside a grant, if it covers all.")
    text = refusal(world, server.queued.create(QueueTPU(tpu=request(max_price=2), node_count=2)))
    assert "You allowed at most $2.00 an hour." in text
    assert world.google.queued == {}
    run(world, server.queued.create(QueueTPU(tpu=request(max_price=2.4), node_count=2)))
    world.loop.pass_time(5.0)
    assert [spec.node_count for spec in world.google.asked] == [2]
