"""Whether a job has been silent for much longer than is usual for it. No I/O, no clock."""

from __future__ import annotations

from collections import deque
from typing import Deque, Optional

#: A job is silent after so many of its usual gaps, but not before so many seconds.
USUAL_GAPS, LEAST_SECONDS = 10.0, 60.0
#: Output within so many seconds counts as one, and so many gaps have to be known, of the last ones.
ONE_SECONDS, FEWEST_GAPS, MOST_GAPS = 1.0, 5, 50
#: The part of the gaps that the usual one is not shorter than.
USUAL_PART = 0.9


class JobSilence:
    """Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._gaps: Deque[float] = deque(maxlen=MOST_GAPS)
        self._counted: Optional[float] = None  # the output from which the next gap is counted
        self._last: Optional[float] = None

    def note_output(self, now: float) -> None:
        """The job has printed something."""
        self._last = now
        if self._counted is None or now >= self._counted + ONE_SECONDS:
            if self._counted is not None:
                self._gaps.append(now - self._counted)
            self._counted = now

    def usual_gap(self) -> Optional[float]:
        """Seconds between two outputs that nearly all gaps don't exceed; None if not known yet."""
        if len(self._gaps) < FEWEST_GAPS:
            return None
        return sorted(self._gaps)[int(USUAL_PART * (len(self._gaps) - 1))]

    def seconds(self, now: float) -> float:
        """For how long it has printed nothing, if that is unusually long; else 0."""
        usual = self.usual_gap()
        if usual is None or self._last is None:
            return 0.0
        silent = now - self._last
        return silent if silent > max(USUAL_GAPS * usual, LEAST_SECONDS) else 0.0
