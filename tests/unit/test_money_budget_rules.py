"""Budgets: whatever is asked for, in whatever order, nothing can be spent beyond them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.agents.budgets import ClockWatch
from jupyter_tpu.fleet.core.operation_records import Creation, NodeClaim, OperationRecord, PlanTerms
from jupyter_tpu.fleet.core.records import SpendRecord
from jupyter_tpu.fleet.models import Budget, CreateTPU, Operation
from jupyter_tpu.fleet.money import budget_rules as rules

NOON = 1_800_000_000.0 // 86_400 * 86_400 + 43_200
DAY = 86_400.0


def line(id: str, most: float = 1.0, **fields: object) -> SpendRecord:
    values = {
        "who": "agent",
        "project": "p",
        "zone": "us-west4-a",
        "tpu": f"t-{id}",
        "type": "v5litepod-8",
        "usd_per_hour": 3.6,
        "most": most,
        "asked": NOON,
        "ends": NOON + 1000,
        **fields,
    }
    return SpendRecord(id=id, **values)


class Model:
    """TPUs that are asked for, become READY and end, while the budget decides."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.lines: list[SpendRecord] = []
        self.now = NOON
        self.reasons: set[Reason] = set()

    def ask(self, most: float) -> None:
        seconds = most / 3.6 * 3600 - rules.MARGIN_SECONDS
        if seconds <= 0:
            return
        asked = line(str(len(self.lines)), most, asked=self.now, ends=self.now + seconds)
        try:
            rules.require_inside(asked, [self.budget], self.lines, [], self.now)
        except TPUError as error:
            self.reasons.add(error.reason)
        else:
            self.lines.append(structs.replace(asked, node_id="n", since=self.now))

    def keep(self, seconds: float) -> None:
        """A person keeps the newest TPU for so long from now."""
        running = [one for one in self.lines if one.since is not None]
        if not running:
            return
        before = running[-1]
        ends = max(before.ends or 0.0, self.now + seconds)
        most = rules.usd_of(before, self.now)[0] + rules.most_for(3.6, ends - self.now)
        after = structs.replace(before, ends=ends, most=most)
        others = [one for one in self.lines if one.id != before.id]
        try:
            rules.require_later_end(before, after, [self.budget], others, self.now)
        except TPUError as error:
            self.reasons.add(error.reason)
        else:
            self.lines[self.lines.index(before)] = after

    def pass_time(self, seconds: float) -> None:
        """Guards act in time: at most MARGIN_SECONDS late."""
        self.now += seconds
        for number, one in enumerate(self.lines):
            end = min(self.now, one.ends + rules.MARGIN_SECONDS)
            if one.since is not None and end < self.now:
                days = rules.add_ready(one.days, one.since, end)
                self.lines[number] = structs.replace(one, since=None, days=days, ended=True)

    def delete(self, number: int) -> None:
        if self.lines:
            number %= len(self.lines)
            one = self.lines[number]
            if one.since is not None:
                days = rules.add_ready(one.days, one.since, self.now)
                self.lines[number] = structs.replace(one, since=None, days=days, ended=True)


def exists(id: str, most: float, **fields: object) -> SpendRecord:
    """One that has run for half an hour: it has cost $1.80."""
    values = {"asked": NOON - 1800 + int(id), "since": NOON - 1800, "node_id": f"n{id}"}
    seconds = most / 3.6 * 3600 - rules.MARGIN_SECONDS
    return line(id, most, **{"ends": NOON - 1800 + seconds, **values, **fields})


def test_when_a_budget_is_lowered_the_newest_tpus_end_sooner_and_are_told_before():
    lines = [exists("1", 3.0), exists("2", 3.0), exists("3", 3.0)]
    enough = Budget(who="agent", day=9)
    assert rules.shortened_ends(enough, lines, NOON, 300.0) == {}
    # Spent: $5.40. Of $7.40, the first one may cost its other $1.20, the second one $0.80.
    ends = rules.shortened_ends(Budget(who="agent", day=7.4), lines, NOON, 300.0)
    assert ends == {
        "2": pytest.approx(NOON + 0.8 / 3.6 * 3600 - rules.MARGIN_SECONDS),
        "3": NOON + 300.0,
    }
    # Used up: all of them, in five minutes.
    ends = rules.shortened_ends(Budget(who="agent", total=1), lines, NOON, 300.0)
    assert ends == dict.fromkeys("123", NOON + 300.0)
    # What has been shortened is not shortened again and again.
    again = [structs.replace(one, ends=ends[one.id], shortened=True) for one in lines]
    assert rules.shortened_ends(Budget(who="agent", total=1), again, NOON + 60, 300.0) == {}


def test_a_clock_that_jumps_forwards_ends_nothing_until_it_can_be_believed():
    watch = ClockWatch()
    assert watch.is_trusted(NOON, 1000.0)
    assert watch.is_trusted(NOON + 15, 1015.0)
    assert not watch.is_trusted(NOON + DAY, 1030.0)
    assert not watch.is_trusted(NOON + DAY + 15, 1045.0)
    assert watch.is_trusted(NOON + 60, 1060.0)  # set right
    assert not watch.is_trusted(NOON + DAY, 1075.0)
    assert watch.is_trusted(NOON + DAY + 600, 1675.0)  # it stays, so it is the right one
    assert watch.is_trusted(NOON + DAY + 615, 1690.0)
    # Asleep for a day: both went on.
    assert watch.is_trusted(NOON + 2 * DAY + 615, 1690.0 + DAY)


