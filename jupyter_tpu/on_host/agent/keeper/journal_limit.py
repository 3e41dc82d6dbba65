"""Limits a kernel's journal: a full one pauses the kernel, or loses its oldest output."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..protocol.eviction import Evictor, eviction_priority
from ..protocol.journal import Journal
from .kernel_process import KernelProcess

#: Bytes of unread output after which the kernel is paused, or the oldest output dropped …
JOURNAL_LIMIT = 2 << 30
#: … and of these in memory, if the disk is full.
MEMORY_LIMIT = 64 << 20
#: Messages that may wait: the index of those on disk is in memory, some 300 bytes for each.
MOST_MESSAGES = 1_000_000
#: Most bytes that are dropped at a time, so that an interrupt does not have to wait.
DROP_BYTES = 16 << 20


class JournalLimit:
    """Limits the journal of one kernel.

    Parameters
    ----------
    journal: the kernel's.
    process: the kernel, paused while its journal is full.
    limit: bytes; 0: JOURNAL_LIMIT.
    evictor: drops the oldest output instead of pausing the kernel, if it can; None: nothing is
        ever dropped.
    """

    def __init__(
        self, journal: Journal, process: KernelProcess, limit: int, evictor: Optional[Evictor]
    ) -> None:
        self._journal = journal
        self._process = process
        self._limit = limit or JOURNAL_LIMIT
        self._evictor = evictor

    def priority(self, channel: int, parts: List[bytes]) -> int:
        """When a message is dropped: 1 before 2; 0 means never."""
        return eviction_priority(channel, parts) if self._evictor is not None else 0

    def check(self, *, sending: bool = False) -> Optional[Dict[str, Any]]:
        """Drops output, and pauses or resumes the kernel. Call it when the journal has changed.

        sending: the kernel is in the middle of a message, which a paused one would not end.

        Returns the event for the client if the kernel was paused or resumed.
        """
        store, process = self._journal.store, self._process
        full = self._drop_output() and not sending
        if full and not process.paused:
            process.pause()
            why = store.problem or "%d MiB of output (%d messages) are waiting to be read" % (
                store.bytes >> 20,
                len(store),
            )
            return {"event": "paused", "why": why}
        half_empty = store.bytes < self._limit // 2 and len(store) < MOST_MESSAGES // 2
        if process.paused and not full and (half_empty or sending):
            process.resume()
            return {"event": "resumed"}
        return None

    def _drop_output(self) -> bool:
        """Drops output if it may. Returns whether the journal is still full."""
        excess = self._excess()
        while self._evictor is not None and excess > 0:
            spare = min(
                self._limit // 8, DROP_BYTES
            )  # so that the next message does not need it again
            if not self._journal.evict(self._evictor.evict, excess + spare):
                break  # only messages are left that are never dropped
            excess = self._excess()
        return excess > 0

    def _excess(self) -> int:
        """The bytes above the limit; 0 or less means that it is not full."""
        store = self._journal.store
        in_memory = store.memory - MEMORY_LIMIT if store.problem else 0
        too_many = len(store) - MOST_MESSAGES
        average = store.bytes // (len(store) or 1)
        return max(store.bytes - self._limit, in_memory, too_many * (average + 1))
