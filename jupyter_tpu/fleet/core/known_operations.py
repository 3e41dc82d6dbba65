"""Operations: those that run here, with their progress; those of other processes; ended ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from ...cloud import NodeName
from ...cloud.models import Tier
from ...errors import Reason, TPUError
from ...own_log import happened
from ...progress import StepPlan
from ..models import CreateTPU, Operation, Problem, Step
from ..models.core import known_type, timestamp
from ..models.operation_kinds import KINDS
from .operation_records import (
    Creation,
    HuntRecord,
    OperationRecord,
    OperationRequest,
    QueuedCreation,
)

LOG_LINES = 1000


class OperationProgress:
    """Writes into an :class:`Operation`; *changed* is called after each change.

    It is what ``progress.ProgressReporter`` asks for, too.
    """

    def __init__(self, operation: Operation, changed: Callable[[], None]) -> None:
        self.operation = operation
        self._changed = changed
        self._measured = False
        self._weights: dict[str, float] = {}
        self._steps: dict[str, Step] = {}
        self._parts: dict[str, float] = {}

    def plan(self, steps: Sequence[StepPlan], hosts: int = 0, *, measured: bool = False) -> None:
        """Sets the steps: their titles and what share of the time each takes.

        measured: whether progress is known; how long Google takes is not.
        """
        self._measured = measured
        self._weights = {step.key: step.weight for step in steps}
        self._steps = {
            step.key: Step(title=step.title, hosts=hosts if step.all_hosts else 0) for step in steps
        }
        self._parts = dict.fromkeys(self._weights, 0.0)
        self.operation.steps = list(self._steps.values())
        self._update()

    def begin(self, key: str) -> None:
        """A step that begins again counts its hosts again."""
        step = self._steps[key]
        if step.state != "waiting":
            step.hosts_done = 0
        step.state = "running"
        self.operation.message = step.title
        self._update()

    def part(self, key: str, part: float) -> None:
        """How far a step is, 0 to 1; it never goes back."""
        if part > self._parts[key]:
            self._parts[key] = min(part, 1.0)
            self._update()

    def host_done(self, key: str) -> None:
        step = self._steps[key]
        step.hosts_done += 1
        self._update()

    def done(self, key: str, state: Literal["done", "skipped", "failed"] = "done") -> None:
        self._steps[key].state = state
        self._parts[key] = 1.0
        self._update()

    def set_message(self, message: str) -> None:
        """Sets what is being done now, where no step shows it."""
        self.operation.message = message
        self._changed()

    def block(self, problem: TPUError | None) -> None:
        """Shows what stands in the way while it continues; None when nothing does any more."""
        shown = None if problem is None else Problem.of(problem)
        before = self.operation.problem
        if shown != before:
            self.operation.problem = shown
            if shown is not None and (before is None or before.message != shown.message):
                self.log(f"{shown.message} {shown.hint}".strip())
            self._changed()

    def log(self, line: str) -> None:
        """A line of the log; control characters and colours are left out."""
        text = "".join(c for c in line.rstrip() if c.isprintable() or c == "\t")
        self.operation.log.append(text)
        if len(self.operation.log) > LOG_LINES:
            del self.operation.log[:-LOG_LINES]
        self._changed()

    def fail(self) -> None:
        """Marks the running step as the one that failed."""
        for step in self._steps.values():
            if step.state == "running":
                step.state = "failed"

    def _update(self) -> None:
        total = sum(self._weights.values())
        if total and self._measured:
            whole = sum(self._weights[key] * part for key, part in self._parts.items())
            self.operation.progress = round(whole / total, 3)
        self._changed()


Work = Callable[[OperationProgress], Coroutine[Any, Any, None]]
CarryOut = Callable[[OperationRequest], object]
Save = Callable[[OperationRecord], Coroutine[Any, Any, None]]


class OperationCancelled(Exception):
    """An operation has ended because it was cancelled, and nothing of it is left."""


class OperationStore(Protocol):
    """Where operations are written down (`Store`)."""

    def save_operation(self, record: OperationRecord) -> None: ...

    def drop_operation(self, id: str) -> None: ...

    def save_request(self, id: str, request: OperationRequest) -> None: ...

    def drop_request(self, id: str) -> None: ...

    async def flush(self) -> None: ...

    async def take_over_operation(
        self, record: OperationRecord, owner: str
    ) -> OperationRecord | None: ...


class OperationLease(Protocol):
    """Which process runs an operation (`ProcessLease`)."""

    id: str

    def alive(self, owner: str) -> bool: ...


class RunningOperation:
    """What the runner knows of one."""

    def __init__(self, record: OperationRecord) -> None:
        self.record = record
        self.task: asyncio.Task[None] | None = None
        self.carry_out: CarryOut | None = None  # None: the task is cancelled
        self.requests: set[OperationRequest] = set()  # that were carried out, or have begun to be
        #: The states that were last saved: its own, and those of its steps.
        self._saved: tuple[str, tuple[str, ...]] = "", ()
        self.accepted = asyncio.Event()  # it is on disk, or was refused
        self.refused: TPUError | None = None  # why it could not be saved, and so never ran

    @property
    def name(self) -> NodeName:
        """The TPU that it is about now: a hunt goes from zone to zone."""
        return self.record.name

    def has_new_states(self) -> bool:
        """Whether it has other states than when this was last asked; the log gets the steps'."""
        operation = self.record.operation
        _, before = self._saved
        states = operation.state, tuple(step.state for step in operation.steps)
        if states == self._saved:
            return False
        self._saved = states
        for number, step in enumerate(operation.steps):
            if step.state != (before[number] if number < len(before) else "waiting"):
                note_transition(self.record, f"step {step.title!r}: {step.state}")
        return True


