"""Capacity and quotas: what the faults ``no-capacity`` and ``quota`` leave, per zone, type, tier.

Capacity is what Google has: a TPU takes it while it has VMs. A quota is what the project may have:
all TPUs count, and queued resources that wait, are suspended or have failed, until they are
deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...catalog import AcceleratorType, accelerator_type
from . import api_errors
from .faults import Fault, FaultKind, Faults
from .records import NodeRecord, QueuedRecord, Tier

WITHOUT_VMS = ("PENDING", "STOPPED", "PREEMPTED", "TERMINATED", "HIDDEN")


class Limits:
    """Compares what *nodes* and *queued* use with what *faults* leave."""

    def __init__(
        self, faults: Faults, nodes: Mapping[str, NodeRecord], queued: Mapping[str, QueuedRecord]
    ) -> None:
        self._faults = faults
        self._nodes = nodes
        self._queued = queued

    def lacks_capacity(
        self, zone: str, accelerator: AcceleratorType, tier: Tier, *, count: int = 1, but: str = ""
    ) -> bool:
        """Whether *count* more TPUs find no capacity. *but*: the path of one of them."""
        return self._hit("no-capacity", zone, accelerator, tier, count, but) is not None

    def check_quota(
        self, zone: str, accelerator: AcceleratorType, tier: Tier, *, count: int = 1, but: str = ""
    ) -> None:
        """ApiError for more than the project may have. *but*: a path that does not count yet."""
        if hit := self._hit("quota", zone, accelerator, tier, count, but):
            raise api_errors.quota(accelerator.generation, tier, zone, hit.chips)

    def _hit(
        self,
        kind: FaultKind,
        zone: str,
        accelerator: AcceleratorType,
        tier: Tier,
        count: int,
        but: str,
    ) -> Fault | None:
        def exceeded(fault: Fault) -> bool:
            if not _covers(fault, zone, accelerator, tier):
                return False
            used = sum(
                machine.chips
                for path, at, machine, how in (
                    self._users() if kind == "quota" else self._holders()
                )
                if path != but and _covers(fault, at, machine, how)
            )
            return used + count * accelerator.chips > fault.chips

        return self._faults.consume(kind, zone, where=exceeded)

    def _holders(self) -> Iterator[tuple[str, str, AcceleratorType, Tier]]:
        for path, node in self._nodes.items():
            if node.state not in WITHOUT_VMS:
                yield path, node.zone, node.held, node.tier

    def _users(self) -> Iterator[tuple[str, str, AcceleratorType, Tier]]:
        for path, node in self._nodes.items():
            yield path, node.zone, node.held, node.tier
        for path, queued in self._queued.items():
            for spec in queued.specs:
                if queued.node_path(spec) not in self._nodes:
                    yield path, queued.zone, accelerator_type(spec.type), spec.node.tier


def _covers(fault: Fault, zone: str, accelerator: AcceleratorType, tier: Tier) -> bool:
    return (
        fault.zone in (None, zone)
        and fault.type
        in (None, accelerator.name, accelerator.generation, accelerator.name.partition("-")[0])
        and fault.tier in (None, tier)
    )
