"""When a TPU has to stop: a state machine without I/O and without a clock of its own.

Each look tells it what keeps the TPU busy and two times: the *clock* (seconds since the epoch,
which may jump) and the *uptime* (seconds that only grow). Being idle, notice and a keep are counted
by the uptime, and a pause between two looks counts for little: a host that slept was not idle.
Nothing happens before the notice has been given in full, wherever the clock jumps to.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

#: Longest time that counts between two looks, seconds.
LONGEST_STEP = 90.0
#: Seconds until Google is asked again: after an error, doubled up to the second one; and after it
#: has agreed, but the host is still there.
RETRY_SECONDS, LONGEST_RETRY_SECONDS, AGREED_RETRY_SECONDS = 60.0, 900.0, 900.0


class GuardRule(NamedTuple):
    """What was chosen. Each limit is None where there is none.

    idle: seconds without anything that keeps the TPU busy. until, cost: a time, and the time at
    which the TPU will have cost what it may, in seconds since the epoch. notice: seconds for which
    it is announced before.
    """

    idle: Optional[float] = None
    until: Optional[float] = None
    cost: Optional[float] = None
    notice: float = 300.0


class Verdict(NamedTuple):
    """phase: "watching", "due" (the limit is reached) or "ending" (Google has agreed).

    reason: the limit that comes first, "idle", "time" or "cost"; "" for none. left: seconds until
    it is reached; None if nothing is counted down. act: Google is to be asked now.
    """

    phase: str
    reason: str
    left: Optional[float]
    act: bool


class GuardDecision:
    """state: what :meth:`state` gave before, if the host has not been restarted since then."""

    def __init__(self, rule: GuardRule, state: Optional[Dict[str, Any]] = None) -> None:
        state = state or {}
        self.rule = rule
        self._idle = float(state.get("idle", 0.0))
        #: For how long it is announced that a limit comes; None: it is not.
        self._announced: Optional[float] = state.get("announced")
        self._kept = float(state.get("kept", 0.0))
        self._pause = float(state.get("pause", 0.0))
        self._failures = int(state.get("failures", 0))
        self._agreed = bool(state.get("agreed", False))
        self._uptime: Optional[float] = None

    @property
    def agreed(self) -> bool:
        """Whether Google has agreed to end the host."""
        return self._agreed

    def state(self) -> Dict[str, Any]:
        return {
            "idle": self._idle,
            "announced": self._announced,
            "kept": self._kept,
            "pause": self._pause,
            "failures": self._failures,
            "agreed": self._agreed,
        }

    def change(self, rule: GuardRule) -> None:
        """Takes another rule: the notice starts again, and a keep ends."""
        self.rule = rule
        self._announced, self._kept, self._pause = None, 0.0, 0.0
        self._failures, self._agreed = 0, False

    def keep(self, seconds: float) -> None:
        """Nothing happens for so many seconds, and then only after another notice."""
        self._kept = seconds
        self._announced, self._agreed = None, False

    def look(self, busy: Optional[bool], clock: float, uptime: float) -> Verdict:
        """busy: None if that is not known; then it counts as busy."""
        before = uptime if self._uptime is None else self._uptime
        step = min(max(0.0, uptime - before), LONGEST_STEP)
        self._uptime = uptime
        self._idle = self._idle + step if busy is False else 0.0
        self._kept = max(0.0, self._kept - step)
        self._pause = max(0.0, self._pause - step)
        limits = self._limits(busy, clock)
        if not limits:
            self._announced, self._agreed = None, False
            return Verdict("watching", "", None, False)
        left, reason = min(limits)
        left = max(left, self._kept, 0.0)
        if left > self.rule.notice:
            self._announced, self._agreed = None, False
            return Verdict("watching", reason, left, False)
        if self._announced is None:
            self._announced = 0.0  # from now on
        else:
            self._announced += step
        left = max(left, self.rule.notice - self._announced)
        if left > 0.0:
            return Verdict("watching", reason, left, False)
        return Verdict("ending" if self._agreed else "due", reason, 0.0, self._pause == 0.0)

    def asked(self, agreed: bool) -> None:
        """What Google has said to the last request."""
        self._agreed = agreed
        if agreed:
            self._failures, self._pause = 0, AGREED_RETRY_SECONDS
        else:
            self._pause = min(RETRY_SECONDS * 2.0**self._failures, LONGEST_RETRY_SECONDS)
            self._failures = min(self._failures + 1, 10)

    def _limits(self, busy: Optional[bool], clock: float) -> List[Tuple[float, str]]:
        """The seconds until each limit that is counted down."""
        rule = self.rule
        limits = []
        if rule.idle is not None and busy is False:
            limits.append((rule.idle - self._idle, "idle"))
        if rule.until is not None:
            limits.append((rule.until - clock, "time"))
        if rule.cost is not None:
            limits.append((rule.cost - clock, "cost"))
        return limits
