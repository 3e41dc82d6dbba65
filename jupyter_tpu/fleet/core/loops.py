"""The fleet's loops, and what failed for one TPU: logged, shown, and retried with a growing pause.

An exception ends no loop, and a TPU that fails keeps no other waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta

import msgspec

from ...backoff import Backoff
from ...cloud import NodeName
from ...concurrency import cancel_all
from ...errors import Reason, TPUError
from ..models import FailingTPU, LoopStatus, Problem
from ..models.core import timestamp

log = logging.getLogger(__name__)

#: How long a loop that failed waits before it continues.
PAUSES = Backoff(1.0, 60.0)
#: A loop that ran for so long starts again with the first pause; seconds.
HEALTHY_SECONDS = 300.0


class Loops:
    """Tasks that run until :meth:`close`. On the core thread's loop.

    supervise: whether those run that only a process without an end needs.
    """

    def __init__(self, *, supervise: bool = True) -> None:
        self._supervise = supervise
        self._registered: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._status: dict[str, LoopStatus] = {}
        self._suspect: dict[str, float] = {}  # until when a loop that failed counts as failing

    def register(
        self, name: str, run: Callable[[], Awaitable[None]], *, always: bool = False
    ) -> None:
        """Has *run* started by :meth:`start_all`; *always*: without supervision, too."""
        if always or self._supervise:
            self._registered.append((name, run))

    def start_all(self) -> None:
        for name, run in self._registered:
            self.start(name, run)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Runs *run*, which does not return, and runs it again when it fails."""
        self._status[name] = LoopStatus(name=name)
        self._tasks.append(asyncio.create_task(self._keep_running(name, run), name=f"tpu-{name}"))

    def status(self) -> list[LoopStatus]:
        now = asyncio.get_running_loop().time()
        return [
            msgspec.structs.replace(status, failing=now < self._suspect.get(name, 0.0))
            for name, status in self._status.items()
        ]

    async def close(self) -> None:
        await cancel_all(self._tasks)

    async def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        time = asyncio.get_running_loop().time
        pause, status = PAUSES.first, self._status[name]
        while True:
            started = time()
            try:
                await run()
                log.error("The loop %r ended unexpectedly", name)
            except Exception as error:
                log.exception("The loop %r failed. It restarts in %.0f s.", name, pause)
                status.failures += 1
                status.last_failure = timestamp()
                status.last_error = f"{type(error).__name__}: {error}"
            if time() - started > HEALTHY_SECONDS:
                pause = PAUSES.first
            self._suspect[name] = time() + 2 * pause
            await asyncio.sleep(pause)
            pause = PAUSES.next(pause)


RETRIES = Backoff(2.0, 60.0)


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
        pause = RETRIES.after(failures)
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
            (tpu.problem for key, tpu in self._failing.items() if key[0] == name),
            None,
        )

    def all(self) -> list[FailingTPU]:
        return list(self._failing.values())


def _after(seconds: float) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
