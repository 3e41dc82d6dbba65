"""Operations: started, remembered across a restart, cancelled, and each ended in one place."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..models import Operation, Problem
from ..models.times import timestamp
from ..store.database import KEEP_AT_MOST
from ..store.records import OperationRecord
from .progress import Progress

log = logging.getLogger(__name__)

Work = Callable[[Progress], Coroutine[Any, Any, None]]

#: Kinds that change nothing about the TPU: others may run at the same time.
NON_EXCLUSIVE_KINDS = ("tensorboard", "profile")

_INTERRUPTED_HINTS = {
    "connect": "Connect again: it goes on where it was.",
    "create": "If Google had begun, the TPU appears in the list; else create it again.",
    "disconnect": "Disconnect again.",
    "delete": "If the TPU stays in the list, delete it again.",
    "stop": "If the TPU stays READY, stop it again.",
    "start": "If the TPU stays STOPPED, start it again.",
    "tensorboard": "Open it again: it goes on where it was.",
    "profile": "Capture it again.",
    "compile": "Send the program again: it begins anew.",
}


class Records(Protocol):
    """Where operations are written down (`Store`)."""

    def operations(self) -> list[OperationRecord]: ...

    def save_operation(self, record: OperationRecord) -> None: ...

    def prune(self) -> None: ...


class Process(Protocol):
    """Whose operations they are (`ProcessLease`)."""

    id: str

    def alive(self, owner: str) -> bool: ...


class _RunningOperation:
    def __init__(self, record: OperationRecord, name: NodeName) -> None:
        self.record = record
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self.undo: Work | None = None
        self.cancelled = False  # by somebody, not by the end of this process
        self.marks: object = None  # what was last saved


class OperationRunner:
    """All operations of one cloud identity. On the core thread's loop.

    changed(id, tpu) is called whenever one changes; ended(tpu) after one ended; forgotten(id) when
    an old one can no longer be asked for: of the ended ones, *keep* are remembered.
    """

    def __init__(
        self,
        store: Records,
        owner: Process,
        *,
        changed: Callable[[str, NodeName], None],
        ended: Callable[[NodeName], None],
        forgotten: Callable[[str], None],
        keep: int = KEEP_AT_MOST,
    ) -> None:
        self._store = store
        self._owner = owner
        self._changed = changed
        self._ended = ended
        self._forgotten = forgotten
        self._keep = keep
        self._running: dict[str, _RunningOperation] = {}
        self._others: dict[str, Operation] = {}  # ended ones
        self.closing = False

    # ---- looking ----

    def all(self) -> list[Operation]:
        """Newest first."""
        mine = {id: running.record.operation for id, running in self._running.items()}
        everything = {**self._others, **mine}
        return sorted(everything.values(), key=lambda o: o.created, reverse=True)

    def has(self, id: str) -> bool:
        return id in self._running or id in self._others

    def get(self, id: str) -> Operation:
        running = self._running.get(id)
        operation = running.record.operation if running else self._others.get(id)
        if operation is None:
            raise TPUError(f"There is no operation {id!r}.", Reason.NOT_FOUND)
        return operation

    def running_on(self, name: NodeName) -> list[OperationRecord]:
        """Those that run on one TPU now, newest first."""
        records = [r.record for r in self._running.values() if r.name == name]
        return sorted(records, key=lambda r: r.operation.created, reverse=True)

    def running_by_tpu(self) -> dict[NodeName, list[OperationRecord]]:
        found: dict[NodeName, list[OperationRecord]] = {}
        for running in self._running.values():
            found.setdefault(running.name, []).append(running.record)
        return found

    # ---- running ----

    def start(self, record: OperationRecord, work: Work, undo: Work | None = None) -> Operation:
        """Runs *work*; *undo* is run if somebody cancels it.

        record: a new one (see :meth:`new_record`), or one that a dead process left.
        """
        operation = record.operation
        record.owner = self._owner.id
        running = _RunningOperation(record, record.name)
        running.undo = undo
        self._running[operation.id] = running
        self._others.pop(operation.id, None)
        self._store.save_operation(record)
        running.task = asyncio.create_task(self._run(running, work), name=f"tpu-{operation.kind}")
        running.task.add_done_callback(lambda task: self._finish(running, task))
        self._changed(operation.id, running.name)
        return operation

    def new_record(self, kind: Any, name: NodeName, **requests: Any) -> OperationRecord:
        operation = Operation(
            id=uuid.uuid4().hex[:12], kind=kind, tpu=name.node, zone=name.zone, created=timestamp()
        )
        return OperationRecord(
            operation=operation, project=name.project, owner=self._owner.id, **requests
        )

    async def cancel(self, id: str, patience: float = 2.0) -> Operation:
        """Asks an operation to end and clean up; waits *patience* seconds for it."""
        operation = self.get(id)
        running = self._running.get(id)
        if running is not None and running.task is not None:
            if not running.cancelled:
                running.cancelled = True
                operation.message = "Cancelling"
                self._changed(id, running.name)
                running.task.cancel()
            await asyncio.wait([running.task], timeout=patience)
        return operation

    async def _run(self, running: _RunningOperation, work: Work) -> None:
        progress = Progress(running.record.operation, lambda: self._progressed(running))
        try:
            await work(progress)
        except asyncio.CancelledError:
            if not running.cancelled or running.undo is None:
                raise
            await running.undo(progress)
            raise
        finally:
            progress.fail()  # only a step that still runs

    def _progressed(self, running: _RunningOperation) -> None:
        """Saved at each step; log lines between are worth no write of their own."""
        operation = running.record.operation
        marks = (operation.state, tuple(step.state for step in operation.steps))
        if marks != running.marks:
            running.marks = marks
            self._store.save_operation(running.record)
        self._changed(operation.id, running.name)

    def _finish(self, running: _RunningOperation, task: asyncio.Task[None]) -> None:
        operation = running.record.operation
        del self._running[operation.id]
        if self.closing:
            return  # it stays "running" in the file: the next process sees that its owner died
        if task.cancelled():
            operation.state = "cancelled"
            operation.problem = Problem(message="It was cancelled.", reason=Reason.CANCELLED)
        else:
            error = task.exception()
            if error is None:
                operation.state = "done"
                operation.progress = 1.0
            else:
                operation.state = "failed"
                operation.problem = self._explain(operation, error)
        operation.message = operation.problem.message if operation.problem else "Done"
        operation.ended = timestamp()
        self._others[operation.id] = operation
        self._store.save_operation(running.record)
        self._store.prune()
        self._prune()
        self._changed(operation.id, running.name)
        self._ended(running.name)

    def _prune(self) -> None:
        ended = [operation for operation in self._others.values() if operation.state != "running"]
        ended.sort(key=lambda operation: operation.ended, reverse=True)
        for operation in ended[self._keep :]:
            del self._others[operation.id]
            self._forgotten(operation.id)

    @staticmethod
    def _explain(operation: Operation, error: BaseException) -> Problem:
        if isinstance(error, TPUError):
            return Problem.of(error)
        log.error("The operation %s failed", operation.kind, exc_info=error)
        return Problem(
            message=f"An error in jupyter-tpu itself: {type(error).__name__}: {error}",
            reason=Reason.INTERNAL,
            hint="The server's log has the details.",
        )

    # ---- from one process to the next ----

    def load(self, *, resume: bool) -> list[OperationRecord]:
        """Reads what earlier processes left; gives those to go on with, if *resume*.

        A running operation of a dead process that is not resumed has failed (INTERRUPTED).
        """
        left: list[OperationRecord] = []
        for record in self._store.operations():
            operation = record.operation
            self._others[operation.id] = operation
            if operation.state != "running" or self._owner.alive(record.owner):
                continue
            if resume and operation.kind in ("create", "connect"):
                operation.message = "Waiting to go on with it"
                left.append(record)
                continue
            self.mark_interrupted(record, save=resume)
        self._prune()
        return left

    def reload(self) -> None:
        """Takes over what other processes wrote of theirs."""
        for record in self._store.operations():
            operation = record.operation
            if operation.id not in self._running:
                self._others[operation.id] = operation
                self._changed(operation.id, record.name)
        self._prune()

    def mark_interrupted(self, record: OperationRecord, *, save: bool = True) -> None:
        """Ends one that a dead process left."""
        operation = record.operation
        for step in operation.steps:
            if step.state == "running":
                step.state = "failed"
        operation.state = "failed"
        operation.ended = timestamp()
        operation.problem = Problem(
            message="The server was stopped in the middle of it.",
            reason=Reason.INTERRUPTED,
            hint=_INTERRUPTED_HINTS.get(
                operation.kind, "Google goes on by itself: look at the TPU's state."
            ),
        )
        operation.message = operation.problem.message
        self._others[operation.id] = operation
        if save:
            self._store.save_operation(record)
        self._changed(operation.id, record.name)

    async def wait(self, id: str) -> Operation:
        """Waits until it has ended."""
        running = self._running.get(id)
        if running is not None and running.task is not None:
            await asyncio.wait([running.task])
        return self.get(id)

    async def close(self) -> None:
        """Stops all work without undoing anything; it can be resumed."""
        self.closing = True
        tasks = [r.task for r in self._running.values() if r.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)
