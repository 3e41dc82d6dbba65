"""Continues the operations of processes that have ended, however they ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ...errors import TPUError
from ..core.operation_runner import OperationRunner
from ..core.records import OperationRecord
from ..models.operation_kinds import KINDS

log = logging.getLogger(__name__)

#: How often changes by other processes, and their ends, are checked for; seconds.
EVERY = 1.0


class Takeover:
    """reload: reads what other processes have written.

    supervise: False for a process that does one thing only. It continues deletions and stops, since
    they save money, and leaves everything else to a server.
    """

    def __init__(
        self, runner: OperationRunner, reload: Callable[[], Awaitable[None]], *, supervise: bool
    ) -> None:
        self._runner = runner
        self._reload = reload
        self._supervise = supervise

    async def run(self) -> None:
        """Checks until it is cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.check()

    async def check(self) -> None:
        """Takes over what has no process now."""
        await self._reload()
        for record in self._runner.abandoned():
            try:
                await self._check(record)
            except TPUError as error:  # it can't be saved now
                log.warning("An operation can't be continued now: %s", error)
            except Exception:  # the others are continued all the same
                log.exception("Operation %s can't be continued", record.operation.id)

    async def _check(self, record: OperationRecord) -> None:
        claim, continued_by = record.claim, KINDS[record.operation.kind].continued_by
        deletes = claim is not None and claim.want == "absent"
        if self._supervise or deletes or continued_by == "any":
            mine = await self._runner.take_over(record)
            if mine is not None:
                self._runner.resume_left(mine)
        elif claim is None and not continued_by:
            self._runner.mark_interrupted(record, save=False)
