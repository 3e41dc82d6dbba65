"""Queued resources by a claim: until Google has accepted them, or until their TPU is READY."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...cloud import Cloud, NodeSpec, NodeState, QueuedSpec, QueuedState, QueuedTPUs
from ...errors import Reason, TPUError
from ..core.observer import Observer
from ..core.operation_runner import OperationRunner
from ..core.records import OperationRecord
from ..models import Problem
from ..money.grants import Grants
from .provisioner import NodeProvisioner, Provisioner
from .provisioning import LABEL, ObservedNode

#: Where its TPUs exist, or may.
WITH_TPUS = (QueuedState.PROVISIONING, QueuedState.ACTIVE, QueuedState.SUSPENDING)
#: Where it waits, and has none.
_WAITING = (QueuedState.ACCEPTED, QueuedState.WAITING_FOR_RESOURCES)
#: Google's reasons that are about what was asked for. The others are about calls.
_LIMITS = (Reason.NO_CAPACITY, Reason.QUOTA, Reason.PERMISSION, Reason.INVALID)
_THING = "queued resource"


def failure(queued: QueuedTPUs, hint: str = "") -> Problem | None:
    """Why it failed, in Google's words; None for one that has not."""
    if queued.state != QueuedState.FAILED:
        return None
    error = queued.error or TPUError("Google gave no reason.", Reason.CONFLICT)
    problem = Problem.of(error)
    problem.hint = hint or problem.hint
    if problem.reason not in _LIMITS:
        problem.reason = Reason.CONFLICT
    return problem


class QueuedProvisioner(Provisioner[QueuedSpec]):
    """Creates or deletes a queued resource."""

    def __init__(
        self,
        cloud: Cloud,
        runner: OperationRunner,
        record: OperationRecord,
        spec: Callable[[], Awaitable[QueuedSpec]] | None,
    ) -> None:
        super().__init__(cloud, runner, record, spec, "Ask Google for the TPUs", _THING)

    async def _begin_create(self, spec: QueuedSpec) -> str:
        return await self._cloud.begin_queue(self._name, spec)

    async def _begin_delete(self) -> str:
        # It may have got TPUs since it was to be deleted. No one wants them, and they cost money.
        return await self._cloud.begin_delete_queued(self._name, force=True)

    async def _describe(self) -> ObservedNode:
        queued = await self._cloud.get_queued(self._name)
        state = NodeState.READY  # once Google has accepted it
        if queued.state in (QueuedState.CREATING, QueuedState.DELETING, QueuedState.FAILED):
            state = NodeState(queued.state)
        return _seen(queued, state)


class QueuedNodeProvisioner(NodeProvisioner):
    """Creates a TPU as a queued resource of its name, and waits until it is READY. What has no
    room by `claim.withdraw_at` is deleted again; what has is kept.
    """

    def __init__(
        self,
        cloud: Cloud,
        observer: Observer,
        grants: Grants,
        runner: OperationRunner,
        record: OperationRecord,
        spec: Callable[[], Awaitable[NodeSpec]],
        message: str,
    ) -> None:
        super().__init__(cloud, observer, grants, runner, record, spec, message, _THING)
        self._tpu: ObservedNode | None = None

    @property
    def node_id(self) -> str:
        return self._tpu.id if self._tpu is not None else ""

    async def _begin_create(self, spec: NodeSpec) -> str:
        queue = self._record.queue
        assert queue is not None
        queued = QueuedSpec(
            node=spec,
            node_id=self._name.node,
            valid_until=queue.valid_until,
            run_for=queue.tpu.run_for or 0.0,
        )
        return await self._cloud.begin_queue(self._name, queued)

    async def _begin_delete(self) -> str:
        force = not self._provisioning.claim.withdrawing
        return await self._cloud.begin_delete_queued(self._name, force=force)

    async def _describe(self) -> ObservedNode:
        queued = await self._cloud.get_queued(self._name)
        self._tpu = await self._see_tpu() if queued.state in WITH_TPUS else None
        match queued.state:
            case QueuedState.ACTIVE:
                state = self._tpu.state if self._tpu is not None else NodeState.UNKNOWN
            case QueuedState.FAILED | QueuedState.DELETING:
                state = NodeState(queued.state)
            case QueuedState.SUSPENDING | QueuedState.SUSPENDED:
                state = NodeState.PREEMPTED
            case _:
                state = NodeState.CREATING
        return _seen(queued, state)

    async def _see_tpu(self) -> ObservedNode | None:
        try:
            return await super()._describe()
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
            self._on_missing()
            return None


def _seen(queued: QueuedTPUs, state: NodeState) -> ObservedNode:
    return ObservedNode(
        id=queued.id or queued.created,
        state=state,
        label=queued.labels.get(LABEL, ""),
        waiting=queued.state in _WAITING,
        problem=failure(queued),
        unfinished=queued.unfinished,
    )
