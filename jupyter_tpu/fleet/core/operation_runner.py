"""Runs operations: starts, saves and cancels them, and finishes each in one place."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from ...cloud import NodeName
from ...concurrency import cancel_all
from ...errors import Reason, TPUError
from ...subscribers import Subscribers
from ..models import Operation, Problem
from ..models.core import timestamp
from ..models.operation_kinds import KINDS
from .database import KEEP_AT_MOST
from .known_operations import (
    CarryOut,
    KnownOperations,
    OperationCancelled,
    OperationLease,
    OperationProgress,
    OperationStore,
    RunningOperation,
    Save,
    Work,
    cancelled,
    note_transition,
)
from .operation_records import OperationContent, OperationRecord, OperationRequest

log = logging.getLogger(__name__)

Resume = Callable[[OperationRecord], None]
Can = Callable[[OperationRecord], bool]


class ChangedOperation(NamedTuple):
    id: str
    tpu: NodeName | None  # None: it was forgotten


class OperationRunner:
    """All operations of one cloud identity. On the core thread's loop.

    keep: so many of the ended ones are remembered.
    """

    def __init__(
        self,
        store: OperationStore,
        lease: OperationLease,
        *,
        keep: int = KEEP_AT_MOST,
    ) -> None:
        self._store = store
        self._lease = lease
        self._keep = keep
        self._resumes: dict[str, Resume] = {}
        #: Called whenever one changes or is forgotten, and after one has ended.
        self.changed = Subscribers[ChangedOperation]()
        self.ended = Subscribers[NodeName]()
        self.known = KnownOperations()
        self._requests: dict[str, OperationRequest] = {}  # of users, by operation; as stored
        self.closing = False

    # ---- running ----

    async def start(
        self,
        record: OperationRecord,
        work: Work,
        carry_out: CarryOut | None = None,
        save: Save | None = None,
    ) -> Operation:
        """Runs *work* when *record*, a new one (see :meth:`new_record`), is on disk. Raises
        TPUError where it can't be saved: then nothing has changed.

        carry_out: tells *work* what is asked of it; after "cancel" it raises OperationCancelled, in
            its own time. None: its task is cancelled.
        save: puts it on disk; raises TPUError to refuse it. None: :meth:`save`.
        """
        running = self._begin(record, work, carry_out, save or self.save)
        await running.accepted.wait()
        if running.refused is not None:
            raise running.refused
        return record.operation

    def resume(
        self, record: OperationRecord, work: Work, carry_out: CarryOut | None = None
    ) -> Operation:
        """As :meth:`start`, of a record that is stored: this process has taken it over, or another
        operation's record asks for it.
        """
        return self._begin(record, work, carry_out).record.operation

    async def start_exclusive(
        self,
        record: OperationRecord,
        work: Work,
        carry_out: CarryOut | None = None,
        save: Save | None = None,
    ) -> Operation:
        """As :meth:`start`, of the only one on its TPU; a connect that a dead process left is not
        resumed.

        Raises CONFLICT where another one runs.
        """
        self.known.require_idle(record.name, record.operation.kind)
        self.drop_resumable(record.name)
        return await self.start(record, work, carry_out, save)

    def _begin(
        self,
        record: OperationRecord,
        work: Work,
        carry_out: CarryOut | None,
        save: Save | None = None,
    ) -> RunningOperation:
        """save: of a new one."""
        operation = record.operation
        running = RunningOperation(record)
        running.carry_out = carry_out
        self.known.running[operation.id] = running  # from now on the TPU is not idle
        self.known.others.pop(operation.id, None)
        note_transition(record, "begins" if save is not None else "is carried out by this process")
        running.task = asyncio.create_task(
            self._run(running, work, save), name=f"tpu-{operation.kind}"
        )
        running.task.add_done_callback(lambda task: self._finish(running, task))
        if save is None:
            self._carry_out_requests()
        return running

    def new_record(
        self, kind: Any, name: NodeName, content: OperationContent | None = None
    ) -> OperationRecord:
        """A record of this process that nothing runs and no one knows yet."""
        operation = Operation(
            id=uuid.uuid4().hex[:12],
            kind=kind,
            tpu=name.node,
            zone=name.zone,
            created=timestamp(),
            cancellable=KINDS[kind].cancellable,
        )
        return OperationRecord(
            operation=operation, project=name.project, owner=self._lease.id, content=content
        )

    async def cancel(self, id: str, patience: float = 2.0) -> Operation:
        """Asks an operation to end and clean up; waits *patience* seconds for it if it runs here.

        Raises CONFLICT for one that can't be cancelled.
        """
        self._cancel_resumable(id)
        operation = self.known.get(id)
        if operation.state == "running" and not operation.cancellable:
            now = KINDS[operation.kind].present.format(operation.tpu)
            raise TPUError(
                f"{now}. This can't be cancelled.", Reason.CONFLICT, "You can stop waiting."
            )
        return await self._request(operation, "cancel", patience)

    async def stop_trying(self, id: str, patience: float = 2.0) -> Operation:
        """As :meth:`cancel`, for a TPU that Google refuses to delete: it stays.

        Raises CONFLICT where Google does not refuse it.
        """
        operation = self.known.get(id)
        if operation.state == "running" and operation.undeleted != "retrying":
            raise TPUError(
                "Google is not refusing to delete this TPU.",
                Reason.CONFLICT,
                "Wait until the operation ends.",
            )
        return await self._request(operation, "stop-trying", patience)

    async def _request(
        self, operation: Operation, request: OperationRequest, patience: float
    ) -> Operation:
        """Has it carried out: here at once, by another process when that has read it. If the
        process ends before, the next one does it. Raises TPUError where it can't be passed on.
        """
        if operation.state != "running":
            return operation
        self._requests[operation.id] = request
        self._store.save_request(operation.id, request)
        running = self.known.running.get(operation.id)
        if running is not None:
            self._carry_out(running, request)
        try:
            await self._store.flush()
        except TPUError as error:
            if running is None:
                self._requests.pop(operation.id, None)
                self._store.drop_request(operation.id)
                raise
            operation.log.append(f"{error} This continues, but only while this process runs.")
        if running is not None and running.task is not None:
            await asyncio.wait([running.task], timeout=patience)
        return operation

    def _carry_out(self, running: RunningOperation, request: OperationRequest) -> None:
        if request in running.requests:
            return
        note_transition(running.record, f"is asked to {request.replace('-', ' ')}")
        running.requests.add(request)
        if running.carry_out is not None:
            running.carry_out(request)
        elif running.task is not None:
            running.task.cancel()
        if request == "cancel":
            running.record.operation.message = "Cancelling"
        self._changed(running.record.operation.id, running.name)

    def _carry_out_requests(self) -> None:
        """What is asked of the operations that run here, by whichever process."""
        for id, request in self._requests.items():
            if (running := self.known.running.get(id)) is not None:
                self._carry_out(running, request)
            elif request == "cancel":
                self._cancel_resumable(id)

    def _cancel_resumable(self, id: str) -> None:
        for name, record in list(self.known.resumable.items()):
            if record.operation.id == id:
                del self.known.resumable[name]
                self._mark_ended(record, "cancelled", cancelled())

    async def cancel_connects(self, name: NodeName, patience: float) -> None:
        """Cancels what installs something on a TPU, and what begins when that has ended; waits
        *patience* seconds for each.
        """
        cancelled: list[str] = []
        while ids := [id for id in self._installing(name) if id not in cancelled]:
            for id in ids:
                await self.cancel(id, patience)
            cancelled += ids

    def _installing(self, name: NodeName) -> list[str]:
        return [
            record.operation.id
            for record in self.known.running_on(name)
            if record.operation.kind in ("connect", "environment", "ray")
        ]

    async def _run(self, running: RunningOperation, work: Work, save: Save | None) -> None:
        operation = running.record.operation
        if save is not None and not await self._is_accepted(running, save):
            return
        running.accepted.set()
        self._changed(operation.id, running.name)
        progress = OperationProgress(operation, lambda: self._progressed(running))
        try:
            await work(progress)
        finally:
            progress.fail()  # only a step that still runs

    async def _is_accepted(self, running: RunningOperation, save: Save) -> bool:
        """Returns when it is on disk; False where that is not possible, and so it is refused."""
        operation = running.record.operation
        try:
            await save(running.record)
        except TPUError as error:
            if KINDS[operation.kind].needs_record:
                self._store.drop_operation(operation.id)  # it may have been written all the same
                running.refused = error
                note_transition(running.record, "is refused", error)
                return False
            operation.log.append(f"{error} This continues, but only while this process runs.")
        return True

    def _progressed(self, running: RunningOperation) -> None:
        """Saves it at each step; log lines between are not saved one by one."""
        operation = running.record.operation
        if running.has_new_states():
            self._store.save_operation(running.record)
        self._changed(operation.id, running.name)

    def _finish(self, running: RunningOperation, task: asyncio.Task[None]) -> None:
        operation = running.record.operation
        del self.known.running[operation.id]
        running.accepted.set()
        if running.refused is not None:
            self._changed(operation.id, running.name)
            return
        if self.closing:
            return  # it stays "running" in the file: the next process sees that this one ended
        if task.cancelled() or isinstance(task.exception(), OperationCancelled):
            self._mark_ended(running.record, "cancelled", cancelled())
        elif (error := task.exception()) is None:
            operation.progress = 1.0
            self._mark_ended(running.record, "done", None)
        else:
            self._mark_ended(running.record, "failed", self._explain(operation, error))
        self._forget_oldest()
        for ended in self.ended:
            ended(running.name)

    def save_soon(self, record: OperationRecord) -> None:
        """Saves a record of this process, now or when that is possible again."""
        self._store.save_operation(record)

    async def save(self, record: OperationRecord) -> None:
        """Returns when it is on disk. Raises TPUError where that is not possible now; it is saved
        later then.
        """
        self._store.save_operation(record)
        await self._store.flush()

    def _changed(self, id: str, name: NodeName | None) -> None:
        for changed in self.changed:
            changed(ChangedOperation(id, name))

    def _forget_oldest(self) -> None:
        for id in self.known.forget_oldest(self._keep):
            self._changed(id, None)

    @staticmethod
    def _explain(operation: Operation, error: BaseException) -> Problem:
        if isinstance(error, TPUError):
            return Problem.of(error)
        log.error("The operation %s failed", operation.kind, exc_info=error)
        return Problem(
            message=f"Internal error in jupyter-tpu: {type(error).__name__}: {error}",
            reason=Reason.INTERNAL,
            hint="The server's log has the details.",
        )

    # ---- from one process to the next ----

    def load(
        self, records: Iterable[OperationRecord], requests: Mapping[str, OperationRequest]
    ) -> None:
        """Takes over what is stored of other processes' operations, and what they ask of ours."""
        self.known.elsewhere.clear()
        for record in records:
            operation = record.operation
            if operation.id in self.known.running or self.known.is_resumable(record):
                continue
            if operation.state == "running":
                self.known.elsewhere[operation.id] = record
            if self.known.others.get(operation.id) != operation:
                self.known.others[operation.id] = operation
                self._changed(operation.id, record.name)
        self._forget_oldest()
        self._requests = dict(requests)
        self._carry_out_requests()

    def abandoned(self) -> list[OperationRecord]:
        """Running operations whose processes have ended."""
        return [record for record in self.known.elsewhere.values() if self.is_abandoned(record)]

    def is_abandoned(self, record: OperationRecord) -> bool:
        """Whether a running operation's process has ended, and no other continues it."""
        elsewhere = record.operation.id in self.known.elsewhere
        return elsewhere and not self._lease.alive(record.owner)

    async def take_over(self, record: OperationRecord) -> OperationRecord | None:
        """Makes an abandoned operation this process's, as its process left it; None if another
        process was quicker.
        """
        mine = await self._store.take_over_operation(record, self._lease.id)
        if mine is not None:
            note_transition(record, "is taken over")
            self.known.elsewhere.pop(record.operation.id, None)
            self.known.others[mine.operation.id] = mine.operation
        return mine

    def keep_until_seen(self, record: OperationRecord) -> None:
        """It is resumed when its TPU is seen. Of two, the later one is: it follows the other."""
        before = self.known.resumable.get(record.name)
        if before is not None and before is not record:
            if before.operation.created > record.operation.created:
                before, record = record, before
            self.mark_interrupted(before)
        record.operation.message = "Waiting to resume"
        self.known.resumable[record.name] = record

    def drop_resumable(self, name: NodeName) -> None:
        """What a dead process left is not resumed: something else is wanted now."""
        left = self.known.resumable.pop(name, None)
        if left is not None:
            self.mark_interrupted(left)

    def register_resume(self, kind: str, resume: Resume, can: Can = lambda _: True) -> None:
        """Operations of this *kind* whose processes have ended are continued by *resume* where they
        *can* be; those of other kinds are interrupted.
        """

        def resume_or_end(record: OperationRecord) -> None:
            (resume if can(record) else self.mark_interrupted)(record)

        self._resumes[kind] = resume_or_end

    def resume_left(self, record: OperationRecord) -> None:
        """Continues one that this process has taken over, or marks it as interrupted."""
        operation = record.operation
        operation.log.append("The process that ran this has ended. Continuing.")
        self._resumes.get(operation.kind, self.mark_interrupted)(record)

    def mark_interrupted(self, record: OperationRecord, *, save: bool = True) -> None:
        """Marks one that a dead process left as failed; without *save*, in this process only."""
        problem = Problem(
            message="The server was stopped before this ended.",
            reason=Reason.INTERRUPTED,
            hint=KINDS[record.operation.kind].after_interruption,
        )
        self._mark_ended(record, "failed", problem, save=save)

    def _mark_ended(
        self,
        record: OperationRecord,
        state: Literal["done", "failed", "cancelled"],
        problem: Problem | None,
        *,
        save: bool = True,
    ) -> None:
        operation = record.operation
        for step in operation.steps:
            if step.state == "running":
                step.state = "failed"
        operation.state = state
        operation.ended = timestamp()
        operation.problem = problem
        operation.message = problem.message if problem is not None else "Done"
        note_transition(record, f"has ended: {state}", problem)
        self.known.others[operation.id] = operation
        self.known.elsewhere.pop(operation.id, None)
        if save:
            self.save_soon(record)
        self._changed(operation.id, record.name)

    async def wait(self, id: str) -> Operation:
        """Waits until it has ended."""
        running = self.known.running.get(id)
        if running is not None and running.task is not None:
            await asyncio.wait([running.task])
        return self.known.get(id)

    async def close(self) -> None:
        """Stops all of them without undoing anything; the next process can resume them."""
        self.closing = True
        await cancel_all(r.task for r in self.known.running.values() if r.task is not None)
