"""The chips that operations ask for, as their records say it."""

from __future__ import annotations

from collections.abc import Iterable

from ...cloud import NodeName
from ..models import CreateTPU
from ..models.times import timestamp
from ..money.pricing import Demand
from .records import OperationRecord


def demands_of(records: Iterable[OperationRecord]) -> dict[NodeName, Demand]:
    """The TPUs that these create, or ask Google's queue for, the oldest first."""
    return {
        record.name: demand_of(record.name, wanted)
        for record in sorted(records, key=lambda record: record.operation.created)
        if (wanted := wanted_by(record)) is not None
        and record.claim is not None
        and record.claim.want == "present"
    }


def wanted_by(record: OperationRecord) -> CreateTPU | None:
    """What an operation creates, or asks Google's queue for."""
    queued = record.queue.tpu if record.queue is not None else None
    return record.create or (queued if record.operation.kind == "queue" else None)


def demand_of(name: NodeName, wanted: CreateTPU) -> Demand:
    return Demand(project=name.project, type=wanted.type, zone=name.zone, tier=wanted.tier)


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
