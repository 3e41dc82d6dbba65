"""When a guarded TPU stops: never too early, whatever the clock, the host and Google do."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.guard.activity import chips_compute
from jupyter_tpu.on_host.agent.guard.decision import LONGEST_STEP, GuardDecision, GuardRule, Verdict

HOUR = 3600.0
START = 1_800_000_000.0


def looks(
    decision: GuardDecision, seconds: float, busy: bool | None = False, at: float = 0.0
) -> Any:
    """A look every 30 seconds, by a clock that is right; the last verdict."""
    verdict = None
    for step in range(int(seconds // 30) + 1):
        uptime = at + 30.0 * step
        verdict = decision.look(busy, START + uptime, uptime)
    return verdict


def test_an_idle_tpu_is_announced_and_then_ends():
    decision = GuardDecision(GuardRule(idle=HOUR, notice=300))
    assert looks(decision, HOUR - 60) == Verdict("watching", "idle", 60.0, False)
    assert decision.look(False, START + HOUR, HOUR) == Verdict("due", "idle", 0.0, True)


def test_work_begins_the_count_anew():
    decision = GuardDecision(GuardRule(idle=HOUR))
    looks(decision, HOUR - 60)
    assert decision.look(True, START + HOUR, HOUR).left is None
    assert decision.look(False, START + HOUR + 30, HOUR + 30).left == HOUR - 30


def test_the_first_limit_counts():
    decision = GuardDecision(GuardRule(idle=HOUR, until=START + 2 * HOUR, cost=START + 600))
    assert decision.look(False, START, 0.0) == Verdict("watching", "cost", 600.0, False)


def test_a_clock_that_jumps_beyond_the_limit_gives_the_whole_notice():
    decision = GuardDecision(GuardRule(until=START + 10 * HOUR, notice=300))
    decision.look(True, START, 0.0)
    for uptime in range(30, 330, 30):
        assert not decision.look(True, START + 11 * HOUR, float(uptime)).act
    assert decision.look(True, START + 11 * HOUR, 330.0).act


def test_a_clock_that_jumps_back_takes_the_notice_back():
    decision = GuardDecision(GuardRule(until=START + HOUR, notice=300))
    decision.look(True, START + HOUR, 0.0)
    assert decision.look(True, START, 200.0).left == HOUR
    assert not decision.look(True, START + HOUR, 320.0).act


def test_after_a_refusal_google_is_asked_again_later_and_later():
    decision = GuardDecision(GuardRule(until=START, notice=0))
    asked, uptime = [], 0.0
    while len(asked) < 8:
        if decision.look(None, START + uptime, uptime).act:
            asked.append(uptime)
            decision.asked(agreed=False)
        uptime += 10.0
    waits = [after - before for before, after in pairwise(asked)]
    assert waits == [60, 120, 240, 480, 900, 900, 900]


def test_a_host_that_is_still_there_long_after_google_has_agreed_asks_again():
    decision = GuardDecision(GuardRule(until=START, notice=0))
    assert decision.look(None, START, 0.0).act
    decision.asked(agreed=True)
    assert decision.look(None, START + 30, 30.0) == Verdict("ending", "time", 0.0, False)
    assert looks(decision, 900, None, at=60.0).act


def test_another_rule_is_announced_anew():
    decision = GuardDecision(GuardRule(until=START + 60, notice=300))
    looks(decision, 270)
    decision.keep(HOUR)
    decision.change(GuardRule(until=START + 60, notice=300))
    assert decision.look(None, START + 300, 300.0).left == 300.0


@pytest.mark.parametrize(
    ("chips", "compute"),
    [
        ([[1, 2, 0.0], [1, 2, 80.0]], True),
        ([[1, 2, None], [1, 2, 80.0]], True),
        ([[1, 2, 0.0], [1, 2, 0.1]], False),
        ([[1, 2, 0.0], [1, 2, None]], None),
        ([], None),
    ],
)
def test_chips_are_idle_only_if_each_says_so(chips, compute):
    assert chips_compute({"state": "ok", "chips": chips}) is compute


@pytest.mark.parametrize("busy", [True, None])
def test_what_is_busy_or_not_known_is_not_idle(busy):
    assert not looks(GuardDecision(GuardRule(idle=60, notice=0)), 100 * HOUR, busy).act


steps = st.lists(
    st.tuples(
        st.floats(0, 600),  # seconds of uptime since the last look
        st.floats(-1e6, 1e6),  # by which the clock is wrong
        st.sampled_from([True, False, False, False, None]),
        st.sampled_from([None, None, None, None, "keep", "restart", "refused"]),
    ),
    max_size=60,
)
limits = st.one_of(st.none(), st.floats(0, 2e4))


@given(steps, limits, limits, st.floats(0, 900))
def test_nothing_ends_without_its_notice_nor_while_it_is_kept(steps, idle, until, notice):
    rule = GuardRule(idle=idle, until=None if until is None else START + until, notice=notice)
    decision, uptime = GuardDecision(rule), 0.0
    announced: float | None = None  # seconds that count, since the end was in sight
    idle_for = kept = 0.0
    first = True
    for passed, wrong, busy, event in steps:
        if event == "keep":
            decision.keep(500.0)
            kept, announced = 500.0, None
        elif event == "restart":
            decision, first = GuardDecision(rule, decision.state()), True
        uptime += passed
        counted = 0.0 if first else min(passed, LONGEST_STEP)
        first = False
        verdict = decision.look(busy, START + uptime + wrong, uptime)
        idle_for = idle_for + counted if busy is False else 0.0
        kept = max(0.0, kept - counted)
        in_sight = verdict.left is not None and verdict.left <= notice + 1e-6
        announced = None if not in_sight else 0.0 if announced is None else announced + counted
        if verdict.act:
            assert announced is not None
            assert announced >= notice - 1e-6
            assert kept == 0.0
            if verdict.reason == "idle":
                assert rule.idle is not None
                assert idle_for >= rule.idle - 1e-6
            else:
                assert rule.until is not None
                assert START + uptime + wrong >= rule.until
            decision.asked(agreed=event != "refused")
