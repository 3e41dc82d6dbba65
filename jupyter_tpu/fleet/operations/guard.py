"""Setting the guard of a TPU that has just been created."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import structs

from ...cloud import Cloud, NodeName
from ...cloud.polling import poll_intervals
from ...environment import StepPlan
from ...errors import Reason, TPUError
from ..models import Guard, SetGuard
from ..store.records import OperationRecord
from . import checks
from .progress import OperationProgress
from .runner import OperationRunner

#: What time may mend: a host that was just created needs a while.
_RETRIED = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.UNAVAILABLE, Reason.RATE_LIMITED)


class GuardService:
    """set_guard(ref, request): sets it on a host that can be reached."""

    def __init__(
        self,
        cloud: Cloud,
        runner: OperationRunner,
        set_guard: Callable[[str, SetGuard], Awaitable[Guard]],
    ) -> None:
        self._cloud = cloud
        self._runner = runner
        self._set_guard = set_guard

    def follow(self, name: NodeName, request: SetGuard, node_id: str) -> None:
        """Sets the guard of a TPU that was created to have one, as soon as its host answers."""
        record = self._runner.new_record("guard", name, guard=request, node_id=node_id)
        self._runner.save_soon(record)
        self.resume(record)

    def resume(self, record: OperationRecord) -> None:
        """Continues one that another process has left."""
        self._runner.resume(record, lambda progress: self._set(record, progress))

    async def _set(self, record: OperationRecord, progress: OperationProgress) -> None:
        name, request = record.name, record.guard
        assert request is not None
        # It was created with this guard, whatever its labels say of its owner.
        request = structs.replace(request, confirm_name=name.node)
        progress.plan([StepPlan("guard", "Set the guard", 1)])
        progress.begin("guard")
        for pause in poll_intervals():
            try:
                if other := checks.another_node(await self._cloud.get_node(name), record.node_id):
                    raise other
                guard = await self._set_guard(f"{name.zone}~{name.node}", request)
                break
            except TPUError as error:
                if error.reason not in _RETRIED:
                    raise
                progress.block(error)
            await asyncio.sleep(pause)
        progress.block(None)
        progress.done("guard")
        if guard.problem is not None:
            progress.log(f"The TPU can't stop or delete itself: {guard.problem.message}")
