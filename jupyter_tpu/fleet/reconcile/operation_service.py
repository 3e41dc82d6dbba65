"""Operations of the fleet, as their users see them: those of all processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ...cloud import Cloud, NodeName
from ...errors import Reason, TPUError
from ..core.observed import ObservedState
from ..core.operation_runner import OperationRunner
from ..models import Operation, StopTrying
from ..models.costs import billing_words
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
