"""What runs on which hosts of a pod, and whether they are in step. No I/O, and no clock of its own.

The programs of a pod meet in *collectives*: operations that every host has to begin, in the same
order. A host that skips one leaves the others waiting, and the next one that it begins is paired
with theirs: from then on all results are wrong, silently. So the hosts have to stay *in step*, and
the kernel has to say so when they are not.

::

    STARTING ──► IDLE ──► RUNNING ──► (CHECKING) ──► IDLE
        │         │          │            │
        └─────────┴──────────┴────────────┴────────► OUT_OF_STEP

- A cell starts when all hosts are idle and have run the same cells before; cells have numbers.
- A cell after which all hosts say ``ok``, and which nobody interrupted, leaves the hosts in step as
  far as the kernel can see.
- After an error or an interrupt, all hosts run a *check*: a collective with a number that was not
  used before. It only gives the right answer if nothing else is pending on any host. Without JAX
  there is nothing that could be checked.
- While all hosts are busy, they are asked where they are every `GLANCE_SECONDS` seconds: one may do
  something else, and the others wait for it.
- If one host raises while others are busy, they may be waiting for it forever. After
  `GRACE_SECONDS` seconds they are interrupted.
- A host whose kernel ends never comes back: only a restart of all does that.
- A host that ends an interrupted cell late, such as after a compilation (no signal ends one),
  does come back, if no cell ran without it: then all hosts run a check.
- OUT_OF_STEP refuses cells until `proceed` says that the user wants to continue anyway.
- Requests about the kernel's session take their turn as cells do, on all hosts or on none.

Callers pass each event to a method, and do what the returned actions say, in their order.
"""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, FrozenSet, List, Optional, Tuple