def cancelled() -> Problem:
    return Problem(message="Cancelled.", reason=Reason.CANCELLED)


def note_transition(
    record: OperationRecord, what: str, problem: Problem | TPUError | None = None
) -> None:
    """For the log."""
    operation = record.operation
    why = f". {problem.message}" if problem is not None else ""
    happened(
        f"Operation {operation.kind} {what}{why}",
        tpu=operation.tpu,
        operation=operation.id,
        costs=KINDS[operation.kind].costs,
    )


class Demand(Struct, frozen=True, kw_only=True):
    """Chips that a TPU has, or that are asked for."""

    project: str
    type: str
    zone: str
    tier: Tier

    @property
    def chips(self) -> int:
        """0 of a type that the catalog does not know: no grant covers that."""
        accelerator = known_type(self.type)
        return accelerator.chips if accelerator else 0


def demands_of(records: Iterable[OperationRecord]) -> dict[NodeName, Demand]:
    """The TPUs that these create, or ask Google's queue for, the oldest first."""
    return {
        record.name: demand_of(record.name, request)
        for record in sorted(records, key=lambda record: record.operation.created)
        if (request := wanted_by(record)) is not None
        and record.claim is not None
        and record.claim.want == "present"
    }


def wanted_by(record: OperationRecord) -> CreateTPU | None:
    """What an operation creates, or asks Google's queue for."""
    if isinstance(record.content, QueuedCreation):
        return record.content.request.tpu
    return record.creation.request if record.creation is not None else None


def demand_of(name: NodeName, request: CreateTPU) -> Demand:
    return Demand(project=name.project, type=request.type, zone=name.zone, tier=request.tier)


def starting_of(records: Iterable[OperationRecord]) -> set[NodeName]:
    """The stopped TPUs that these start."""
    return {record.name for record in records if record.operation.kind == "start"}


def not_listed(records: Iterable[OperationRecord], since: float) -> list[OperationRecord]:
    """Those that run, and those that have ended well after *since* (seconds since the epoch): a
    list of TPUs that was asked for then may not have what they made.
    """
    moment = timestamp(at=since)
    return [
        record
        for record in records
        if record.operation.state == "running"
        or (record.operation.state == "done" and record.operation.ended >= moment)
    ]


T = TypeVar("T")


