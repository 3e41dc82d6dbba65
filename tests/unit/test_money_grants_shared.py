"""A grant's last chips: whoever asks for them, in whichever process, only one gets them."""

from collections.abc import Iterator
from typing import Any

import pytest
from google_model import Google
from test_money_interleavings import NAMES, Server, World, use_clock

from jupyter_tpu.cloud import Node, NodeState
from jupyter_tpu.fleet.models import CreateTPU, Grant, QueueTPU, StartHunt, StartTPU
from jupyter_tpu.fleet.models.core import timestamp

GRANT = Grant(
    name="trc", types=["v5e"], zones=[Google.zone], tiers=["on-demand"], chips=1, project="p"
)


@pytest.fixture
def world() -> Iterator[World]:
    patch = pytest.MonkeyPatch()
    world = World()
    use_clock(world, patch)
    yield world
    world.close()
    patch.undo()


def servers(world: World, count: int) -> list[Server]:
    """Processes that know the grant, and what is at Google now."""
    world.start()
    world.servers[0].store.save_grant(GRANT)
    world.loop.run_until_complete(world.servers[0].store.flush())
    for _ in range(count - 1):
        world.start()
    for server in world.servers:
        server.grants.take_over([GRANT])
        look(server)
    return world.servers


def look(server: Server) -> None:
    """What a poll does."""
    server.observed.unreachable = frozenset()
    server.observed.nodes = dict(server.google.nodes)
    server.observed.asked = server.world.time()


def request(name: str) -> CreateTPU:
    return CreateTPU(name=name, type="v5litepod-1", zone=Google.zone)


def ask(server: Server, way: str, name: str, accepted: list[str]) -> None:
    """Asks for one chip without a price; *accepted* gets the name if that is accepted."""
    ways: dict[str, Any] = {
        "create": lambda: server.create.start(request(name)),
        "hunt": lambda: server.hunts.start(StartHunt(tpu=request(name))),
        "queue": lambda: server.queued.create(QueueTPU(tpu=request(name))),
        "start": lambda: server.power.start(NAMES[0], StartTPU()),
    }
    server.do(ways[way], lambda _: accepted.append(name))


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("others", ["create", "hunt", "queue", "start"])
def test_the_last_chips_of_a_grant_are_given_once(world, processes, others):
    stopped = Node(name=NAMES[0], id="0", type="v5litepod-1", state=NodeState.STOPPED)
    if others == "start":
        world.google.nodes[stopped.name] = world.google.created["0"] = stopped
    asked = servers(world, processes)
    accepted: list[str] = []
    ask(asked[-1], others, "tpu-x", accepted)
    for number in range(8):
        ask(asked[number % processes], "create", f"tpu-{number}", accepted)
    world.loop.pass_time(120.0)
    ready = [node for node in world.google.nodes.values() if node.state == NodeState.READY]
    assert len(ready) == 1
    assert len([name for name in accepted if others != "hunt" or name != "tpu-x"]) <= 1


def test_what_was_made_after_the_last_look_counts(world):
    first, second = servers(world, 2)
    accepted: list[str] = []
    ask(first, "create", "tpu-1", accepted)
    world.loop.pass_time(60.0)
    assert [record.operation.state for record in world.records()] == ["done"]
    # The operation's end is of the real clock, and the look of the second server was before.
    second.observed.asked = 0.0
    ask(second, "create", "tpu-2", accepted)
    world.loop.pass_time(10.0)
    assert accepted == ["tpu-1"]
    first.observed.nodes.clear()
    world.google.nodes.clear()
    look(second)
    second.observed.asked = 4e9
    assert timestamp(at=4e9) > world.records()[0].operation.ended
    ask(second, "create", "tpu-2", accepted)
    world.loop.pass_time(60.0)
    assert accepted == ["tpu-1", "tpu-2"]
