"""Operations of all processes, as their users see them; and continuing those that were left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ...cloud import Cloud, NodeName
from ...errors import Reason, TPUError
from ..core.observed import ObservedState
from ..core.operation_runner import OperationRunner
from ..core.records import OperationRecord
from ..models import Operation, StopTrying
from ..models.money import billing_words
from ..models.operation_kinds import KINDS
from ..money.grants import Grants


class OperationService:
    """An :class:`~jupyter_tpu.fleet.api.OperationsAPI`.

    reload(): takes over what other processes have written.
    """

    def __init__(
        self,
        cloud: Cloud,
        runner: OperationRunner,
        observed: ObservedState,
        grants: Grants,
        reload: Callable[[], Awaitable[None]],
    ) -> None:
        self._cloud = cloud
        self._runner = runner
        self._observed = observed
        self._grants = grants
        self._reload = reload

    async def list(self) -> Sequence[Operation]:
        await self._reload()
        return self._runner.known.all()

    async def get(self, id: str) -> Operation:
        await self._reload()
        return self._runner.known.get(id)

    async def wait(self, id: str) -> Operation:
        """Waits until an operation has ended; for callers in this process."""
        return await self._runner.wait(id)

    async def cancel(self, id: str) -> Operation:
        await self._reload()
        return await self._runner.cancel(id)

    async def stop_trying(self, id: str, options: StopTrying | None = None) -> Operation:
        await self._reload()
        operation = self._runner.known.get(id)
        confirmed = options is not None and options.keep_tpu
        if operation.undeleted == "retrying" and not confirmed:
            raise TPUError(self._stays(operation), Reason.STILL_BILLED, "Confirm that it stays.")
        return await self._runner.stop_trying(id)

    def _stays(self, operation: Operation) -> str:
        """What it means to end the attempts to delete a TPU."""
        name = NodeName(self._cloud.project, operation.zone, operation.tpu)
        node = self._observed.node(name)
        billed = billing_words(node, self._grants.cost(node)) if node else ""
        return f"{operation.tpu} will not be deleted.{billed and f' {billed}.'}"


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