from .host_names import host_ranges, sentence
from .pod_actions import (
    Abort,
    Action,
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

#: Seconds from the first error of a cell until the hosts that are still busy are interrupted, and
#: the seconds before that at which they are asked where they are.
GRACE_SECONDS, LOOK_SECONDS = 1.0, 0.5
#: Seconds for which some hosts may be busy while others are done before the cell says where they
#: are; each report after that takes twice as long.
SLOW_SECONDS = 10.0
#: Seconds between two looks where hosts are while all are busy.
GLANCE_SECONDS = 3.0
#: Seconds for a check, and for a host to react to an interrupt before it gets another one.
CHECK_LIMIT, REACTION_SECONDS = 5.0, 2.0
#: How often a host is interrupted that may wait for one that has ended the cell. Then the cell ends
#: without it: some operations can't be interrupted.
MOST_INTERRUPTS = 2

STARTING, IDLE, RUNNING, CHECKING = "starting", "idle", "running", "checking"
OUT_OF_STEP = "out of step"


class PodState:
    """The hosts of one pod kernel, from their start to their end.

    Parameters
    ----------
    hosts: their number.
    """

    def __init__(self, hosts: int) -> None:
        self.phase = STARTING
        self.problem = ""  # why they are out of step
        self._died_meanwhile = ""  # why the first host that ended during the cell did
        self.number = 0  # of the latest cell
        self.dead: Dict[int, str] = {}  # hosts whose kernels have ended, and why
        self.stuck: Dict[int, str] = {}  # hosts that have not reacted to interrupts
        self.checkable = False  # JAX runs on all of them together
        self.cell: Optional[PodCell] = None  # that runs, or whose end is being checked
        self.hosts = hosts
        self._queue: Deque[PodCell] = deque()
        self._busy: Dict[int, None] = {}  # hosts that have not answered, in their order
        self._results: Dict[int, Result] = {}
        self._participants: FrozenSet[int] = frozenset()
        self._interrupted: FrozenSet[int] = frozenset()
        self._by_user = False
        self._interrupts = 0  # of the running cell
        self._was_checkable = False  # before a host was stuck
        self._checks = 0
        self._check_failed = ""
        self._deadlines: Dict[str, float] = {}  # what happens next: "look", "grace", …
        self._uneven_since: Optional[float] = None
        self._patience = SLOW_SECONDS

    # ---- what it is

    @property
    def living(self) -> Tuple[int, ...]:
        """The hosts whose kernels have not ended."""
        return tuple(host for host in range(self.hosts) if host not in self.dead)

    @property
    def able(self) -> Tuple[int, ...]:
        """The hosts on which cells can run."""
        return tuple(host for host in self.living if host not in self.stuck)

    @property
    def busy(self) -> Tuple[int, ...]:
        """The hosts that have not answered what was last asked of them."""
        return tuple(self._busy)

    @property
    def results(self) -> Dict[int, Result]:
        """The results of the hosts that have finished the running cell."""
        return dict(self._results)

    @property
    def next_deadline(self) -> Optional[float]:
        """When `tick` has something to do; None: not before the next event."""
        return min(self._deadlines.values(), default=None)

    # ---- start

    def started(self, now: float, *, checkable: bool, problem: str = "") -> List[Action]:
        """All hosts have started and are in step, or can't be because of a *problem*. *now*:
        seconds, of a clock that never goes back.
        """
        if self.phase != STARTING:
            return []
        self.checkable = checkable and not problem
        if problem:
            self._out_of_step(problem)
        else:
            self.phase = IDLE
        return [Ready(problem), *self._next(now)]

    # ---- cells

    def submit(self, cell: PodCell, now: float) -> List[Action]:
        """A client wants to run a cell."""
        self._queue.append(cell)
        return self._next(now)

    def withdraw(self, id: str) -> bool:
        """Whether a cell had not started; then it does not."""
        before = len(self._queue)
        self._queue = deque(cell for cell in self._queue if cell.id != id)
        return len(self._queue) < before

    @property
    def is_free(self) -> bool:
        """Whether a cell would start at once, on all hosts."""
        return self.phase == IDLE and not self._queue and len(self.able) == self.hosts

    def _next(self, now: float) -> List[Action]:
        """Starts the next cell if it can start; refuses all if they can't."""
        if self.phase not in (IDLE, OUT_OF_STEP) or not self._queue:
            return []
        cell = self._queue.popleft()
        if cell.check and self.checkable:
            self.cell, self._results = cell, {host: Result("ok") for host in self.living}
            self._interrupted, self._by_user = frozenset(), False
            return self._begin_check(now)
        if cell.check or self.phase == OUT_OF_STEP:
            cannot = "This kernel can't check it: JAX does not run on all hosts."
            problem = self.problem + self._outlook if self.problem else cannot
            return [Refuse(cell, problem), *self._next(now)]
        wanted = frozenset(range(self.hosts)) if cell.session else cell.hosts or frozenset()
        missing = sorted(wanted - set(self.able))
        if missing:
            return [Refuse(cell, self._missing(missing)), *self._next(now)]
        hosts = tuple(host for host in self.able if cell.hosts is None or host in cell.hosts)
        others = tuple(host for host in self.able if host not in hosts)
        self.phase, self.cell = RUNNING, cell
        self.number += 1
        self._busy = dict.fromkeys(self.able)
        self._results, self._interrupted, self._by_user = {}, frozenset(), False
        self._interrupts, self._died_meanwhile = 0, ""
        self._participants = frozenset(hosts)
        self._deadlines, self._uneven_since, self._patience = {}, None, SLOW_SECONDS
        if len(hosts) > 1 and not cell.session:
            self._deadlines["glance"] = now + GLANCE_SECONDS
        return [RunCell(cell, self.number, hosts, others)]

    @property
    def _outlook(self) -> str:
        """A sentence on what ends the problem by itself; "" if nothing does."""
        if not self.stuck or self.dead:
            return ""
        return " When all hosts have ended the cell, the kernel checks if they are in step."

    def _missing(self, hosts: List[int]) -> str:
        for host in hosts:
            if host in self.dead or host in self.stuck:
                return self.dead.get(host) or self.stuck[host]
        return "There is no host %d: the hosts are 0 to %d." % (hosts[0], self.hosts - 1)

    def finished(self, host: int, number: int, result: Result, now: float) -> List[Action]:
        """A host has ended the cell of that number."""
        if host in self.stuck and number == self.number:
            return self._finished_late(host, result, now)
        if self.phase != RUNNING or number != self.number or host not in self._busy:
            return []  # it answers after it was counted out, or twice
        del self._busy[host]
        if host in self._participants:
            self._results[host] = result
        if not self._busy:
            return self._all_ended(now)
        if self._participants & set(self._busy):
            if result.status != "ok" and host in self._participants:
                self._deadlines.setdefault("look", now + LOOK_SECONDS)
                self._deadlines.setdefault("grace", now + GRACE_SECONDS)
            if host in self._participants and not (self.cell and self.cell.session):
                self._uneven_since, self._patience = now, SLOW_SECONDS
                self._deadlines["slow"] = now + SLOW_SECONDS
        return []

    def _finished_late(self, host: int, result: Result, now: float) -> List[Action]:
        """A host that was stuck has ended the cell. Once all have, they may be in step."""
        del self.stuck[host]
        self._results[host] = result
        if self.stuck or self.dead:
            return []
        self.checkable = self._was_checkable
        problem = self._difference()
        if problem:
            self._out_of_step(problem)
            return []
        if self.checkable:
            return self._begin_check(now)
        self.phase, self.problem = IDLE, ""
        return []

    def _all_ended(self, now: float) -> List[Action]:
        self._deadlines = {}
        problem = self._difference()
        if problem:
            self._out_of_step(problem)
            return self._finish(now)
        clean = all(result.status == "ok" for result in self._results.values())
        if (clean and not self._by_user) or not self.checkable:
            self.phase = IDLE
            return self._finish(now)
        return self._begin_check(now)

    def _difference(self) -> str:
        """Why the hosts can't be in step, whatever a check would say; "" if nothing is known."""
        if self._died_meanwhile:  # also a host that did not run the cell
            return self._died_meanwhile
        counts = {result.execution_count for result in self._results.values()}
        if len(counts - {None}) > 1:
            return "The hosts have run different numbers of cells."
        return ""

    # ---- the check

    def _begin_check(self, now: float) -> List[Action]:
        self.phase = CHECKING
        self._checks += 1
        self._check_failed = ""
        self._busy = dict.fromkeys(self.living)
        self._deadlines = {"check": now + CHECK_LIMIT}
        return [Check(self._checks, self.living)]

    def checked(self, host: int, number: int, problem: str, now: float) -> List[Action]:
        """A host has ended the check of that number. *problem*: what was wrong; "": nothing."""
        if self.phase != CHECKING or number != self._checks or host not in self._busy:
            return []
        del self._busy[host]
        self._check_failed = self._check_failed or problem
        if problem and self._busy and "abandon" not in self._deadlines:
            # It is over, and the others may never end.
            return self._fail_check(now)
        return [] if self._busy else self._check_ended(now)

    def _fail_check(self, now: float) -> List[Action]:
        self._check_failed = self._check_failed or "An operation of all hosts is still pending."
        self._deadlines = {"abandon": now + REACTION_SECONDS}
        return [Interrupt(self.busy)]

    def _check_ended(self, now: float) -> List[Action]:
        self._deadlines = {}
        if self._check_failed:
            self._out_of_step(self._check_failed)
        else:
            self.phase = IDLE
            self.problem = ""
        return self._finish(now)

    def _finish(self, now: float) -> List[Action]:
        self._busy = {}
        cell, self.cell = self.cell, None
        if cell is None:  # its check came after hosts had ended late
            return self._next(now)
        problem = self.problem and self.problem + self._outlook
        finish = Finish(cell, self._results, self._interrupted, self._by_user, problem)
        failed = any(result.status != "ok" for result in self._results.values())
        aborted: List[Action] = []
        if failed and cell.stop_on_error:
            aborted = [Abort(cell) for cell in self._queue if not cell.session]
            self._queue = deque(cell for cell in self._queue if cell.session)
        return [finish, *aborted, *self._next(now)]

    def _out_of_step(self, problem: str) -> None:
        self.phase, self.problem = OUT_OF_STEP, problem
        self._deadlines = {}

    # ---- what happens meanwhile

    def interrupt(self, now: float) -> List[Action]:
        """The user interrupts what runs."""
        if self.phase == STARTING:
            return [Interrupt(self.living)]
        if self.phase == RUNNING:
            self._by_user = True
            self._interrupts = 0
            return self._interrupt(now)
        if self.phase == CHECKING and "abandon" not in self._deadlines:
            self._check_failed = "The check of the hosts was interrupted."
            return self._fail_check(now)
        return []

    def died(self, host: int, cause: str, now: float) -> List[Action]:
        """A host's kernel has ended, or can't be reached any more. *cause*: a sentence."""
        if host in self.dead or not 0 <= host < self.hosts:
            return []
        self.dead[host] = cause
        self.checkable = False
        if self.phase == STARTING:
            return self.started(now, checkable=False, problem=cause)
        if self.phase in (IDLE, OUT_OF_STEP):
            self._out_of_step(cause)
            return self._next(now)
        self._busy.pop(host, None)
        if self.phase == CHECKING:
            self._check_failed = cause
            if not self._busy:
                return self._check_ended(now)
            return [] if "abandon" in self._deadlines else self._fail_check(now)
        self._died_meanwhile = self._died_meanwhile or cause
        if host in self._participants:
            self._results[host] = Result("died", "KernelDied", cause)
        if not self._busy:
            self._deadlines = {}
            self._out_of_step(cause)
            return self._finish(now)
        # Whoever is busy may wait for the host that is gone.
        assert self.cell is not None
        self._deadlines["look"] = now
        self._deadlines["grace"] = now + LOOK_SECONDS
        return self.tick(now)

    def tick(self, now: float) -> List[Action]:
        """Does what is due."""
        actions: List[Action] = []
        for name, due in sorted(self._deadlines.items(), key=lambda item: item[1]):
            if due <= now and self._deadlines.get(name) == due:
                actions += self._due(name, now)
        return actions

    def _due(self, name: str, now: float) -> List[Action]:
        del self._deadlines[name]
        if name == "check":
            return self._fail_check(now)
        if name == "abandon":
            return self._check_ended(now)
        if self.cell is None or self.phase != RUNNING:
            return []
        waiting = tuple(host for host in self._busy if host in self._participants)
        if name == "look":
            return [Look(self.cell, waiting, "raised", 0.0)] if waiting else []
        if name == "glance":
            if self._results:
                return []
            self._deadlines["glance"] = now + GLANCE_SECONDS
            return [Look(self.cell, waiting, "glance", 0.0)]
        if name == "slow":
            since = self._uneven_since if self._uneven_since is not None else now
            self._patience *= 2
            self._deadlines["slow"] = since + self._patience
            return [Look(self.cell, waiting, "slow", now - since)] if waiting else []
        if name == "grace":
            self._interrupted |= frozenset(self._busy)
        elif self._interrupts >= MOST_INTERRUPTS:
            return self._give_up(now)
        return self._interrupt(now)

    def _interrupt(self, now: float) -> List[Action]:
        self._interrupts += 1
        self._deadlines["again"] = now + REACTION_SECONDS
        return [Interrupt(self.busy)]

    def _give_up(self, now: float) -> List[Action]:
        """Ends the cell without the hosts that do not react, if others have ended it."""
        stuck = [host for host in self._busy if host in self._participants]
        if not self._results or not stuck:
            return []
        problem = "%s not react to the interrupt." % (
            sentence(host_ranges(stuck)) + (" does" if len(stuck) == 1 else " do")
        )
        for host in stuck:
            self._results[host] = Result("stuck", "Interrupted", problem)
            self.stuck[host] = problem
        self.checkable, self._was_checkable = False, self.checkable
        self._out_of_step(self._difference() or problem)
        return self._finish(now)

    def proceed(self) -> str:
        """The user wants to run cells although the hosts are out of step. Returns the problem that
        is ignored from now on; "" if there is none.
        """
        problem = self.problem
        if self.phase == OUT_OF_STEP and self.able:
            self.phase, self.problem = IDLE, ""
        return problem
