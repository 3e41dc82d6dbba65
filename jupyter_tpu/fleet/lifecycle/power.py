"""Starting, stopping and deleting a TPU."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from ...backoff import POLLING
from ...clock import uptime
from ...cloud import Node, NodeName, NodeState, check_ours
from ...concurrency import gather_or_cancel
from ...errors import Reason, TPUError
from ...on_host.agent.protocol.requests import NoteClientStopRequest
from ...progress import StepPlan
from ..core import checks
from ..core.core import Core
from ..core.known_operations import CarryOut, Demand, OperationProgress, Work
from ..core.operation_records import Deletion, NodeClaim, OperationRecord, StateChange
from ..homes.before_end import SAVE_HOME_STEP, HomesBeforeEnd
from ..jobs.guard_stops import GuardStops
from ..kernels.kernels import shut_down_error
from ..models import DeleteTPU, GuardAction, GuardReason, Operation, StartTPU, StopTPU
from ..money.grants import Grants
from ..money.owners import TPUOwners
from ..sessions.before_end import SAVE_STEP, SessionsBeforeEnd
from .belongings import RunningWork
from .provisioner import NodeProvisioner
from .provisioning import EXPECTED_SECONDS, SETTLE_SECONDS
from .queued import QueuedOrigins, leftover_hint

log = logging.getLogger(__name__)

#: Answers after which it is not known whether a change was made.
_UNHEARD = (
    Reason.UNAVAILABLE,
    Reason.TIMEOUT,
    Reason.RATE_LIMITED,
    Reason.INTERNAL,
    Reason.CANCELLED,
)
#: States that pass without leading anywhere that is known.
_PASSING = (NodeState.HIDDEN, NodeState.UNKNOWN)
#: How long a connect may take to clean up before its TPU is deleted; seconds.
CANCEL_CONNECT = 15.0
_QUEUED = StepPlan("queued", "Delete its queued resource", 2)


class PowerService:
    def __init__(
        self,
        core: Core,
        work: RunningWork,
        grants: Grants,
        owners: TPUOwners,
        guard_stops: GuardStops,
        sessions: SessionsBeforeEnd,
        homes: HomesBeforeEnd,
    ) -> None:
        self.sessions = sessions
        self._homes = homes
        self._cloud = core.cloud
        self._observer = core.observer
        self._connections = core.connections
        self._connected = core.connected
        self._runner = core.runner
        self._runner.register_resume("start", self.resume_start, is_recent)
        self._runner.register_resume("stop", self.resume_stop)
        self._runner.register_resume("delete", self.resume_deletion)
        self._work = work
        self._grants = grants
        self._owners = owners
        self._origins = QueuedOrigins(core.cloud, owners)
        self._guard_stops = guard_stops

    async def start(self, name: NodeName, options: StartTPU) -> Operation:
        """Raises CONFLICT unless the TPU is stopped; NOT_YOURS and PRICE (unless it costs nothing)
        unless *options* allow that.
        """
        check_ours(name, "started")
        node = self._observer.observed.require(
            name, (NodeState.STOPPED, NodeState.STOPPING), "Only a stopped TPU can be started."
        )
        await self.require_start(node, options)
        change = StateChange(node_id=node.id)
        record = self._runner.new_record("start", name, change)

        async def save(record: OperationRecord) -> None:
            await self._grants.save(
                record,
                Demand(project=name.project, type=node.type, zone=name.zone, tier=node.tier),
                confirm_price=options.confirm_price,
                max_price=options.max_price,
                again=name,
            )

        return await self._runner.start_exclusive(
            record, lambda progress: self._start(record, change, progress), save=save
        )

    async def require_start(self, node: Node, options: StartTPU) -> None:
        """Raises NOT_YOURS and PRICE unless *options* allow to start the TPU again."""
        self._owners.require_consent(node, options.confirm_name)
        await self._grants.refresh()
        self._grants.decide(node.type, node.name.zone, node.tier, again=node.name).require(
            confirm_price=options.confirm_price, max_price=options.max_price
        )

    async def stop(self, name: NodeName, options: StopTPU) -> Operation:
        """Raises CONFLICT unless the TPU is READY; NOT_YOURS, KERNELS_RUNNING and JOBS_RUNNING
        unless *options* allow that.
        """
        node = self._require_stoppable(name)
        self._owners.require_consent(node, options.confirm_name)
        return await self._begin_stop(node, options)

    def _require_stoppable(self, name: NodeName) -> Node:
        check_ours(name, "stopped")
        return self._observer.observed.require(
            name, (NodeState.READY,), "Only a READY TPU can be stopped."
        )

    async def _begin_stop(
        self, node: Node, options: StopTPU, *, guard_reason: GuardReason | None = None
    ) -> Operation:
        await self._work.require_confirmation(
            node.name, "Stopping", end_kernels=options.end_kernels, end_jobs=options.end_jobs
        )
        sessions = self.sessions.plan(node.name, options.sessions, keeps_disk=True)
        change = StateChange(
            node_id=node.id,
            guard_reason=guard_reason,
            sessions=sessions,
            home=self._homes.plan(node.name, options.sessions),
        )
        record = self._runner.new_record("stop", node.name, change)
        return await self._runner.start_exclusive(
            record, lambda progress: self._stop(record, change, progress)
        )

    async def act_for_guard(
        self, name: NodeName, action: GuardAction, reason: GuardReason
    ) -> Operation:
        """Stops or deletes a TPU with all that runs there, as was chosen when its guard was set.

        Asked again while that runs, it answers with the same operation.
        """
        for record in self._runner.known.on(name):
            if record.operation.kind == action:
                return record.operation
        if action == "stop":
            ready = self._require_stoppable(name)
            await self._runner.cancel_connects(name, CANCEL_CONNECT)
            options = StopTPU(end_kernels=True, end_jobs=True)
            return await self._begin_stop(ready, options, guard_reason=reason)
        node = await self._require_deletable(name)
        return await self._begin_deletion(node, DeleteTPU(end_kernels=True, end_jobs=True))

    # Each of these continues one that another process has left.

    def resume_start(self, record: OperationRecord) -> None:
        change = record.of(StateChange)
        self._runner.resume(record, lambda progress: self._start(record, change, progress))

    def resume_stop(self, record: OperationRecord) -> None:
        change = record.of(StateChange)
        self._runner.resume(record, lambda progress: self._stop(record, change, progress))

    def resume_deletion(self, record: OperationRecord) -> None:
        self._runner.resume(record, *self._deletion(record, record.of(Deletion)))

    async def _start(
        self, record: OperationRecord, change: StateChange, progress: OperationProgress
    ) -> None:
        progress.plan([StepPlan("start", "Start the TPU", 1)])
        progress.begin("start")
        await self._change(
            record, change, self._cloud.begin_start, NodeState.STOPPED, NodeState.READY, progress
        )
        progress.done("start")

    async def _stop(
        self, record: OperationRecord, change: StateChange, progress: OperationProgress
    ) -> None:
        name = record.name
        progress.plan(
            [
                *_saves(change),
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("stop", "Stop the TPU", 9),
            ]
        )
        await self._save(name, change, progress)
        if (node := self._observer.observed.node(name)) is not None:
            self._guard_stops.stopping(node, change.guard_reason, time.time())
        why = shut_down_error(f"stop {name.node}", f"Start {name.node}. Then restart the kernel.")
        await self._work.shut_down_kernels(name, why, progress)
        if change.guard_reason is not None:
            await self._tell_guard(name, stops=True)
        self._connections.release(name)
        progress.begin("stop")
        try:
            await self._change(
                record, change, self._cloud.begin_stop, NodeState.READY, NodeState.STOPPED, progress
            )
        except TPUError:
            if change.guard_reason is not None:
                await self._tell_guard(name, stops=False)
            raise
        progress.done("stop")

    async def _save(
        self, name: NodeName, end: StateChange | Deletion, progress: OperationProgress
    ) -> None:
        """Kernels and home folders, at the same time: neither may take the minute of the other."""
        await gather_or_cancel(
            [
                self.sessions.save(name, end.sessions, progress),
                self._homes.save(name, end.home, progress),
            ]
        )

    async def _tell_guard(self, name: NodeName, *, stops: bool) -> None:
        """Tells the guard on host 0 that this operation stops the TPU in its place, or could not.

        A guard that does not hear it stops the TPU again after its next start.
        """
        try:
            await self._connections.request(name, NoteClientStopRequest(stops=stops))
        except TPUError as error:
            log.warning("The guard of %s was not told of its stop: %s", name.node, error)

    async def delete(
        self, name: NodeName, options: DeleteTPU, *, for_hunt: bool = False
    ) -> Operation:
        """Raises CONFLICT while it is being created; NOT_YOURS, KERNELS_RUNNING and JOBS_RUNNING
        unless *options* allow that.

        for_hunt: a hunt has waited for its preemption. Other deletions end such a hunt.
        """
        node = await self._require_deletable(name)
        self._owners.require_consent(node, options.confirm_name)
        return await self._begin_deletion(node, options, for_hunt=for_hunt)

    def require_consent(self, node: Node) -> None:
        """Raises NOT_YOURS for a TPU that is another person's, and so is not deleted unasked."""
        check_ours(node.name, "deleted")
        self._owners.require_consent(node, "")

    async def _require_deletable(self, name: NodeName) -> Node:
        check_ours(name, "deleted")
        for record in self._runner.known.running_on(name):
            if record.operation.kind == "create":
                raise TPUError(
                    f"{name.node} is still being created.",
                    Reason.CONFLICT,
                    "Cancel its creation: that deletes what was created.",
                )
        return self._observer.observed.node(name) or await self._cloud.get_node(name)

    async def _begin_deletion(
        self, node: Node, options: DeleteTPU, *, for_hunt: bool = False
    ) -> Operation:
        name = node.name
        await self._work.require_confirmation(
            name, "Deleting", end_kernels=options.end_kernels, end_jobs=options.end_jobs
        )
        deletion = Deletion(
            claim=NodeClaim(want="absent", since=time.time(), node_id=node.id),
            origin=await self._origins.of(node),
            for_hunt=for_hunt,
            sessions=self.sessions.plan(name, options.sessions, keeps_disk=False),
            home=self._homes.plan(name, options.sessions),
        )
        record = self._runner.new_record("delete", name, deletion)
        await self._runner.cancel_connects(name, CANCEL_CONNECT)
        return await self._runner.start_exclusive(record, *self._deletion(record, deletion))

    def _deletion(self, record: OperationRecord, deletion: Deletion) -> tuple[Work, CarryOut]:
        provisioner = NodeProvisioner(
            self._cloud, self._observer, self._grants, self._runner, record, deletion.claim
        )
        return (
            lambda progress: self._delete(record, deletion, provisioner, progress),
            provisioner.carry_out,
        )

    async def _delete(
        self,
        record: OperationRecord,
        deletion: Deletion,
        provisioner: NodeProvisioner,
        progress: OperationProgress,
    ) -> None:
        """Kernelspecs go after the TPU: if Google refuses to delete it, they are kept."""
        name, origin = record.name, deletion.origin
        leftover = origin if origin is not None and origin.created else None
        progress.plan(
            [
                *_saves(deletion),
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("delete", "Delete the TPU", 9),
                StepPlan("forget", "Remove its kernels from Jupyter", 1),
                *([_QUEUED] if leftover is not None else []),
            ]
        )
        await self._save(name, deletion, progress)
        why = shut_down_error(f"delete {name.node}", "Choose the kernel of another TPU.")
        await self._work.shut_down_kernels(name, why, progress)
        progress.begin("delete")
        self._observer.request_refresh()
        end = await provisioner.run(progress)
        if end.error is not None:
            raise end.error
        if not deletion.for_hunt:
            await self._end_hunts(name, deletion.claim.node_id, progress)
        progress.done("delete")
        progress.begin("forget")
        self._connected.forget(name)
        progress.done("forget")
        if leftover is not None:
            progress.begin(_QUEUED.key)
            await self._origins.delete(name, leftover, progress)
            progress.done(_QUEUED.key)
        elif origin is not None:
            progress.log(f"Its queued resource {origin.name} stays. {leftover_hint(origin)}")

    async def _end_hunts(self, name: NodeName, node_id: str, progress: OperationProgress) -> None:
        """What a user deletes is not hunted for again."""
        for hunt in self._runner.known.awaiting(node_id):
            try:
                await self._runner.cancel(hunt.operation.id, 0.0)
            except TPUError as error:
                progress.log(f"The hunt for {name.node} can't be ended: {error}")

    async def _change(
        self,
        record: OperationRecord,
        change: StateChange,
        begin: Callable[[NodeName], Awaitable[str]],
        before: NodeState,
        after: NodeState,
        progress: OperationProgress,
    ) -> None:
        """Asks Google for a change of state, and waits until the node is in the state *after*.

        The node's state decides. A call without an answer, an operation that Google has forgotten
        or a process that ended are followed by another look. What Google refuses fails; but where
        another change stands in the way, or the node is in a state that passes, it is asked again.
        A start that no one expects any longer fails, and so does what Google has done already
        without effect: someone else has undone it.
        """
        name, asked = record.name, uptime()
        self._observer.request_refresh()
        operation, resumed = change.accepted, bool(change.accepted)
        carried_out = refused = 0.0  # since when
        for pause in POLLING:
            try:
                if operation:
                    status = await self._cloud.operation(operation)
                    if status.done:
                        operation = change.accepted = ""
                        carried_out = 0.0 if status.error else uptime()
                    if status.error is not None:
                        raise _refusal(status.error, after)
                if not operation:
                    node = await self._cloud.get_node(name)
                    self._observer.upsert(node)
                    if other := checks.another_node(node, change.node_id):
                        raise _Refused(other)
                    if node.state is after:
                        break
                    if node.state is before and carried_out:
                        if uptime() - carried_out > SETTLE_SECONDS:
                            raise _Refused(_undone(node))
                    elif node.state is before:
                        if after is NodeState.READY and uptime() - asked > EXPECTED_SECONDS:
                            raise _Refused(_not_started(node))
                        operation = change.accepted = await self._begin(begin, name, after)
                        self._runner.save_soon(record)
                    elif not (node.state.changing or node.state in _PASSING):
                        state = f"The TPU {name.node} is {node.state}."
                        raise _Refused(TPUError(state, Reason.CONFLICT))
                refused = 0.0
                progress.block(None)
            except TPUError as error:
                if operation and error.reason is Reason.NOT_FOUND:  # forgotten
                    operation = change.accepted = ""
                    carried_out = uptime() if resumed else 0.0
                elif error.reason is Reason.NOT_FOUND:
                    raise
                else:
                    progress.block(error)
                    pause = max(pause, error.retry_after or 0.0)
            except _Busy as busy:
                refused = refused or uptime()
                if uptime() - refused > EXPECTED_SECONDS:
                    raise busy.error from None
                progress.block(busy.error)
            except _Refused as refusal:
                raise refusal.error from None
            await asyncio.sleep(pause)
        progress.log(f"{name.node} is {after}")

    @staticmethod
    async def _begin(
        begin: Callable[[NodeName], Awaitable[str]], name: NodeName, after: NodeState
    ) -> str:
        try:
            return await begin(name)
        except TPUError as error:
            if error.reason in _UNHEARD:
                raise  # it may have been heard; the node's state will tell
            raise _refusal(error, after) from error


