"""The time of day, which may be set, and a clock that no one sets."""

from __future__ import annotations

import sys
import time

#: A clock that differs by more than this from the other one was set; seconds.
CLOCK_SET_SECONDS = 2.0


def uptime() -> float:
    """Seconds that only grow, also while this computer sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # time.monotonic() stands still then
    return time.monotonic()


class Clock:
    """Notices when the time of day is set."""

    def __init__(self) -> None:
        self._last = time.time(), uptime()

    def now(self) -> tuple[float, float]:
        """The time, in seconds since the epoch, and by how many seconds it was set since this was
        last called.
        """
        before, self._last = self._last, (time.time(), uptime())
        moved = (self._last[0] - before[0]) - (self._last[1] - before[1])
        return self._last[0], moved if abs(moved) > CLOCK_SET_SECONDS else 0.0
