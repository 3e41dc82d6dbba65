"""Which TPUs there are, how each is shown, and which one a reference means.

A reference is ``name`` or ``zone~name``.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable

from ...cloud import Cloud, Node, NodeName, is_emulated
from ...errors import Reason, TPUError
from ...retired import refuse_tpu_node_address
from ..models import TPU, Change, TPUList
from .connections import HostConnections
from .desired import DesiredState, SharedState
from .known_operations import KnownOperations
from .loops import TPUFailures
from .observer import Observer
from .view import TPUFacts, node_to_create, view_tpu

Desired = Callable[[], Iterable[NodeName]]
Describe = Callable[[TPUFacts], None]
#: As many TPUs are named where none has the name that was typed.
_NAMED_TPUS = 5


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
            if any(record.creation is not None for record in records)
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


class TPUFinder:
    def __init__(self, shared: SharedState, tpus: KnownTPUs, observer: Observer) -> None:
        self.reload = shared.reload
        self._tpus = tpus
        self._observer = observer

    async def find(self, ref: str) -> NodeName:
        """Raises INVALID for the address of a TPU Node, NOT_FOUND, CONFLICT where two zones have
        one of that name, or why the list of TPUs is not known.
        """
        await self.reload()
        refuse_tpu_node_address(ref)
        refreshed = await self._observer.ensure_recent()
        zone, _, node = ref.replace("~", "/", 1).rpartition("/")
        node_names = _matching(zone, node, self._tpus.names())
        if not node_names and not refreshed:
            # Perhaps it was created elsewhere a moment ago.
            await asyncio.shield(self._observer.refresh_for_missing())
            node_names = _matching(zone, node, self._tpus.names())
        if len(node_names) == 1:
            return node_names[0]
        if node_names:
            zones = ", ".join(name.zone for name in node_names)
            raise TPUError(
                f"Several TPUs have the name {node}: in {zones}.",
                Reason.CONFLICT,
                f"Add the zone: {node_names[0].zone}~{node}.",
            )
        if self._observer.observed.problem is not None:
            raise self._observer.observed.problem.to_error()
        raise TPUError(
            f"The TPU {node} does not exist{f' in {zone}' if zone else ''}."
            + _names_instead(zone, node, self._tpus.names()),
            Reason.NOT_FOUND,
        )

    async def find_ready(self, ref: str) -> Node:
        """As :meth:`find`; raises CONFLICT for a TPU that is not READY."""
        return self._observer.observed.require_hosts(await self.find(ref))


def _names_instead(zone: str, node: str, names: Iterable[NodeName]) -> str:
    """The names that are like it, else those there are: with their zones where a zone was given,
    or where the name alone is not enough.
    """
    names = sorted(names)
    called = [name.node for name in names]
    refs = {
        name: f"{name.zone}~{name.node}" if zone or called.count(name.node) > 1 else name.node
        for name in names
    }
    close = difflib.get_close_matches(node, sorted(set(called)), n=2)
    if close:
        near = [refs[name] for like in close for name in names if name.node == like]
        return f" Did you mean {' or '.join(near)}?"
    if not names:
        return " There are no TPUs."
    more = f" and {len(names) - _NAMED_TPUS} more" if len(names) > _NAMED_TPUS else ""
    return f" There are: {', '.join(list(refs.values())[:_NAMED_TPUS])}{more}."


def _matching(zone: str, node: str, names: Iterable[NodeName]) -> list[NodeName]:
    return sorted(name for name in names if name.node == node and zone in ("", name.zone))
