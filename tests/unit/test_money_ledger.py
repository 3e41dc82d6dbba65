"""The ledger follows what a person decides of the end of a TPU, and no further than its budget."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio
from core_parts import core_of

from jupyter_tpu.cloud import OPERATION_LABEL, Node, NodeName, NodeState
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.known_operations import KnownOperations
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.core.records import SpendRecord
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.models import Budget
from jupyter_tpu.fleet.money.budget_rules import MARGIN
from jupyter_tpu.fleet.money.ledger import Ledger

NAME = NodeName("p", "us-west4-a", "my-tpu")
NODE = Node(
    name=NAME,
    id="7",
    type="v5litepod-8",
    state=NodeState.READY,
    labels={OPERATION_LABEL: "0abc"},
)
HOUR = 3600.0


def spending(who: str = "agent", **fields: object) -> SpendRecord:
    """$3.60 an hour, for an hour: it has run for ten minutes."""
    now = time.time()
    values = {
        **{"project": "p", "zone": "us-west4-a", "tpu": "my-tpu", "type": "v5litepod-8"},
        **{"usd_per_hour": 3.6, "most": 3.72, "asked": now - 600, "ends": now - 600 + HOUR},
        **{"node_id": "7", "since": now - 600},
        **fields,
    }
    return SpendRecord(id="0abc", who=who, **values)  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "fleet.sqlite", "google")
    yield store
    await store.close()


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


@pytest.mark.asyncio
async def test_who_keeps_a_tpu_has_the_budget_pay_for_that_and_nothing_ends_it_before(
    store: Store, tmp_path: Path
) -> None:
    part = await ledger(store, spending(), Budget(who="agent", total=20))
    before, now = part.spending()[0], time.time()
    assert part.overdue(now + HOUR) == [NAME]
    await part.keep(NODE, now + 3 * HOUR)
    after = part.spending()[0]
    assert after.ends > before.ends
    assert after.most == pytest.approx(0.6 + 3.6 * (3 + MARGIN / HOUR), abs=0.01)
    assert part.overdue(now + 2 * HOUR) == []
    assert part.overdue(now + 3 * HOUR + 2 * MARGIN) == [NAME]
    # It is no shorter for who keeps it for less.
    await part.keep(NODE, now + HOUR)
    assert part.spending()[0].ends == after.ends
    # The next process reads the same.
    other = await Store.open(tmp_path / "fleet.sqlite", "google")
    assert other.snapshot.spending[0].ends == pytest.approx(now + 3 * HOUR)
    await other.close()


@pytest.mark.asyncio
async def test_what_its_budget_does_not_cover_is_refused_and_changes_nothing(store: Store) -> None:
    part = await ledger(store, spending(), Budget(who="agent", total=5))
    before = part.spending()[0]
    for ends in (time.time() + 3 * HOUR, None):
        with pytest.raises(TPUError) as refused:
            await part.set_end(NODE, ends)
        assert refused.value.reason is Reason.BUDGET
        assert part.spending()[0].ends == before.ends
        assert part.spending()[0].most == before.most
    # An earlier end is always inside, also without a budget.
    await part.remove_budget("agent")
    await part.set_end(NODE, time.time() + 60)
    assert part.spending()[0].most < before.most
    with pytest.raises(TPUError, match="no budget for coding agents"):
        await part.keep(NODE, time.time() + 2 * HOUR)


@pytest.mark.asyncio
async def test_a_person_without_a_budget_removes_the_guard_and_no_one_deletes_the_tpu(
    store: Store,
) -> None:
    part = await ledger(store, spending("ana"), None)
    await part.set_end(NODE, None)
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


@pytest.mark.asyncio
async def test_a_tpu_of_no_plan_is_in_no_ledger(store: Store) -> None:
    part = await ledger(store, spending(node_id="8"), Budget(who="agent", total=1))
    before = part.spending()[0]
    await part.set_end(NODE, None)
    await part.keep(NODE, time.time() + 99 * HOUR)
    assert part.spending()[0].ends == before.ends
