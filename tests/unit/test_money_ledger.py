"""The ledger follows what a person decides of the end of a TPU, and no further than its budget."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from core_parts import core_of, ignore
from msgspec import structs
from refusals import raises
from test_guard_setting import Host, guards

from jupyter_tpu.cloud import OPERATION_LABEL, Node, NodeName, NodeState
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.agents.budgets import BudgetEnds
from jupyter_tpu.fleet.core.known_operations import KnownOperations
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.core.records import SpendRecord
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.models import Budget, Cost, Guard, KeepTPU, SetGuard
from jupyter_tpu.fleet.models.core import seconds_of, timestamp
from jupyter_tpu.fleet.money.budget_rules import MARGIN_SECONDS
from jupyter_tpu.fleet.money.ledger import NOTICE_SECONDS, Ledger

NAME = NodeName("p", "us-west4-a", "my-tpu")
NODE = Node(
    name=NAME,
    id="7",
    type="v5litepod-8",
    state=NodeState.READY,
    labels={OPERATION_LABEL: "0abc"},
)
HOUR = 3600.0


def hours(number: float) -> str:
    """In so many hours."""
    return timestamp("seconds", at=time.time() + number * HOUR)


def spending(who: str = "agent", **fields: object) -> SpendRecord:
    """$3.60 an hour, for an hour: it has run for ten minutes."""
    now = time.time()
    values = {
        **{"project": "p", "zone": "us-west4-a", "tpu": "my-tpu", "type": "v5litepod-8"},
        **{"usd_per_hour": 3.6, "most": 3.72, "asked": now - 600, "ends": now - 600 + HOUR},
        **{"node_id": "7", "since": now - 600},
        **fields,
    }
    return SpendRecord(id="0abc", who=who, **values)


async def ledger(store: Store, line: SpendRecord, budget: Budget | None) -> Ledger:
    observed = ObservedState()
    observed.nodes[NAME] = NODE
    runner, cloud = SimpleNamespace(known=KnownOperations()), SimpleNamespace(emulated=False)
    made = Ledger(core_of(store=store, observed=observed, runner=runner, cloud=cloud))
    made.added(line)
    store.save_spending(line)
    if budget is not None:
        await made.set_budget(budget)
    return made


async def changed(change: AbstractAsyncContextManager[None]) -> None:
    """The guard on the host has it, too."""
    async with change:
        pass


async def test_who_keeps_a_tpu_has_the_budget_pay_for_that_and_nothing_ends_it_before(
    store, tmp_path
):
    part = await ledger(store, spending(), Budget(who="agent", total=20))
    before, now = part.spending()[0], time.time()
    assert [line.name for line in part.overdue(now + HOUR)] == [NAME]
    await changed(part.keeping(NODE, now + 3 * HOUR))
    after = part.spending()[0]
    assert after.ends > before.ends
    assert after.most == pytest.approx(0.6 + 3.6 * (3 + MARGIN_SECONDS / HOUR), abs=0.01)
    assert part.overdue(now + 2 * HOUR) == []
    assert part.overdue(now + 3 * HOUR + 2 * MARGIN_SECONDS)
    # It is no shorter for who keeps it for less.
    await changed(part.keeping(NODE, now + HOUR))
    assert part.spending()[0].ends == after.ends
    # The next process reads the same.
    other = await Store.open(tmp_path / "fleet.sqlite", "google")
    assert other.snapshot.spending[0].ends == pytest.approx(now + 3 * HOUR)
    await other.close()


async def test_what_its_budget_does_not_cover_is_refused_and_changes_nothing(store):
    part = await ledger(store, spending(), Budget(who="agent", total=5))
    before = part.spending()[0]
    for ends in (time.time() + 3 * HOUR, None):
        with raises(Reason.BUDGET):
            await changed(part.moving_end(NODE, ends))
        assert part.spending()[0].ends == before.ends
        assert part.spending()[0].most == before.most
    # An earlier end is always inside, also without a budget.
    await part.remove_budget("agent")
    await changed(part.moving_end(NODE, time.time() + 60))
    assert part.spending()[0].most < before.most
    with pytest.raises(TPUError, match="no budget for coding agents"):
        await changed(part.keeping(NODE, time.time() + 2 * HOUR))


async def test_a_person_without_a_budget_removes_the_guard_and_no_one_deletes_the_tpu(store):
    part = await ledger(store, spending("ana"), None)
    await changed(part.moving_end(NODE, None))
    line = part.spending()[0]
    assert (line.ends, line.usd) == ("", pytest.approx(0.6, abs=0.01))
    assert part.overdue(time.time() + 1000 * HOUR) == []
    assert part.shorten(time.time()) == []
    # It counts until it is gone, and not only until it should have been.
    observed = part._observed
    observed.nodes.clear()
    observed.project, observed.unreachable = "p", frozenset()
    part.polled([], time.time() + 10 * HOUR)
    assert part.spending()[0].state == "ready", "a list that lacks it is not enough"
    observed.gone = frozenset(part.tpus())
    part.polled([], time.time() + 10 * HOUR)
    line = part.spending()[0]
    assert line.state == "ended"
    assert line.usd == pytest.approx(36.6, abs=0.01)


@pytest.mark.parametrize("who", ["agent", "ana"])
async def test_a_guard_that_its_host_does_not_get_has_changed_nothing_in_the_ledger(store, who):
    part = await ledger(store, spending(who), Budget(who="agent", total=50))
    before = part.spending()[0]
    host = Host(unreachable=0)
    setting = guards(host, node=NODE, cost=Cost(usd_per_hour=3.6, usd=0.6), ledger=part)
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: setting.set("my-tpu", SetGuard(action="delete", until=hours(0.1))),
        lambda: setting.set("my-tpu", SetGuard(action="delete", until=hours(3))),
        lambda: setting.set("my-tpu", SetGuard(action="delete", max_cost=1)),
        *([lambda: setting.remove("my-tpu")] if who == "ana" else []),
    ]
    for change in changes:
        with pytest.raises(TPUError, match="link is down"):
            await change()
        after = part.spending()[0]
        assert (after.ends, after.most) == (before.ends, before.most)
    host.unreachable = -1
    for ends, change in zip((0.1, 3.0), changes, strict=False):
        await change()
        line = part.spending()[0]
        assert seconds_of(line.ends, "ends") == pytest.approx(time.time() + ends * HOUR, abs=5)


async def test_googles_own_end_moves_only_with_the_guard_and_inside_the_budget(store):
    part = await ledger(store, spending(), Budget(who="agent", total=5))
    host, ends = Host(), time.time() + HOUR
    node = structs.replace(NODE, api="compute", ends=timestamp("seconds", at=ends))
    setting = guards(host, node=node, ledger=part)
    set_end: Any = setting._ends._cloud.set_end

    async def moved(node: Node, end: float) -> Node:
        return structs.replace(node, ends=timestamp("seconds", at=end))

    set_end.side_effect = moved
    await setting.set("my-tpu", SetGuard(action="delete", until=hours(0.1)))
    set_end.reset_mock()
    with raises(Reason.BUDGET):
        await setting.keep("my-tpu", KeepTPU(seconds=10 * HOUR))
    set_end.assert_not_awaited()

    before = part.spending()[0].ends
    host.refused_op = "keep"
    with pytest.raises(TPUError, match="link is down"):
        await setting.keep("my-tpu", KeepTPU(seconds=0.9 * HOUR))
    first, last = (call.args[1] for call in set_end.await_args_list)
    assert first > ends + 60
    assert last == pytest.approx(ends, abs=1), "it is set back"
    assert part.spending()[0].ends == before


async def test_an_end_is_in_the_ledger_before_the_host_has_a_later_one_and_after_an_earlier_one(
    store,
):
    part = await ledger(store, spending(), Budget(who="agent", total=50))
    now = time.time()
    planned = part.spending()[0].most
    async with part.moving_end(NODE, now + 5 * HOUR):
        longer = part.spending()[0].most
        assert longer > planned
    async with part.moving_end(NODE, now + HOUR):
        assert part.spending()[0].most == longer
    assert part.spending()[0].most < longer


@pytest.mark.parametrize(
    ("guard", "ends", "deleted"),
    [
        (TPUError("The link is down.", Reason.UNREACHABLE), None, True),
        (Guard(action="delete", phase="due", ends="0"), None, True),
        (Guard(action="delete", ends="-0.1"), None, True),
        (Guard(action="delete", ends="2"), 2 * HOUR, False),  # kept on another computer
        (Guard(action="delete", ends="99"), NOTICE_SECONDS, False),  # which no budget covers
        (Guard(action="stop", ends="2"), NOTICE_SECONDS, False),
        (TPUError("It has no guard.", Reason.NOT_FOUND), NOTICE_SECONDS, False),
    ],
)
async def test_a_guard_is_asked_before_a_server_deletes_its_tpu(store, guard, ends, deleted):
    now = time.time()
    if isinstance(guard, Guard):
        guard = structs.replace(guard, ends=hours(float(guard.ends)))
    part = await ledger(store, spending(ends=now - 200), Budget(who="agent", total=10))
    answer = AsyncMock(side_effect=[guard])
    power: Any = AsyncMock()
    core = core_of(observed=part._observed, loops=SimpleNamespace(register=ignore))
    part_ends = BudgetEnds(core, part, SimpleNamespace(get=answer), power)
    [line] = part.overdue(now)
    await part_ends._end(line)
    assert power.act_for_guard.await_count == int(deleted)
    if ends is not None:
        shown = part.spending()[0]
        assert seconds_of(shown.ends, "ends") == pytest.approx(now + ends, abs=5)
        assert shown.shortened == (ends == NOTICE_SECONDS)
        # Once it was told, nobody is asked again.
        for line in part.overdue(now + ends + 2 * MARGIN_SECONDS) if shown.shortened else []:
            await part_ends._end(line)
            assert power.act_for_guard.await_count == 1
    # Another TPU of its name is not the one that is meant.
    part._observed.nodes[NAME] = structs.replace(NODE, id="8")
    power.reset_mock()
    await part_ends._end(line)
    power.act_for_guard.assert_not_awaited()


async def test_a_tpu_of_no_plan_is_in_no_ledger(store):
    part = await ledger(store, spending(node_id="8"), Budget(who="agent", total=1))
    before = part.spending()[0]
    await changed(part.moving_end(NODE, None))
    await changed(part.keeping(NODE, time.time() + 99 * HOUR))
    assert part.spending()[0].ends == before.ends
