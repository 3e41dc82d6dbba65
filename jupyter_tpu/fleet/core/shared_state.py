"""What other processes (a second server, a command) have written, taken over by all subjects."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ...errors import TPUError
from ...subscribers import Subscribers
from .records import Snapshot
from .store import Store

log = logging.getLogger(__name__)

#: How long a request waits for what other processes have written; seconds. After that it is
#: answered with what this process knows.
RELOAD = 1.5


class SharedState:
    """Each subject that keeps something in the store adds to *reloaded* what takes it over."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reloading = asyncio.Lock()
        self.reloaded = Subscribers[Snapshot]()

    async def reload(self) -> None:
        """Never fails: why it can't be read or saved now is the store's problem."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELOAD), self._reloading:
                try:
                    snapshot = await self._store.refresh()
                except TPUError as error:
                    log.debug("Other processes' changes are not known now: %s", error)
                    return
                if snapshot is not None:
                    for take_over in self.reloaded:
                        take_over(snapshot)
