"""Runs the fleet's loops: an exception in one is logged, shown and retried, and ends none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from ...backoff import Backoff
from ...concurrency import cancel_all
from ..models import LoopStatus
from ..models.core import timestamp

log = logging.getLogger(__name__)

#: How long a loop that failed waits before it continues.
PAUSES = Backoff(1.0, 60.0)
#: A loop that ran for so long starts again with the first pause; seconds.
HEALTHY = 300.0


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
            if time() - started > HEALTHY:
                pause = PAUSES.first
            self._suspect[name] = time() + 2 * pause
            await asyncio.sleep(pause)
            pause = PAUSES.next(pause)
