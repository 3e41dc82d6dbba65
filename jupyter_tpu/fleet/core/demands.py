"""The chips that TPUs have, and that operations ask for, as their records say it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ...cloud import NodeName
from ...cloud.models import Tier
from ..models import CreateTPU
from ..models.catalog import known_type
from ..models.core import timestamp
from .records import OperationRecord


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
