"""How often the cloud is asked for announced maintenance. Time passes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from google_model import in_virtual_time
from msgspec import structs

from jupyter_tpu.cloud import CloudTPU, Maintenance, Node, NodeName, NodeState
from jupyter_tpu.cloud.tpu.maintenance import parse_maintenance
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.setup.doctor import CALL_INTERVAL_SECONDS, MaintenanceWatch

NAME = NodeName("p", "us-west4-a", "my-tpu")
NODE = Node(name=NAME, id="7", type="v5litepod-8", state=NodeState.READY, health="HEALTHY")
COMING = Maintenance(scheduled=True, start="2026-12-01T10:00:00Z", end="2026-12-01T11:00:00Z")


class CountingCloud(CloudTPU):
    """Answers from memory and counts: the number of calls is what these tests are about."""

    project = "p"
    emulated = False

    def __init__(self) -> None:
        self.calls = 0
        self.answer: dict[str, Maintenance] | TPUError = {}

    async def maintenance(self) -> dict[str, Maintenance]:
        self.calls += 1
        await asyncio.sleep(1)
        if isinstance(self.answer, TPUError):
            raise self.answer
        return self.answer


class Setting:
    def __init__(self) -> None:
        self.cloud = CountingCloud()
        self.observed = ObservedState()
        self.changed: list[NodeName] = []
        self.watch = MaintenanceWatch(self.cloud, self.observed, self._changed)

    def _changed(self, names: Iterable[NodeName]) -> None:
        self.changed += names

    async def __aenter__(self) -> Setting:
        self._task = asyncio.create_task(self.watch.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def polled(self, *nodes: Node) -> None:
        """As the poll calls it, and as a user who asks then."""
        self.observed.nodes = {node.name: node for node in nodes}
        self.watch.polled()
        await self.watch.ensure_known()

    async def poll_for(self, seconds: float) -> int:
        """The calls in so many *seconds* with a poll in each half minute."""
        before = self.cloud.calls
        for _ in range(int(seconds / 30)):
            await asyncio.sleep(30)
            self.watch.polled()
        return self.cloud.calls - before


@in_virtual_time
async def test_what_is_announced_is_shown_with_the_list_and_published_once():
    async with Setting() as setting:
        setting.cloud.answer = {"7": COMING}
        await setting.polled(NODE)
        assert setting.observed.maintenance == {"7": COMING}
        assert await setting.poll_for(2 * CALL_INTERVAL_SECONDS + 60) == 2
        assert setting.changed == [NAME]
        setting.cloud.answer = {"7": structs.replace(COMING, ongoing=True)}
        await setting.polled(structs.replace(NODE, health="UNHEALTHY_MAINTENANCE"))
        assert setting.changed == [NAME, NAME]
        setting.cloud.answer = {}
        await setting.polled(NODE)
        assert setting.changed == [NAME, NAME, NAME]


@in_virtual_time
async def test_nothing_is_asked_of_tpus_that_do_not_run():
    async with Setting() as setting:
        await setting.polled()
        await setting.polled(structs.replace(NODE, state=NodeState.CREATING))
        assert await setting.poll_for(2 * CALL_INTERVAL_SECONDS) == 0
        for state in (NodeState.READY, NodeState.STOPPED, NodeState.READY):
            await setting.polled(structs.replace(NODE, state=state))
        assert setting.cloud.calls == 2


@in_virtual_time
async def test_what_was_announced_stays_while_the_cloud_does_not_say():
    async with Setting() as setting:
        setting.cloud.answer = {"7": COMING}
        await setting.polled(NODE)
        setting.cloud.answer = TPUError("Google does not answer.", Reason.UNAVAILABLE)
        assert await setting.poll_for(2 * CALL_INTERVAL_SECONDS + 60) == 2
        assert setting.observed.maintenance == {"7": COMING}
        assert setting.changed == [NAME]


def test_googles_words_are_read():
    announced = {
        "type": "SCHEDULED",
        "maintenanceStatus": "PENDING",
        "canReschedule": True,
        "windowStartTime": "2026-12-01T10:00:00Z",
        "windowEndTime": "2026-12-01T11:00:00Z",
    }
    assert parse_maintenance(announced) == structs.replace(COMING, can_reschedule=True)
    assert parse_maintenance({"maintenanceStatus": "ONGOING"}) == Maintenance(ongoing=True)
