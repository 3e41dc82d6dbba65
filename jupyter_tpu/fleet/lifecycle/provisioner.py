"""Asks Google what :class:`Provisioning` wants to know, until a node is there or gone.

Queued resources are asked for in the same way: until Google has accepted them, or until their TPU
is READY.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ...clock import Clock
from ...cloud import Cloud, NodeSpec, NodeState, QueuedSpec, QueuedState, QueuedTPUs
from ...cloud.errors import never_sent
from ...errors import Reason, TPUError
from ...own_log import happened
from ..core.known_operations import OperationProgress
from ..core.observer import Observer
from ..core.operation_records import NodeClaim, OperationRecord, OperationRequest
from ..core.operation_runner import OperationRunner
from ..models import Problem, QueueTPU
from ..models.money import billing_words
from ..money.grants import Grants
from .provisioning import LABEL, NextCall, ObservedNode, Provisioning, ProvisioningResult

log = logging.getLogger(__name__)

Spec = TypeVar("Spec")

#: From how long a pause on it is said when the next try is; seconds.
SHOWN_PAUSE = 5.0


class Provisioner(ABC, Generic[Spec]):
    """Carries out a claim, as often as processes end in between.

    Parameters
    ----------
    record: of the operation whose *claim* it is; it runs in this process.
    spec: makes what is created; None for a deletion.
    message: what is said while nothing else is to be said.
    thing: what it makes or deletes, in sentences.
    """

    def __init__(
        self,
        cloud: Cloud,
        runner: OperationRunner,
        record: OperationRecord,
        claim: NodeClaim,
        spec: Callable[[], Awaitable[Spec]] | None,
        message: str,
        thing: str = "TPU",
    ) -> None:
        self._cloud = cloud
        self._runner = runner
        self._record = record
        self._spec = spec
        self._message = message
        self._thing = thing
        self._name = record.name
        self._provisioning = Provisioning(claim, record.name.node, thing)
        self._clock = Clock()
        self._provisioning.claim.take_over(self._now())
        self._asked = asyncio.Event()

    @abstractmethod
    async def _begin_create(self, spec: Spec) -> str: ...

    @abstractmethod
    async def _begin_delete(self) -> str: ...

    @abstractmethod
    async def _describe(self) -> ObservedNode:
        """It, as Google describes it now; raises NOT_FOUND."""

    def _on_missing(self) -> None:  # most need not know
        """It is not there."""

    def _billed(self) -> str:
        """What it costs while it is there, in words; "" for nothing."""
        return ""

    @property
    def node_id(self) -> str:
        """Google's id of the TPU that was made; "" while it is not known."""
        return self._provisioning.claim.node_id

    def carry_out(self, request: OperationRequest) -> None:
        """Cancel: the node is to be absent. :meth:`run` continues until it is, and so does the next
        process if this one ends. Stop trying: a node that Google refuses to delete stays.
        """
        if request == "cancel":
            self._provisioning.cancel()
        else:
            self._provisioning.give_up()
        self._asked.set()
        self._runner.save_soon(self._record)

    async def run(self, progress: OperationProgress) -> ProvisioningResult:
        """Ends when it is known how it ended, however long Google does not say."""
        provisioning = self._provisioning
        while True:
            step = provisioning.next(self._now())
            if isinstance(step, ProvisioningResult):
                progress.operation.undeleted = "kept" if step.how == "kept" else ""
                return step
            if step is not NextCall.DELETE and await self._pause(provisioning.pause):
                continue  # something else is wanted now: there may be something else to ask
            before = _outline(provisioning.claim)
            await self._ask(step)
            self._note(step, before)
            self._report(progress)
            self._runner.save_soon(self._record)

    def _note(self, step: NextCall, before: str) -> None:
        """For the log, if the claim is another one than *before*."""
        if (after := _outline(self._provisioning.claim)) != before:
            happened(
                f"Claim, after asking Google ({step.value}): {before} → {after}",
                tpu=self._name.node,
                operation=self._record.operation.id,
                costs=step in (NextCall.CREATE, NextCall.DELETE),
            )

    def _report(self, progress: OperationProgress) -> None:
        claim, problem = self._provisioning.claim, self._provisioning.problem
        trying = self._provisioning.refused and not claim.given_up
        progress.operation.undeleted = "retrying" if trying else ""
        # What Google refused to create has left nothing, unless it is seen.
        unwanted = claim.want == "absent" or bool(claim.failure is not None and claim.node_id)
        if problem is not None:
            undeleted = claim.node_id and unwanted and not claim.given_up
            pause = self._provisioning.pause
            problem = TPUError(
                f"{self._undeleted()} {problem.message}" if undeleted else problem.message,
                problem.reason,
                problem.hint,
                retry_after=round(pause) if pause >= SHOWN_PAUSE else None,
                scope=problem.scope,
            )
        progress.block(problem)
        if claim.given_up:
            message = f"Checking that the {self._thing} is not deleted"
        elif unwanted:
            message = f"Deleting the {self._thing}"
        elif claim.in_doubt:
            message = (
                f"Google has not confirmed the creation. Checking whether there is a {self._thing}"
            )
        else:
            message = self._message
        if message != progress.operation.message:
            progress.set_message(message)

    def _undeleted(self) -> str:
        billed = self._billed()
        return (
            f"{self._name.node} is not deleted yet. {billed and f'{billed} until then. '}"
            "The deletion will be retried."
        )

    def _now(self) -> float:
        """The time; the claim's own times follow a clock that is set."""
        now, moved = self._clock.now()
        if moved:
            self._provisioning.clock_set(moved)
        return now

    async def _pause(self, seconds: float) -> bool:
        """Waits; True when it was cut short by a request."""
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    async def _ask(self, step: NextCall) -> None:
        match step:
            case NextCall.CREATE:
                await self._create()
            case NextCall.DELETE:
                await self._delete()
            case NextCall.NODE:
                await self._look()
            case NextCall.CREATING:
                await self._follow(self._provisioning.claim.creating)
            case NextCall.DELETING:
                await self._follow(self._provisioning.claim.deleting)

    async def _create(self) -> None:
        provisioning = self._provisioning
        assert self._spec is not None
        try:
            spec = await self._spec()
        except TPUError as error:
            provisioning.create_failed(error, self._now(), sent=False)
            return
        if provisioning.next(self._now()) is not NextCall.CREATE:
            return  # it was cancelled meanwhile, or this computer slept for hours
        provisioning.sending(self._now())
        try:
            await self._runner.save(self._record)
        except TPUError as error:  # the disk is full: Google is asked when it is not
            provisioning.not_sent(error)
            return
        if provisioning.is_too_late(self._now()):
            provisioning.not_sent()
            return
        try:
            provisioning.create_accepted(await self._begin_create(spec))
        except TPUError as error:
            provisioning.create_failed(error, self._now(), sent=not never_sent(error))

    async def _delete(self) -> None:
        provisioning = self._provisioning
        provisioning.sending_delete(self._now())
        try:
            await self._runner.save(self._record)
        except TPUError as error:  # what costs money is deleted all the same
            log.warning("The deletion of %s can't be saved now: %s", self._name.node, error)
        try:
            provisioning.delete_accepted(await self._begin_delete())
        except TPUError as error:
            provisioning.delete_failed(error, self._now(), sent=not never_sent(error))

    async def _look(self) -> None:
        try:
            seen = await self._describe()
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                self._provisioning.unanswered(error)
                return
            self._provisioning.node_missing()
            self._on_missing()
        else:
            self._provisioning.node_seen(seen)

    async def _follow(self, operation: str) -> None:
        provisioning = self._provisioning
        try:
            status = await self._cloud.operation(operation)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                provisioning.operation_forgotten()
            else:
                provisioning.unanswered(error)
            return
        if not status.done:
            provisioning.operation_runs(waiting=status.waiting)
        elif operation == provisioning.claim.creating:
            provisioning.create_ended(status.error)
        else:
            provisioning.delete_ended(status.error)