def test_only_tpus_that_the_budget_is_for_end_sooner():
    budget = Budget(who="agent", day=1)
    for other in (
        {"who": "person"},
        {"approved": True},
        {"ended": True},
        {"usd_per_hour": 0.0},
        {"node_id": ""},
    ):
        assert rules.shortened_ends(budget, [exists("1", 3.0, **other)], NOON, 300.0) == {}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.floats(0.2, 8.0)),
        st.tuples(st.just("pass_time"), st.floats(1.0, 2 * DAY)),
        st.tuples(st.just("keep"), st.floats(60.0, DAY)),
        st.tuples(st.just("delete"), st.integers(0, 20)),
    ),
    max_size=30,
)


@given(STEPS, st.floats(1.0, 20.0))
def test_nothing_is_spent_beyond_a_budget_in_total(steps, total):
    model = Model(Budget(who="agent", total=total))
    for name, value in steps:
        getattr(model, name)(value)
    model.pass_time(30 * DAY)
    spent = sum(rules.usd_of(one, model.now)[0] for one in model.lines)
    assert spent <= total + 0.01
    assert model.reasons <= {Reason.BUDGET}


@given(STEPS, st.floats(1.0, 20.0))
def test_nothing_is_spent_beyond_a_budget_a_day(steps, day):
    """Whatever runs over midnight was inside the day's budget when it was asked for, and what it
    may still cost counts on the next day from the start.
    """
    model = Model(Budget(who="agent", day=day))
    for name, value in steps:
        getattr(model, name)(value)
    model.pass_time(30 * DAY)
    days: dict[str, float] = {}
    for one in model.lines:
        for name, seconds in one.days.items():
            days[name] = days.get(name, 0.0) + seconds * one.usd_per_hour / 3600
    assert all(usd <= day + 0.01 for usd in days.values()), days


@given(st.floats(0, 5 * DAY), st.floats(-DAY, 3 * DAY))
def test_seconds_are_counted_once_each_on_their_day(start, length):
    days = rules.add_ready({}, NOON + start, NOON + start + length)
    assert sum(days.values()) == pytest.approx(max(0.0, length), abs=1e-3)
    assert all(0 < seconds <= DAY for seconds in days.values())


def test_a_clock_that_is_set_back_takes_nothing_back():
    spent = line("a", since=NOON, days={rules.day_of(NOON): 1000.0})
    assert rules.usd_of(spent, NOON - 10_000)[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (None, "There is no budget for coding agents."),
        (Budget(who="ana", day=9), "There is no budget for coding agents."),
        (Budget(who="agent", day=9, until="2020-01-01"), "ended on 2020-01-01"),
        (Budget(who="agent", day=9, types=["v6e"]), "is for v6e, not v5litepod-8"),
        (Budget(who="agent", day=9, zones=["eu"]), "is for eu, not us-west4-a"),
        (Budget(who="agent", day=0.5), "has $0.50 left"),
        (Budget(who="agent", day=9, total=0.5), "has $0.50 left"),
        (Budget(who="agent", day=9, types=["v5e"], zones=["us-west4-a"]), ""),
    ],
)
def test_it_says_why_something_is_outside(budget, why):
    said = rules.outside("agent", line("a"), [budget] if budget else [], [], NOON)
    assert why in said
    assert bool(why) == bool(said)


def test_what_a_person_has_agreed_to_counts_for_no_budget():
    agreed = line("a", 100.0, approved=True)
    rules.require_inside(agreed, [], [], [], NOON)
    assert rules.add_up("agent", [agreed], NOON).committed == 0


def test_what_could_not_be_created_no_longer_counts():
    def record(state: str, label: str) -> OperationRecord:
        operation = Operation(id="0abc", kind="hunt", state=state)
        claim = NodeClaim(want="present", since=0, label=label)
        creation = Creation(request=CreateTPU(name="a", type="v4-8"), claim=claim)
        return OperationRecord(operation=operation, project="p", owner="", content=creation)

    failed = line("0abc")
    assert rules.is_unmade(failed, [record("failed", "0abc")])
    assert not rules.is_unmade(failed, [record("running", "0abc")])
    assert not rules.is_unmade(failed, [])  # not known
    assert not rules.is_unmade(structs.replace(failed, node_id="7"), [record("failed", "0abc")])
    first = line("0abc-1")
    assert rules.is_unmade(first, [record("running", "0abc-2")])
    assert not rules.is_unmade(first, [record("running", "0abc-1")])


def test_the_time_of_a_plan_is_within_its_cost():
    terms = PlanTerms(plan="", who="agent", time=7200, max_cost=3.6)
    assert rules.time_within(terms, 3.6) == 3600 - rules.MARGIN_SECONDS
    assert rules.most_for(3.6, rules.time_within(terms, 3.6)) == pytest.approx(3.6)
    assert rules.time_within(terms, 0.1) == 7200
    assert NodeName("p", "z", "t") == line("x", zone="z", tpu="t").name
