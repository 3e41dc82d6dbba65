"""Continues the operations of processes that have ended, however they ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from ...errors import TPUError
from ..core.operation_runner import OperationRunner
from ..core.records import OperationRecord
from ..hunts.service import HuntService
from ..jobs.guard_setting import GuardService
from ..lifecycle.create import CreateService
from ..lifecycle.power import PowerService
from ..lifecycle.provisioning import EXPECTED
from ..lifecycle.queued import QueuedService
from ..models import Operation

log = logging.getLogger(__name__)

#: How often changes by other processes, and their ends, are checked for; seconds.
EVERY = 1.0


class Takeover:
    """reload: reads what other processes have written.

    supervise: False for a process that does one thing only. It continues deletions and stops, since
    they save money, and leaves everything else to a server.
    """

    def __init__(
        self,
        runner: OperationRunner,
        create: CreateService,
        power: PowerService,
        hunts: HuntService,
        queued: QueuedService,
        guard: GuardService,
        reload: Callable[[], Awaitable[None]],
        *,
        supervise: bool,
    ) -> None:
        self._runner = runner
        self._create = create
        self._power = power
        self._hunts = hunts
        self._queued = queued
        self._guard = guard
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
        operation = record.operation
        deletes = record.claim is not None and record.claim.want == "absent"
        if self._supervise or deletes or operation.kind == "stop":
            mine = await self._runner.take_over(record)
            if mine is not None:
                self._resume(mine)
        elif record.claim is None and record.hunt is None and operation.kind != "guard":
            # A TPU without its guard is shown as such until a server sets it.
            self._runner.mark_interrupted(record, save=False)

    def _resume(self, record: OperationRecord) -> None:
        operation, claim = record.operation, record.claim
        operation.log.append("The process that ran this has ended. Continuing.")
        match operation.kind:
            case "create" if claim is not None:
                self._create.resume(record)
            case "hunt":
                self._hunts.resume(record)
            case "queue" | "unqueue" if claim is not None:
                self._queued.resume(record)
            case "delete" if claim is not None:
                self._power.resume(record)
            case "guard":
                self._guard.resume(record)
            case "stop":
                self._power.resume(record)
            case "start" if _age(operation) <= EXPECTED:
                self._power.resume(record)
            case "connect":
                operation.message = "Waiting to resume"
                self._runner.known.resumable[record.name] = record  # resumed when the TPU is seen
            case _:
                self._runner.mark_interrupted(record)


def _age(operation: Operation) -> float:
    """Since it was asked for; seconds."""
    created = datetime.fromisoformat(operation.created)
    return (datetime.now(UTC) - created).total_seconds()
