"""Looks for maintenance that the cloud announces. That is a call in addition to the poll."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from ...cloud import Cloud, Maintenance, NodeName, NodeState, is_attached
from ...errors import TPUError
from ..core.observed import ObservedState

log = logging.getLogger(__name__)

#: Seconds between two calls, while the TPUs that run are the same. Google announces maintenance
#: seven days before; people who try it with an emulator should see it soon.
INTERVAL = 600.0
EMULATED_INTERVAL = 10.0
#: For how long a user waits for the answer; seconds.
AT_ONCE = 2.0


class MaintenanceWatch:
    """Keeps `observed.maintenance` up to date, on the core thread's loop.

    changed(names): called with the TPUs of which something else is announced.
    """

    def __init__(
        self,
        cloud: Cloud,
        observed: ObservedState,
        changed: Callable[[Iterable[NodeName]], None],
    ) -> None:
        self._cloud = cloud
        self._observed = observed
        self._changed = changed
        self._interval = EMULATED_INTERVAL if cloud.emulated else INTERVAL
        self._wake = asyncio.Event()
        self._known = asyncio.Event()  # what is announced of those in the last list
        self._known.set()
        self._asked_at = float("-inf")
        self._running: frozenset[tuple[str, str]] = frozenset()

    def polled(self) -> None:
        """There is a new list of TPUs: asks what is announced of those that run, if it is time."""
        now = asyncio.get_running_loop().time()
        running = frozenset(
            (node.id, node.health)
            for node in self._observed.nodes.values()
            if node.state is NodeState.READY and not is_attached(node.name)
        )
        before, self._running = self._running, running
        if running and (running != before or now - self._asked_at >= self._interval):
            self._asked_at = now
            self._known.clear()
            self._wake.set()

    async def ensure_known(self) -> None:
        """Returns when it is known what is announced, or that takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AT_ONCE):
                await self._known.wait()

    async def run(self) -> None:
        """Asks when it is time, until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                self._apply(await self._cloud.maintenance())
            except TPUError as error:  # what was announced stays so
                log.info("Announced maintenance is not known now: %s", error)
            finally:
                if not self._wake.is_set():
                    self._known.set()

    def _apply(self, maintenance: dict[str, Maintenance]) -> None:
        before, self._observed.maintenance = self._observed.maintenance, maintenance
        nodes = self._observed.nodes.items()
        changed = [name for name, node in nodes if before.get(node.id) != maintenance.get(node.id)]
        self._changed(changed)
