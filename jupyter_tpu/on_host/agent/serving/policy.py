"""When a server is checked, restarted and given up; no I/O, no clock.

    starting ──ok──▶ healthy ──3 failed checks──▶ unhealthy ──too long──▶ (ended by us) ─┐
        ▲               ▲───────────ok──────────────┘                                    │
        └──── after a pause ◀── restarting ◀────────── exits, and was healthy ◀──────────┘

A server that exits and was never healthy ends the job: it would fail in the same way again, and its
own words say why. While it starts it may take any time, as a large model does.

On several hosts, one that has exited waits long enough for the others to be ended, too: a process
that is new would not find its place among those that had lost it.
"""

from __future__ import annotations

from typing import Optional

STARTING, HEALTHY, UNHEALTHY, RESTARTING = "starting", "healthy", "unhealthy", "restarting"

#: Seconds between two checks of a server that starts, one that is healthy, and one in doubt.
START_CHECK, HEALTHY_CHECK, DOUBT_CHECK = 1.0, 10.0, 2.0
#: So many checks in a row fail before it is unhealthy.
FAILED_CHECKS = 3
#: Pauses before a restart, seconds: the first, that of one of several hosts, and the longest.
FIRST_PAUSE, GROUP_PAUSE, LONGEST_PAUSE = 1.0, 12.0, 60.0
#: It is given up after so many restarts in a row, none of which was healthy for so many seconds.
MOST_RESTARTS, STABLE_SECONDS = 10, 60.0


class ServingPolicy:
    """patience: seconds for which it may be unhealthy before it is restarted; 0: for ever. group:
    whether it is restarted on several hosts together. Times are seconds of any one clock.
    """

    def __init__(self, patience: float, now: float, *, group: bool = False) -> None:
        self.state = STARTING
        self.check_at = now
        self.start_at: Optional[float] = None  # again
        self.restarts = 0
        self.was_healthy = False
        self._patience = patience
        self._group = group
        self._others = 0  # restarts on another host, which this one follows
        self._in_a_row = 0
        self._failed = 0
        self._failing_since = now
        self._healthy_since: Optional[float] = None

    def checked(self, ok: bool, now: float) -> None:
        """What a check has found."""
        if self.state == RESTARTING:
            return
        if ok:
            self._failed = 0
            if self.state != HEALTHY:
                self.state, self._healthy_since = HEALTHY, now
            self.was_healthy = True
            self.check_at = now + HEALTHY_CHECK
            return
        if self.state == STARTING:
            self.check_at = now + START_CHECK
            return
        if not self._failed:
            self._failing_since = now
        self._failed += 1
        if self._failed >= FAILED_CHECKS:
            self.state, self._healthy_since = UNHEALTHY, None
        self.check_at = now + DOUBT_CHECK

    def is_to_end(self, now: float) -> bool:
        """Whether it was unhealthy for too long, and is to be ended, to be started again."""
        late = now - self._failing_since >= self._patience > 0.0
        return self.state == UNHEALTHY and late

    def exited(self, now: float) -> bool:
        """It has exited. Whether it is started again, at `start_at`."""
        if self._healthy_since is not None and now - self._healthy_since >= STABLE_SECONDS:
            self._in_a_row = 0
        self._healthy_since = None
        if self._others > self.restarts:
            self.restarts, self.start_at = self._others, now + FIRST_PAUSE
        elif not self.was_healthy or self._in_a_row >= MOST_RESTARTS:
            return False
        else:
            first = GROUP_PAUSE if self._group else FIRST_PAUSE
            self.start_at = now + min(first * 2.0**self._in_a_row, LONGEST_PAUSE)
            self._in_a_row += 1
            self.restarts += 1
        self.state, self._failed = RESTARTING, 0
        return True

    def follow(self, restarts: int) -> bool:
        """It is to be restarted as often as another host's. Whether it has to be ended for that."""
        if restarts <= self.restarts:
            return False
        self._others = restarts
        if self.state != RESTARTING:
            return True
        self.restarts = restarts  # it is about to be started
        return False

    def started(self, now: float) -> None:
        """It was started again."""
        self.state, self.start_at, self.check_at = STARTING, None, now
