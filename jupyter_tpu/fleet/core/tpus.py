"""Which TPUs there are, and how each is shown: from desired and observed state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...cloud import Cloud, NodeName, is_emulated
from ..models import TPU, Change, TPUList
from .connections import HostConnections
from .desired import DesiredState
from .failures import TPUFailures
from .known_operations import KnownOperations
from .observer import Observer
from .shared_state import SharedState
from .view import TPUFacts, node_to_create, view_tpu

Desired = Callable[[], Iterable[NodeName]]
Describe = Callable[[TPUFacts], None]


class KnownTPUs:
    """supervised: whether this process keeps the links of connected TPUs up.

    What a subject desires of TPUs, and what it says of one, it registers.
    """

    def __init__(
        self,
        cloud: Cloud,
        shared: SharedState,
        desired: DesiredState,
        observer: Observer,
        connections: HostConnections,
        operations: KnownOperations,
        failures: TPUFailures,
        *,
        supervised: bool,
    ) -> None:
        self._cloud = cloud
        self._shared = shared
        self._desired = desired
        self._observer = observer
        self._observed = observer.observed
        self._connections = connections
        self._operations = operations
        self._failures = failures
        self._supervised = supervised
        self._desires: list[Desired] = [lambda: desired.connected]
        self._describe: list[Describe] = []

    def register(self, describe: Describe) -> None:
        """Calls *describe* whenever a TPU is shown: it adds what its subject knows of it."""
        self._describe.append(describe)

    def register_desired(self, desired: Desired) -> None:
        """TPUs of which something is desired are shown although Google may not list them now."""
        self._desires.append(desired)

    def names(self) -> set[NodeName]:
        """All TPUs that are shown: observed, desired, or being created."""
        being_created = {
            name
            for name, records in self._operations.running_by_tpu().items()
            if any(record.create is not None for record in records)
        }
        desired = {name for names in self._desires for name in names()}
        unseen = {name for name in desired if not self._observed.complete(name)}
        return being_created | unseen | set(self._observed.nodes)

    def tpu(self, name: NodeName) -> TPU:
        node = self._observed.node(name)
        operations = self._operations.on(name)
        facts = TPUFacts(
            name=name,
            node=node or node_to_create(name, operations),
            seen=node is not None,
            operations=operations,
            emulated=is_emulated(self._cloud, name),
            connected=name in self._desired.connected,
            supervised=self._supervised,
            links=self._connections.links(name),
            failure=self._failures.problem(name),
            maintenance=self._observed.maintenance.get(node.id) if node else None,
            undeleted=self._operations.failed_deletion(name) if node else None,
        )
        for describe in self._describe:
            describe(facts)
        return view_tpu(facts)

    async def list(self, *, fresh: bool = False) -> TPUList:
        """fresh: Google is asked now; otherwise the regular poll serves all who ask."""
        await self._shared.reload()
        await (self._observer.ensure_fresh() if fresh else self._observer.ensure_recent())
        names = sorted(self.names(), key=lambda name: (name.node, name.zone))
        return TPUList(tpus=[self.tpu(name) for name in names], problem=self._observed.problem)

    def change(self, name: NodeName) -> Change:
        """The event for a TPU."""
        known = self.tpu(name) if name in self.names() else None
        return Change(what="tpu", id=f"{name.zone}/{name.node}", gone=known is None, tpu=known)
