"""What could not be done for one TPU: logged, shown, and retried with a growing pause.

It ends no loop and keeps no other TPU waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta

from ...backoff import Backoff
from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..models import FailingTPU, Problem
from ..models.core import timestamp

log = logging.getLogger(__name__)

PAUSES = Backoff(2.0, 60.0)


class TPUFailures:
    """By TPU and by what is done for it ("kernels", "tunnels", …). On the core thread's loop.

    time: the loop's clock. changed(name) is called when a TPU begins or ceases to fail.
    """

    def __init__(self, time: Callable[[], float], changed: Callable[[NodeName], None]) -> None:
        self._time = time
        self._changed = changed
        self._failing: dict[tuple[NodeName, str], FailingTPU] = {}
        self._due: dict[tuple[NodeName, str], float] = {}

    def record(self, name: NodeName, what: str, error: Exception) -> float:
        """Returns for how long to wait before it is tried again; seconds."""
        before = self._failing.get((name, what))
        failures = before.failures + 1 if before else 1
        pause = PAUSES.after(failures)
        if isinstance(error, TPUError):
            problem = Problem.of(error)
            log.warning("%s of %s: %s Retrying in %.0f s.", what, name.node, error, pause)
        else:
            log.error(
                "%s of %s failed. Retrying in %.0f s.", what, name.node, pause, exc_info=error
            )
            problem = Problem(
                message=f"{name.node} can't be kept up to date ({what}): "
                f"{type(error).__name__}: {error}.",
                reason=Reason.INTERNAL,
                hint="Will be retried. The server's log has the details.",
            )
        self._failing[name, what] = FailingTPU(
            tpu=name.node,
            zone=name.zone,
            what=what,
            failures=failures,
            since=before.since if before else timestamp(),
            retry_at=_after(pause),
            problem=problem,
        )
        self._due[name, what] = self._time() + pause
        self._changed(name)
        return pause

    def clear(self, name: NodeName, what: str) -> None:
        """It succeeded, or is no longer desired."""
        if self._failing.pop((name, what), None) is not None:
            del self._due[name, what]
            self._changed(name)

    def retain(self, what: str, names: Collection[NodeName]) -> None:
        """Clears the failures of all TPUs but *names*: nothing is done for the others any more."""
        for name, failed in list(self._failing):
            if failed == what and name not in names:
                self.clear(name, what)

    def waits(self, name: NodeName, what: str) -> bool:
        """Whether it failed and is not to be tried again yet."""
        return self._due.get((name, what), 0.0) > self._time()

    def problem(self, name: NodeName) -> Problem | None:
        """Why a TPU is not as it should be."""
        return next(
            (failing_tpu.problem for key, failing_tpu in self._failing.items() if key[0] == name),
            None,
        )

    def all(self) -> list[FailingTPU]:
        return list(self._failing.values())


def _after(seconds: float) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
