"""One poll feeds everyone: how often Google is asked, whoever else asks. Time passes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from google_model import in_virtual_time
from msgspec import structs
from test_cloud_google import Both

from jupyter_tpu.cloud import CloudTPU, NodeState
from jupyter_tpu.cloud.models import Node, NodeList, NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.core import Core
from jupyter_tpu.fleet.core.observer import (
    FRESH_LIST_SECONDS,
    INTEREST_SECONDS,
    NEWER_LIST_SECONDS,
    QUICK_POLL_SECONDS,
    SLOW_POLL_SECONDS,
    ObservedState,
    Observer,
)
from jupyter_tpu.links import HostGone

NAME = NodeName("p", "us-west4-a", "my-tpu")


class CountingCloud(CloudTPU):
    """Answers from memory and counts: the number of calls is what these tests are about."""

    project = "p"

    def __init__(self) -> None:
        self.calls = 0
        self.answer: NodeList | TPUError = NodeList(nodes=(), unreachable=())
        #: What Google says of a TPU by name, where its list lacks it; None: there is none.
        self.by_name: Node | TPUError | None = None
        self.asked_by_name = 0

    async def list_nodes(self, zone: str = "-") -> NodeList:
        self.calls += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, TPUError):
            raise self.answer
        return self.answer

    async def get_node(self, name: NodeName) -> Node:
        self.asked_by_name += 1
        if self.by_name is None:
            raise TPUError("Not found.", Reason.NOT_FOUND)
        if isinstance(self.by_name, TPUError):
            raise self.by_name
        return self.by_name


def node(state: str, zone: str = "us-west4-a") -> Node:
    return Node(name=NodeName("p", zone, "my-tpu"), id="7", type="v4-8", state=NodeState(state))


class Setting:
    def __init__(self, first_look: float | None = None) -> None:
        self.cloud = CountingCloud()
        self.needed = self.busy = False
        self.hunted: set[NodeName] = set()
        self.polls = 0
        self.observed = ObservedState()
        self.observer = Observer(
            self.cloud,
            self.observed,
            busy=lambda: self.busy,
            hunted=lambda: self.hunted,
            first_look=first_look,
        )
        self.observer.register_need(lambda: self.needed)
        self.observer.polled.add(self._polled)

    def _polled(self, nodes: Collection[Node]) -> None:
        self.polls += 1

    async def __aenter__(self) -> Setting:
        self._task = asyncio.create_task(self.observer.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def calls_within(self, seconds: float) -> int:
        before = self.cloud.calls
        await asyncio.sleep(seconds)
        return self.cloud.calls - before


@in_virtual_time
async def test_google_is_not_asked_before_anybody_asks():
    async with Setting() as setting:
        assert await setting.calls_within(3600) == 0


@in_virtual_time
@pytest.mark.parametrize("offline", [True, False])
async def test_a_server_that_nobody_asks_looks_once_after_its_start(offline):
    async with Setting(first_look=60.0) as setting:
        if offline:
            setting.cloud.answer = TPUError("No network.", Reason.UNAVAILABLE)
        assert await setting.calls_within(59) == 0
        assert await setting.calls_within(3600) == 1
        await setting.observer.ensure_recent()
        assert await setting.calls_within(10 * SLOW_POLL_SECONDS) > 1


@in_virtual_time
async def test_a_hundred_clients_that_poll_cost_what_one_costs():
    async with Setting() as setting:
        await asyncio.gather(*(setting.observer.ensure_recent() for _ in range(100)))
        assert setting.cloud.calls == 1
        for _ in range(100):
            await setting.observer.ensure_recent()
        assert setting.cloud.calls == 1


@in_virtual_time
async def test_who_asks_for_the_list_sees_what_was_done_elsewhere_a_moment_ago():
    async with Setting() as setting:
        await asyncio.gather(*(setting.observer.ensure_fresh() for _ in range(100)))
        assert setting.cloud.calls == 1
        setting.cloud.answer = NodeList(nodes=(node("READY"),), unreachable=())
        assert await setting.calls_within(2 * FRESH_LIST_SECONDS) == 0
        await asyncio.gather(*(setting.observer.ensure_fresh() for _ in range(100)))
        assert len(setting.observed.nodes) == 1
        assert setting.cloud.calls == 2


@in_virtual_time
async def test_who_asks_for_the_list_does_not_wait_long_for_a_slow_google(monkeypatch):
    async with Setting() as setting:
        await setting.observer.ensure_fresh()
        await asyncio.sleep(2 * FRESH_LIST_SECONDS)
        never = asyncio.Event()
        monkeypatch.setattr(setting.cloud, "list_nodes", never.wait)
        asked = asyncio.get_running_loop().time()
        await setting.observer.ensure_fresh()
        assert asyncio.get_running_loop().time() - asked == pytest.approx(NEWER_LIST_SECONDS)


@in_virtual_time
async def test_it_is_quick_while_something_changes_and_slow_when_nothing_does():
    async with Setting() as setting:
        setting.cloud.answer = NodeList(nodes=(node("CREATING"),), unreachable=())
        await setting.observer.ensure_recent()
        assert await setting.calls_within(10 * QUICK_POLL_SECONDS) >= 9
        setting.cloud.answer = NodeList(nodes=(node("READY"),), unreachable=())
        await setting.observer.refresh()
        assert await setting.calls_within(SLOW_POLL_SECONDS) > 2  # it stays quick for a moment
        assert await setting.calls_within(10 * SLOW_POLL_SECONDS) <= 10


@in_virtual_time
async def test_a_hunt_whose_tpu_comes_and_goes_for_hours_does_not_make_it_quick():
    async with Setting() as setting:
        setting.needed = True
        setting.hunted = {NAME}
        setting.cloud.answer = NodeList(nodes=(node("CREATING"),), unreachable=())
        await setting.observer.ensure_recent()
        assert (
            await setting.calls_within(10 * SLOW_POLL_SECONDS) <= 14
        )  # quick for a moment: it is new
        for _ in range(20):  # attempts that nobody has seen in the list
            setting.observer.remove(NodeName("p", "us-east5-a", "my-tpu"))
            await asyncio.sleep(1.0)
        assert await setting.calls_within(10 * SLOW_POLL_SECONDS) <= 11


@in_virtual_time
async def test_it_pauses_when_nobody_is_interested_and_nothing_is_connected():
    async with Setting() as setting:
        await setting.observer.ensure_recent()
        assert await setting.calls_within(INTEREST_SECONDS + SLOW_POLL_SECONDS) > 1
        assert await setting.calls_within(INTEREST_SECONDS) == 0
        setting.needed = True
        setting.observer.request_refresh()
        assert await setting.calls_within(INTEREST_SECONDS) > 1


@in_virtual_time
async def test_not_being_able_to_ask_makes_no_tpu_vanish():
    async with Setting() as setting:
        setting.cloud.answer = NodeList(nodes=(node("READY"),), unreachable=())
        await setting.observer.refresh()
        setting.cloud.answer = TPUError("No.", Reason.NO_CREDENTIALS, "Log in.")
        await setting.observer.refresh()
        assert NAME in setting.observed.nodes
        assert not setting.observed.complete(NAME)
        assert setting.observed.problem.reason is Reason.NO_CREDENTIALS


@in_virtual_time
async def test_a_poll_of_one_project_says_nothing_of_another():
    async with Setting() as setting:
        await setting.observer.refresh()
        assert setting.observed.complete(NAME)
        assert not setting.observed.complete(NodeName("another", NAME.zone, NAME.node))


@in_virtual_time
async def test_tpus_of_a_zone_that_does_not_answer_stay_as_they_were():
    async with Setting() as setting:
        there = (node("READY"), node("READY", "us-east5-a"))
        setting.cloud.answer = NodeList(nodes=there, unreachable=())
        await setting.observer.refresh()
        setting.cloud.answer = NodeList(nodes=(), unreachable=("us-west4-a",))
        await setting.observer.refresh()
        assert list(setting.observed.nodes) == [NAME]
        assert not setting.observed.complete(NAME)
        assert setting.observed.complete(NodeName("p", "us-east5-a", "my-tpu"))
        assert "us-west4-a did not answer" in setting.observed.problem.message


@in_virtual_time
async def test_a_tpu_is_gone_when_google_says_so_by_name_and_not_because_a_list_lacks_it():
    async with Setting() as setting:
        cloud, observed = setting.cloud, setting.observed
        kept = {(NAME, "7")}
        setting.observer.register_remembered(lambda: kept)
        cloud.by_name = node("STOPPED")
        await setting.observer.refresh()  # the first list of this process lacks it already
        assert observed.nodes == {NAME: node("STOPPED")}
        cloud.by_name = TPUError("No answer.", Reason.UNAVAILABLE)
        await setting.observer.refresh()
        assert observed.nodes == {NAME: node("STOPPED")}, "as last seen"
        assert "my-tpu" in observed.problem.message
        assert not observed.gone
        cloud.by_name = None
        await setting.observer.refresh()
        assert observed.nodes == {}
        assert observed.gone == kept
        assert observed.problem is None
        kept.clear()  # nothing is kept of it any more
        asked = cloud.asked_by_name
        await setting.observer.refresh()
        assert (cloud.asked_by_name, observed.gone) == (asked, frozenset())


@in_virtual_time
async def test_a_list_from_before_a_tpu_was_created_again_does_not_hide_the_new_one():
    async with Setting() as setting:
        old, new = node("READY"), structs.replace(node("READY"), id="8")
        setting.cloud.answer = NodeList(nodes=(old,), unreachable=())
        setting.cloud.by_name = new
        setting.observer.register_remembered(lambda: [(NAME, "8")])
        await setting.observer.refresh()
        assert setting.observed.nodes == {NAME: new}
        assert not setting.observed.gone
        setting.cloud.answer = NodeList(nodes=(new,), unreachable=())
        await setting.observer.refresh()
        assert setting.cloud.asked_by_name == 1


@in_virtual_time
async def test_a_list_that_was_asked_for_before_a_tpu_was_seen_does_not_take_that_back():
    async with Setting() as setting:
        asked = asyncio.Event()
        older = NodeList(nodes=(node("STARTING"), node("READY", "us-east1-d")), unreachable=())

        async def slow_list(zone: str = "-") -> NodeList:
            asked.set()
            await asyncio.sleep(1)
            return older

        setting.cloud.list_nodes = slow_list  # type: ignore[method-assign]
        setting.observer.request_refresh()
        question = asyncio.create_task(setting.observer.ensure_recent())
        await asked.wait()
        setting.observer.upsert(node("READY"))  # what an operation has just seen
        setting.observer.remove(node("READY", "us-east1-d").name)
        await question
        assert {name.zone: each.state for name, each in setting.observed.nodes.items()} == {
            "us-west4-a": "READY"
        }
        await asyncio.sleep(2 * QUICK_POLL_SECONDS)  # the next list decides
        assert len(setting.observed.nodes) == 2


@in_virtual_time
async def test_what_is_missing_is_looked_for_after_the_question_and_not_at_each_question():
    async with Setting() as setting:
        assert await setting.observer.ensure_recent()
        assert not await setting.observer.ensure_recent()
        before = setting.cloud.calls
        setting.cloud.answer = NodeList(nodes=(node("READY"),), unreachable=())
        await setting.observer.refresh_for_missing()
        assert NAME in setting.observed.nodes
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(setting.observer.refresh_for_missing() for _ in range(20)))
        took = asyncio.get_running_loop().time() - begun
        assert took == pytest.approx(QUICK_POLL_SECONDS, rel=0.1)
        assert setting.cloud.calls - before == 2


@in_virtual_time
async def test_what_a_link_notices_of_its_tpu_is_asked_of_google_at_once():
    async with Setting() as setting:
        setting.cloud.answer = NodeList(nodes=(node("READY"),), unreachable=())
        await setting.observer.refresh()
        await asyncio.sleep(3 * SLOW_POLL_SECONDS)
        links = [SimpleNamespace(problem=TPUError("The line is cut.", Reason.UNREACHABLE))]
        core: Any = SimpleNamespace(
            connections=SimpleNamespace(links=lambda _: links),
            observed=setting.observed,
            observer=setting.observer,
        )
        Core._observe_gone(core, NAME)
        assert await setting.calls_within(QUICK_POLL_SECONDS) == 0
        links[0].problem = HostGone("my-tpu was preempted.", Reason.CONFLICT)
        setting.cloud.answer = NodeList(nodes=(node("PREEMPTED"),), unreachable=())
        Core._observe_gone(core, NAME)
        assert await setting.calls_within(QUICK_POLL_SECONDS / 2) == 1
        assert setting.observed.nodes[NAME].state is NodeState.PREEMPTED
        Core._observe_gone(core, NAME)
        assert await setting.calls_within(QUICK_POLL_SECONDS) <= 2, "that is known now"


# ---- both control planes ---------------------------------------------------------------------


@in_virtual_time
async def test_a_poll_of_both_control_planes_is_one_list_of_each_whoever_looks(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    async with Setting() as setting:
        both = Both()
        setting.observer._cloud = both.cloud
        both.tpu.add("old", "1")
        both.compute.add("new", "2")
        setting.needed = True

        async def hour(panels: int) -> tuple[list[str], list[str]]:
            both.tpu.calls, both.compute.calls = [], []

            async def panel(phase: float) -> None:
                await asyncio.sleep(phase)
                while True:
                    await setting.observer.ensure_recent()
                    await asyncio.sleep(120)

            async with asyncio.TaskGroup() as group:
                looking = [group.create_task(panel(1.2 * number)) for number in range(panels)]
                await asyncio.sleep(3600)
                for task in looking:
                    task.cancel()
            return both.tpu.calls, both.compute.calls

        alone, many = await hour(1), await hour(100)
        for calls in (*alone, *many):
            assert set(calls) == {"list"}
            assert len(calls) == pytest.approx(3600 / SLOW_POLL_SECONDS, abs=4)


@in_virtual_time
async def test_tpus_of_a_control_plane_that_does_not_answer_are_shown_as_last_seen(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    async with Setting() as setting:
        both = Both()
        setting.observer._cloud = both.cloud
        old, new = both.tpu.add("old", "1"), both.compute.add("new", "2")
        await setting.observer.ensure_recent()
        assert setting.observed.complete(new)
        both.compute.failure = TPUError("No answer.", Reason.UNAVAILABLE)
        del both.tpu.nodes[old]
        await setting.observer.refresh()
        assert {*setting.observed.nodes} == {old, new}
        assert not setting.observed.complete(new), "it may be gone, and nothing is forgotten"
        assert not setting.observed.gone
        assert "Compute Engine did not answer" in setting.observed.problem.message
        both.compute.failure = None
        del both.compute.nodes[new]
        await setting.observer.refresh()
        assert (setting.observed.nodes, setting.observed.problem) == ({}, None)
