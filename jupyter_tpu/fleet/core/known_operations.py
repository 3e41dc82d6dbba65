"""What is known of operations: those that run here, those of other processes, and ended ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from ...cloud import NodeName
from ...cloud.models import Tier
from ...errors import Reason, TPUError
from ..models import CreateTPU, Operation
from ..models.core import known_type, timestamp
from ..models.operation_kinds import KINDS
from .records import OperationRecord
from .running_operation import RunningOperation


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
    queued = record.queue.tpu if record.queue is not None else None
    return record.create or (queued if record.operation.kind == "queue" else None)


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
        return any(
            not KINDS[operation_record.operation.kind].patient
            for operation_record in self.running_on(name)
        )

    def waits_for_tpu(self) -> bool:
        """Whether one runs in this process that waits for what its TPU does."""
        return any(
            KINDS[running_operation.record.operation.kind].patient
            for running_operation in self.running.values()
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
            if record.hunt is not None
            and record.hunt.awaited is not None
            and record.hunt.awaited.node_id == node_id
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
            running_operation.name
            for running_operation in self.running.values()
            if running_operation.record.operation.kind == "hunt"
        }

    def starting(self) -> set[NodeName]:
        """The stopped TPUs that are being started, in whichever process."""
        return starting_of(self._everywhere())

    def _everywhere(self) -> list[OperationRecord]:
        """Those that run, in whichever process."""
        return [
            *(running_operation.record for running_operation in self.running.values()),
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
    return record.operation.kind == "create" and record.queue is not None


def _newest_first(items: Iterable[T], time: Callable[[T], str]) -> list[T]:
    """Of those of one millisecond, what was added last comes first."""
    return sorted(items, key=time)[::-1]