class KnownOperations:
    """The operations of one cloud identity; `OperationRunner` keeps it up to date."""

    def __init__(self) -> None:
        self.running: dict[str, RunningOperation] = {}
        self.others: dict[str, Operation] = {}  # ended ones, and those of other processes
        self.elsewhere: dict[str, OperationRecord] = {}  # running in other processes
        #: Connects that dead processes left, to be resumed when their TPU is seen.
        self.resumable: dict[NodeName, OperationRecord] = {}

    def all(self) -> list[Operation]:
        """Newest first."""
        mine = {id: running.record.operation for id, running in self.running.items()}
        everything = {**self.others, **mine}
        return _newest_first(everything.values(), lambda operation: operation.created)

    def find(self, id: str) -> Operation | None:
        running = self.running.get(id)
        return running.record.operation if running else self.others.get(id)

    def get(self, id: str) -> Operation:
        operation = self.find(id)
        if operation is None:
            raise TPUError(f"The operation {id} does not exist.", Reason.NOT_FOUND)
        return operation

    def works_on(self, name: NodeName) -> bool:
        """Whether one runs on the TPU in this process for which others have to wait."""
        return any(not KINDS[record.operation.kind].patient for record in self.running_on(name))

    def waits_for_tpu(self) -> bool:
        """Whether one runs in this process that waits for what its TPU does."""
        return any(
            KINDS[operation.record.operation.kind].patient for operation in self.running.values()
        )

    def running_on(self, name: NodeName) -> list[OperationRecord]:
        """Those that run on one TPU now, newest first."""
        records = [r.record for r in self.running.values() if r.name == name]
        return _newest_first(records, lambda record: record.operation.created)

    def on(self, name: NodeName) -> list[OperationRecord]:
        """Those that run on one TPU in whichever process, newest first."""
        elsewhere = [record for record in self.elsewhere.values() if record.name == name]
        records = [*self.running_on(name), *elsewhere]
        return _newest_first(records, lambda record: record.operation.created)

    def awaiting(self, node_id: str) -> list[OperationRecord]:
        """The hunts that wait for the preemption of a TPU, in whichever process."""
        return [
            record
            for record in self._everywhere()
            if isinstance(record.content, HuntRecord)
            and record.content.awaited is not None
            and record.content.awaited.node_id == node_id
        ]

    def demands(self) -> dict[NodeName, Demand]:
        """The TPUs that are being created, in whichever process, the oldest first."""
        return demands_of(self._everywhere())

    def failed_deletion(self, name: NodeName) -> Operation | None:
        """The newest operation on one TPU, if it should have deleted that and has not."""
        about = (
            operation
            for operation in self.all()
            if (operation.tpu, operation.zone) == (name.node, name.zone)
        )
        newest = next(about, None)
        if newest is None or newest.state != "failed":
            return None
        return newest if newest.kind == "delete" or newest.undeleted == "kept" else None

    def running_by_tpu(self) -> dict[NodeName, list[OperationRecord]]:
        by_tpu: dict[NodeName, list[OperationRecord]] = {}
        for running in self.running.values():
            by_tpu.setdefault(running.name, []).append(running.record)
        return by_tpu

    def changes_tpus(self) -> bool:
        """Whether one runs that will soon have changed a TPU at Google."""
        return any(
            _is_quick(running.record.operation) and not _waits_in_queue(running.record)
            for running in self.running.values()
        )

    def hunted(self) -> set[NodeName]:
        """The TPUs that hunts try to create in this process now."""
        return {
            operation.name
            for operation in self.running.values()
            if operation.record.operation.kind == "hunt"
        }

    def starting(self) -> set[NodeName]:
        """The stopped TPUs that are being started, in whichever process."""
        return starting_of(self._everywhere())

    def _everywhere(self) -> list[OperationRecord]:
        """Those that run, in whichever process."""
        return [
            *(operation.record for operation in self.running.values()),
            *self.elsewhere.values(),
        ]

    def require_idle(self, name: NodeName, kind: str) -> None:
        """Raises CONFLICT while one runs on the TPU beside which none of this *kind* may begin."""
        for record in self.running_on(name):
            running = KINDS[record.operation.kind]
            if running.exclusive and running.name not in KINDS[kind].begins_beside:
                raise TPUError(
                    f"{running.present.format(name.node)}.",
                    Reason.CONFLICT,
                    "Wait until that has ended, or cancel it.",
                )

    def is_resumable(self, record: OperationRecord) -> bool:
        left = self.resumable.get(record.name)
        return left is not None and left.operation.id == record.operation.id

    def forget_oldest(self, keep: int) -> Iterator[str]:
        """Forgets ended ones but the newest *keep*; their ids."""
        ended = [operation for operation in self.others.values() if operation.state != "running"]
        for operation in _newest_first(ended, lambda operation: operation.ended)[keep:]:
            del self.others[operation.id]
            yield operation.id


def _is_quick(operation: Operation) -> bool:
    """Whether it changes something at Google soon; a hunt may take hours."""
    return KINDS[operation.kind].at_google and operation.kind != "hunt"


def _waits_in_queue(record: OperationRecord) -> bool:
    """Whether it creates a TPU that may come after days."""
    return isinstance(record.content, Creation) and record.content.queue is not None


def _newest_first(items: Iterable[T], time: Callable[[T], str]) -> list[T]:
    """The newest first; of one millisecond, what was added last."""
    return sorted(items, key=time)[::-1]
