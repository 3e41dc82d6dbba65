"""Setting the guard of a TPU that was created to have one, however long that takes.

It is tried for as long as the TPU exists, and shown on the TPU until it is set. Where one of its
limits has passed and the host can't be reached, this process acts in the host's place.
"""

from __future__ import annotations

import asyncio

from msgspec import structs

from ...backoff import POLLING, Backoff
from ...cloud import Node, NodeName, NodeState
from ...errors import InvalidInput, Reason, TPUError
from ...progress import StepPlan
from ..core import checks
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import GuardSetting, OperationRecord
from ..models import Guard, GuardReason, Problem, SetGuard
from .guard import Guards

#: Between two attempts.
PAUSES = Backoff(POLLING.first, 30.0, POLLING.factor)


class GuardService:
    """The :class:`~.guard.AwaitedGuards` of *guards*."""

    def __init__(self, core: Core, guards: Guards) -> None:
        self._cloud = core.cloud
        self._observed = core.observed
        self._runner = core.runner
        self._runner.register_resume("guard", self.resume)
        self._guards = guards
        guards.awaited = self

    def follow(self, name: NodeName, request: SetGuard, node_id: str) -> None:
        """Sets the guard of a TPU that was created to have one, as soon as its host answers."""
        content = GuardSetting(request=request, node_id=node_id)
        record = self._runner.new_record("guard", name, content)
        self._runner.save_soon(record)
        self.resume(record)

    def resume(self, record: OperationRecord) -> None:
        """Continues one that another process has left."""
        setting = record.of(GuardSetting)
        self._runner.resume(record, lambda progress: self._work(record, setting, progress))

    async def supersede(self, name: NodeName) -> None:
        """Another guard was chosen for the TPU, or none."""
        for record in self._runner.known.on(name):
            sets = record.operation.kind == "guard"
            abandoned = (sets or _asks(record)) and self._runner.is_abandoned(record)
            mine = await self._runner.take_over(record) if abandoned else None
            if sets:
                if mine is not None:
                    self.resume(mine)
                await self._runner.cancel(record.operation.id)
            elif mine is not None and mine.creation is not None:
                mine.creation.request = structs.replace(mine.creation.request, guard=None)
                await self._runner.save(mine)

    def problem(self, name: NodeName) -> Problem | None:
        """Why the guard that a TPU was created with is not set yet; None if none is to be set."""
        for record in self._runner.known.on(name):
            sets = record.operation.kind == "guard"
            if not (sets or _asks(record)):
                continue
            if self._runner.is_abandoned(record):
                return Problem(
                    message=f"{name.node} has no guard yet. The command that should set it has "
                    "ended.",
                    reason=Reason.INTERRUPTED,
                    hint="The next Jupyter server sets it. To set it now: "
                    f"jupyter tpu guard set {name.node}",
                )
            if sets:
                elsewhere = record.operation.id in self._runner.known.elsewhere
                unknown = Problem.of(_not_set(name)) if elsewhere else None
                return record.operation.problem or unknown
        return None

    async def _work(
        self, record: OperationRecord, setting: GuardSetting, progress: OperationProgress
    ) -> None:
        progress.plan([StepPlan("guard", "Set the guard", 1)])
        progress.begin("guard")
        for pause in PAUSES:
            try:
                if await self._try(record, setting, progress):
                    break
                progress.block(None)
            except TPUError as error:
                progress.block(_not_set(record.name, error))
                pause = max(pause, error.retry_after or 0.0)
            await asyncio.sleep(pause)
        progress.block(None)
        progress.done("guard")

    async def _try(
        self, record: OperationRecord, setting: GuardSetting, progress: OperationProgress
    ) -> bool:
        """Whether there is nothing left to do. Raises why it can't be set now."""
        name, request = record.name, setting.request
        node = await self._node(name, setting.node_id)
        if node is None or node.state.gone:
            progress.log(f"{name.node} is gone: it needs no guard")
            return True
        if node.state in (NodeState.STOPPED, NodeState.STOPPING):
            return False  # it costs nothing until it is started again
        try:
            guard = await self._set(name, request)
        except TPUError:
            if not (reason := self._guards.overdue(name, request)):
                raise
            return await self._enforce(record, setting, reason, progress)
        if guard.problem is not None:
            progress.log(f"The TPU can't stop or delete itself: {guard.problem.message}")
        return True

    async def _set(self, name: NodeName, request: SetGuard) -> Guard:
        try:
            return await self._guards.set_at_creation(name, request)
        except InvalidInput as error:
            if error.field == "max_cost" and (request.idle is not None or request.until):
                # Its price is not known, or it costs nothing now: the other limits count already.
                await self._guards.set_at_creation(name, structs.replace(request, max_cost=None))
            raise

    async def _enforce(
        self,
        record: OperationRecord,
        setting: GuardSetting,
        reason: GuardReason,
        progress: OperationProgress,
    ) -> bool:
        """A limit has passed, and the host can't act. Whether there is nothing left to do."""
        name, request = record.name, setting.request
        progress.log(f"A limit of the guard of {name.node} has passed")
        ended = await self._runner.wait((await self._guards.act(name, request.action, reason)).id)
        if ended.problem is not None:
            raise ended.problem.to_error()
        if request.idle is None:
            return True
        # Who starts it again has not chosen to have it stopped at once.
        setting.request = structs.replace(request, until="", max_cost=None)
        self._runner.save_soon(record)
        return False

    async def _node(self, name: NodeName, id: str) -> Node | None:
        """The TPU that is meant; None if it does not exist any more."""
        node = self._observed.node(name)
        if node is None or checks.another_node(node, id):
            try:
                node = await self._cloud.get_node(name)
            except TPUError as error:
                if error.reason is Reason.NOT_FOUND:
                    return None
                raise
        return None if checks.another_node(node, id) else node


def _asks(record: OperationRecord) -> bool:
    """Whether it creates a TPU that is to have a guard."""
    return record.creation is not None and record.creation.request.guard is not None


def _not_set(name: NodeName, why: TPUError | None = None) -> TPUError:
    """That its guard is not set yet, and *why*."""
    return TPUError(
        f"The guard of {name.node} is not set yet{f': {why.message}' if why else '.'}",
        why.reason if why else Reason.CONFLICT,
        f"{why.hint if why else ''} Will be retried.".strip(),
        retry_after=why.retry_after if why else None,
        scope=why.scope if why else "",
    )
