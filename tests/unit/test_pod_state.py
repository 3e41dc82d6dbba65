"""What runs on a pod's hosts, and whether they are in step, under every order of events.

The hosts here have a truth of their own: how many collectives each of them has begun. The kernel
may only offer to run cells while that number is the same on all of them, or when its user has told
it to go on regardless.
"""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jupyter_tpu.on_host.agent.pod.host_names import host_ranges, parse_hosts
from jupyter_tpu.on_host.agent.pod.pod_actions import (
    Abort,
    Check,
    Finish,
    Interrupt,
    Look,
    PodCell,
    Ready,
    Refuse,
    Result,
    RunCell,
)
from jupyter_tpu.on_host.agent.pod.pod_state import (
    CHECKING,
    GLANCE_SECONDS,
    GRACE_SECONDS,
    IDLE,
    MOST_INTERRUPTS,
    OUT_OF_STEP,
    REACTION_SECONDS,
    RUNNING,
    SLOW_SECONDS,
    STARTING,
    PodState,
)

HOSTS = 3
OK, ERROR = Result("ok"), Result("error", "ValueError", "no")


class Pod(RuleBasedStateMachine):
    @initialize(started=st.sampled_from([True, True, True, False]))
    def begin(self, started: bool) -> None:
        self.start()
        if started:
            self.all_started(works=True)

    def start(self) -> None:
        self.state = PodState(HOSTS)
        self.now = 0.0
        self.begun = [0] * HOSTS
        self.open: set[str] = set()  # cells that have not ended
        self.cells = 0
        self.run: RunCell | None = None
        self.planned = 0  # collectives of the running cell
        self.check: Check | None = None
        self.forced = False  # the user has told the kernel to go on regardless
        self.stale: list[tuple[str, int, int]] = []
        self.late: RunCell | None = None  # that hosts have not ended which are stuck

    def take(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, RunCell):
                assert self.run is None, "one cell at a time"
                assert self.state.phase == RUNNING
                assert sorted((*action.hosts, *action.others)) == sorted(self.state.able)
                assert not action.cell.session or len(action.hosts) == HOSTS
                self.run = action
            elif isinstance(action, Check):
                self.check = action
            elif isinstance(action, Interrupt):
                assert not set(action.hosts) & set(self.state.dead)
            elif isinstance(action, Finish | Refuse | Abort):
                self.open.remove(action.cell.id)  # once
                assert not (isinstance(action, Abort) and action.cell.session)
                if isinstance(action, Finish):
                    if self.run is not None:
                        done = set(range(HOSTS)) - set(self.state.stuck)
                        self.stale += [("cell", host, self.run.number) for host in done]
                        self.late = self.run
                    if self.check is not None:
                        self.stale += [("check", host, self.check.number) for host in range(HOSTS)]
                    self.run = self.check = None
            else:
                assert isinstance(action, Look | Ready)

    def in_step(self) -> bool:
        return len(set(self.begun)) == 1 and not self.state.dead

    @precondition(lambda self: self.state.phase == STARTING)
    @rule(works=st.booleans())
    def all_started(self, works: bool) -> None:
        self.take(self.state.started(self.now, checkable=True, problem="" if works else "No."))

    @rule(
        hosts=st.none() | st.frozensets(st.integers(0, HOSTS - 1), min_size=1),
        session=st.booleans(),
    )
    def submit(self, hosts: frozenset[int] | None, session: bool) -> None:
        self.cells += 1
        cell = PodCell(str(self.cells), hosts, stop_on_error=self.cells % 2 == 0)
        if session:
            cell = PodCell(cell.id, stop_on_error=False, session=True)
        self.open.add(cell.id)
        phase = self.state.phase
        actions = self.state.submit(cell, self.now)
        if phase == OUT_OF_STEP:
            assert not any(isinstance(action, RunCell) for action in actions)
        self.take(actions)

    @precondition(lambda self: self.run is not None and self.state.phase == RUNNING)
    @rule(pick=st.integers(0, HOSTS - 1), fails=st.booleans(), some=st.integers(0, 2))
    def host_ends(self, pick: int, fails: bool, some: int) -> None:
        """A host ends the cell. All collectives of the cell run if it is one for all hosts."""
        run, busy = self.run, self.state.busy
        host = busy[pick % len(busy)]
        everywhere = not run.others and len(run.hosts) == HOSTS
        if host in run.others or not fails or run.cell.session:
            self.begun[host] += 2 if everywhere else 0
            self.take(self.state.finished(host, run.number, OK, self.now))
        else:
            self.begun[host] += min(some, 2 if everywhere else 1)
            self.take(self.state.finished(host, run.number, ERROR, self.now))

    @precondition(lambda self: self.check is not None and self.state.phase == CHECKING)
    @rule(pick=st.integers(0, HOSTS - 1))
    def host_is_checked(self, pick: int) -> None:
        host = self.state.busy[pick % len(self.state.busy)]
        problem = "" if self.in_step() else "It got other data."
        self.take(self.state.checked(host, self.check.number, problem, self.now))

    @precondition(lambda self: self.stale)
    @rule(pick=st.integers(0, 100))
    def late_answer(self, pick: int) -> None:
        """What was given up answers after all: that changes nothing."""
        kind, host, number = self.stale[pick % len(self.stale)]
        before = self.state.phase, self.state.problem, self.state.busy
        if kind == "cell":
            assert self.state.finished(host, number, OK, self.now) == []
        else:
            assert self.state.checked(host, number, "", self.now) == []
        assert (self.state.phase, self.state.problem, self.state.busy) == before

    @precondition(lambda self: set(self.state.stuck) - set(self.state.dead))
    @rule(pick=st.integers(0, HOSTS - 1), some=st.integers(0, 2))
    def stuck_host_ends(self, pick: int, some: int) -> None:
        """It ends its cell after the others. It counts again, unless a cell ran without it."""
        stuck = sorted(set(self.state.stuck) - set(self.state.dead))
        host, run = stuck[pick % len(stuck)], self.late
        everywhere = not run.others and len(run.hosts) == HOSTS
        self.begun[host] += min(some, 2 if everywhere else 1)
        before, actions = self.state.number, self.state.finished(host, run.number, ERROR, self.now)
        assert (host in self.state.stuck) == (run.number != before)
        self.take(actions)

    @rule(host=st.integers(0, HOSTS - 1))
    def host_dies(self, host: int) -> None:
        self.take(self.state.died(host, f"The kernel of host {host} ended.", self.now))

    @rule()
    def user_interrupts(self) -> None:
        self.take(self.state.interrupt(self.now))

    @rule(seconds=st.sampled_from([0.1, 0.6, 2.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.state.tick(self.now))

    @rule()
    def user_checks(self) -> None:
        self.cells += 1
        self.open.add(str(self.cells))
        self.take(self.state.submit(PodCell(str(self.cells), check=True), self.now))

    @precondition(lambda self: self.state.phase == OUT_OF_STEP)
    @rule()
    def user_goes_on_regardless(self) -> None:
        self.forced = True
        self.state.proceed()

    @precondition(lambda self: self.state.phase == OUT_OF_STEP)
    @rule()
    def restart(self) -> None:
        self.start()

    @invariant()
    def it_is_in_step_or_says_that_it_is_not(self) -> None:
        if self.state.phase in (IDLE, RUNNING) and self.run is None and not self.forced:
            assert self.in_step()
        if self.state.phase == OUT_OF_STEP:
            assert self.state.problem
        if self.state.dead and self.state.phase == IDLE:
            assert self.forced

    @invariant()
    def what_is_idle_or_out_of_step_keeps_no_cell_waiting(self) -> None:
        if self.state.phase in (IDLE, OUT_OF_STEP):
            assert not self.open


TestPod = Pod.TestCase
TestPod.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def running(*, others: int = 0) -> PodState:
    """A pod on whose hosts a cell runs."""
    state = PodState(HOSTS)
    state.started(0.0, checkable=True)
    state.submit(PodCell("a"), 0.0)
    return state


def test_hosts_that_wait_for_one_that_raised_are_asked_where_they_are_and_interrupted():
    state = running()
    assert state.finished(2, 1, ERROR, 0.0) == []
    assert state.tick(GRACE_SECONDS) == [
        Look(PodCell("a"), (0, 1), "raised", 0.0),
        Interrupt((0, 1)),
    ]


def test_hosts_that_cannot_be_interrupted_do_not_keep_the_cell():
    state = running()
    state.finished(2, 1, ERROR, 0.0)
    actions: list[Any] = []
    for second in range(1, int(GRACE_SECONDS + MOST_INTERRUPTS * REACTION_SECONDS) + 1):
        actions = state.tick(float(second))
    [finish] = actions
    assert {host: result.status for host, result in finish.results.items()} == {
        0: "stuck", 1: "stuck", 2: "error",
    }  # fmt: skip
    assert state.phase == OUT_OF_STEP
    assert "Hosts 0, 1 do not react" in state.problem


@pytest.mark.parametrize("checkable", [True, False])
def test_hosts_that_end_an_interrupted_cell_late_come_back(checkable):
    state = PodState(HOSTS)
    state.started(0.0, checkable=checkable)
    state.submit(PodCell("a"), 0.0)
    state.finished(2, 1, ERROR, 0.0)
    for second in range(1, 6):
        state.tick(float(second))
    assert (state.phase, state.able) == (OUT_OF_STEP, (2,))
    assert state.finished(0, 1, ERROR, 6.0) == []
    [refuse] = state.submit(PodCell("b"), 6.0)
    assert refuse.problem.startswith(state.problem)
    assert refuse.problem.endswith("the kernel checks if they are in step.")
    actions = state.finished(1, 1, ERROR, 7.0)
    if checkable:
        assert actions == [Check(1, (0, 1, 2))]
        assert state.submit(PodCell("c"), 7.0) == []
        assert [state.checked(host, 1, "", 8.0) for host in (0, 1)] == [[], []]
        assert state.checked(2, 1, "", 8.0) == [RunCell(PodCell("c"), 2, (0, 1, 2), ())]
    else:
        assert (actions, state.phase, state.able) == ([], IDLE, (0, 1, 2))


def test_a_host_that_ends_late_stays_out_if_a_cell_ran_without_it():
    state = running()
    state.finished(2, 1, ERROR, 0.0)
    for second in range(1, 6):
        state.tick(float(second))
    state.proceed()
    state.submit(PodCell("b"), 6.0)
    assert state.finished(0, 1, ERROR, 7.0) == []
    assert state.able == (2,)


def test_a_cell_that_some_hosts_have_ended_says_after_a_while_where_the_others_are():
    state = running()
    state.finished(0, 1, OK, 0.0)
    assert state.tick(SLOW_SECONDS - 1) == []
    assert state.tick(SLOW_SECONDS) == [Look(PodCell("a"), (1, 2), "slow", SLOW_SECONDS)]
    assert state.tick(SLOW_SECONDS + 1) == []
    assert state.tick(2 * SLOW_SECONDS) == [Look(PodCell("a"), (1, 2), "slow", 2 * SLOW_SECONDS)]


def test_while_all_hosts_are_busy_they_are_asked_where_they_are_until_one_is_done():
    state = running()
    look = Look(PodCell("a"), (0, 1, 2), "glance", 0.0)
    assert [state.tick(n * GLANCE_SECONDS) for n in (0.5, 1, 1.5, 2)] == [[], [look], [], [look]]
    state.finished(0, 1, OK, 2.5 * GLANCE_SECONDS)
    assert state.tick(3 * GLANCE_SECONDS) == []
    assert state.next_deadline == 2.5 * GLANCE_SECONDS + SLOW_SECONDS
    state = PodState(HOSTS)
    state.started(0.0, checkable=True)
    state.submit(PodCell("a", frozenset([1])), 0.0)
    assert state.next_deadline is None, "a host by itself waits for none"


def test_an_error_on_all_hosts_is_checked_and_cells_go_on():
    state = running()
    for host in range(HOSTS):
        actions = state.finished(host, 1, ERROR, 0.0)
    assert actions == [Check(1, (0, 1, 2))]
    for host in range(HOSTS):
        actions = state.checked(host, 1, "", 0.0)
    assert isinstance(actions[0], Finish)
    assert (state.phase, state.problem) == (IDLE, "")


def test_cells_behind_one_that_failed_are_aborted():
    state = running()
    state.submit(PodCell("b"), 0.0)
    for host in range(HOSTS):
        state.finished(host, 1, ERROR, 0.0)
    for host in range(HOSTS):
        actions = state.checked(host, 1, "", 0.0)
    assert actions[1:] == [Abort(PodCell("b"))]


def test_hosts_are_named_in_ranges():
    assert host_ranges([3]) == "host 3"
    assert host_ranges([0, 1, 2, 5]) == "hosts 0-2, 5"
    assert host_ranges([1, 2]) == "hosts 1, 2"
    assert parse_hosts("0, 3-5", 6) == {0, 3, 4, 5}


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "4", "2-1", "0,,1", "0-99999999999"])
def test_what_names_no_hosts_is_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match="host"):
        parse_hosts(text, 4)


def test_a_host_that_ends_while_others_run_a_cell_leaves_the_pod_out_of_step():
    state = PodState(HOSTS)
    state.started(0.0, checkable=True)
    state.submit(PodCell("a", frozenset([2])), 0.0)
    for host in (0, 1):
        state.died(host, f"The kernel of host {host} ended.", 0.0)
    state.finished(2, 1, OK, 0.0)
    assert (state.phase, state.problem) == (OUT_OF_STEP, "The kernel of host 0 ended.")