def _saves(end: StateChange | Deletion) -> list[StepPlan]:
    """The steps that save something before it."""
    return [
        *([SAVE_STEP] if end.sessions is not None else []),
        *([SAVE_HOME_STEP] if end.home is not None else []),
    ]


def _refusal(error: TPUError, after: NodeState) -> _Busy | _Refused:
    """What an *error* of a change means: what stands in its way may pass."""
    # A TPU that is not stopped costs money: that is tried for longer.
    passing = (Reason.CONFLICT, *(_UNHEARD if after is NodeState.STOPPED else ()))
    return _Busy(error) if error.reason in passing else _Refused(error)


def _not_started(node: Node) -> TPUError:
    return TPUError(
        f"{node.name.node} was not started within {EXPECTED_SECONDS / 60:.0f} minutes. "
        f"It is {node.state}.",
        Reason.INTERRUPTED,
        "Start it again.",
    )


def _undone(node: Node) -> TPUError:
    stopped = node.state is NodeState.READY
    return TPUError(
        f"Google has {'stopped' if stopped else 'started'} {node.name.node}, and it is "
        f"{node.state} again.",
        Reason.CONFLICT,
        "Another person or program may have changed it.",
    )


class _Final(Exception):
    """Google's word on a change, not only on a question about it."""

    def __init__(self, error: TPUError) -> None:
        super().__init__(str(error))
        self.error = error


class _Busy(_Final):
    """Not now."""


class _Refused(_Final):
    """Not at all."""


def is_recent(record: OperationRecord) -> bool:
    """Whether it may still be meant: it was asked for a short while ago."""
    created = datetime.fromisoformat(record.operation.created)
    return (datetime.now(UTC) - created).total_seconds() <= EXPECTED_SECONDS