def _outline(claim: NodeClaim) -> str:
    """How far it is, in words."""
    states = {
        "in doubt": claim.in_doubt,
        "being created": claim.creating,
        "seen": claim.node_id,
        "being deleted": claim.deleting,
        "withdrawn": claim.withdrawing,
        "given up": claim.given_up,
        f"failed: {claim.failure.message if claim.failure else ''}": claim.failure,
        f"refused: {claim.refusal.message if claim.refusal else ''}": claim.refusal,
    }
    words = [word for word, holds in states.items() if holds]
    return f"{claim.want} ({', '.join(words) or ('sent' if claim.sent else 'not sent')})"


class NodeProvisioner(Provisioner[NodeSpec]):
    """Creates or deletes a TPU."""

    def __init__(
        self,
        cloud: Cloud,
        observer: Observer,
        grants: Grants,
        runner: OperationRunner,
        record: OperationRecord,
        claim: NodeClaim,
        spec: Callable[[], Awaitable[NodeSpec]] | None = None,
        message: str = "Create the TPU",
        thing: str = "TPU",
    ) -> None:
        super().__init__(cloud, runner, record, claim, spec, message, thing)
        self._observer = observer
        self._grants = grants

    async def _begin_create(self, spec: NodeSpec) -> str:
        return await self._cloud.begin_create(self._name, spec)

    async def _begin_delete(self) -> str:
        return await self._cloud.begin_delete(self._name)

    async def _describe(self) -> ObservedNode:
        node = await self._cloud.get_node(self._name)
        if node.unfinished:  # nothing is there that could be used, or that lists would have
            self._observer.remove(self._name)
        else:
            self._observer.upsert(node)
        return ObservedNode(
            id=node.id,
            state=node.state,
            label=node.labels.get(LABEL, ""),
            waiting=node.waiting,
            problem=Problem.of(node.problem) if node.problem is not None else None,
            unfinished=node.unfinished,
        )

    def _on_missing(self) -> None:
        self._observer.remove(self._name)

    def _billed(self) -> str:
        node = self._observer.observed.node(self._name)
        return billing_words(node, self._grants.cost(node)) if node else ""


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
        claim: NodeClaim,
        spec: Callable[[], Awaitable[QueuedSpec]] | None,
    ) -> None:
        super().__init__(cloud, runner, record, claim, spec, "Ask Google for the TPUs", _THING)

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
    capacity by `claim.withdraw_at` is deleted again; what has is kept.
    """

    def __init__(
        self,
        cloud: Cloud,
        observer: Observer,
        grants: Grants,
        runner: OperationRunner,
        record: OperationRecord,
        claim: NodeClaim,
        spec: Callable[[], Awaitable[NodeSpec]],
        message: str,
        *,
        queue: QueueTPU,
    ) -> None:
        super().__init__(cloud, observer, grants, runner, record, claim, spec, message, _THING)
        self._queue = queue
        self._tpu: ObservedNode | None = None

    @property
    def node_id(self) -> str:
        return self._tpu.id if self._tpu is not None else ""

    async def _begin_create(self, spec: NodeSpec) -> str:
        queued = QueuedSpec(
            node=spec,
            node_id=self._name.node,
            valid_until=self._queue.valid_until,
            run_for=self._queue.tpu.run_for or 0.0,
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
