"""Continues the operations of processes that have ended, however they ended."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime

from ..models import Operation
from ..operations.create import CreateService
from ..operations.power import PowerService
from ..operations.provisioning import EXPECTED
from ..operations.runner import OperationRunner
from ..store.records import OperationRecord

log = logging.getLogger(__name__)

#: How often the processes of other operations are checked; seconds.
EVERY = 3.0


class Takeover:
    """reload: reads what other processes have written since the last time.

    supervise: False for a process that does one thing only. It continues deletions, since they
    save money, and leaves everything else to a server.
    """

    def __init__(
        self,
        runner: OperationRunner,
        create: CreateService,
        power: PowerService,
        reload: Callable[[], None],
        *,
        supervise: bool,
    ) -> None:
        self._reload = reload
        self._runner = runner
        self._create = create
        self._power = power
        self._supervise = supervise

    async def run(self) -> None:
        """Checks until it is cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self._runner.retry_saving()
            try:
                self.check()
            except (sqlite3.Error, OSError) as error:
                log.warning("The operations of other processes can't be checked now: %s", error)

    def check(self) -> None:
        """Takes over what has no process now."""
        self._reload()
        for record in self._runner.abandoned():
            deletes = record.claim is not None and record.claim.want == "absent"
            if self._supervise or deletes:
                if self._runner.take_over(record):
                    self._resume(record)
            elif record.claim is None:
                self._runner.mark_interrupted(record, save=False)

    def _resume(self, record: OperationRecord) -> None:
        operation, claim = record.operation, record.claim
        operation.log.append("The process that ran this has ended. Continuing.")
        match operation.kind:
            case "create" if claim is not None:
                self._create.resume(record)
            case "delete" if claim is not None:
                self._power.resume(record)
            case "start" | "stop" if _age(operation) <= EXPECTED:
                self._power.resume(record)
            case "connect":
                operation.message = "Waiting to resume"
                self._runner.resumable[record.name] = record  # resumed when the TPU is seen
            case _:
                self._runner.mark_interrupted(record)


def _age(operation: Operation) -> float:
    """Since it was asked for; seconds."""
    created = datetime.fromisoformat(operation.created)
    return (datetime.now(UTC) - created).total_seconds()
