"""From the reference that a user gives, ``name`` or ``zone~name``, to the TPU that is meant."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable

from ...cloud import Node, NodeName
from ...errors import Reason, TPUError
from ...retired import refuse_tpu_node_address
from .observer import Observer
from .shared_state import SharedState
from .tpus import KnownTPUs


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
            + _did_you_mean(zone, node, self._tpus.names()),
            Reason.NOT_FOUND,
        )

    async def find_ready(self, ref: str) -> Node:
        """As :meth:`find`; raises CONFLICT for a TPU that is not READY."""
        return self._observer.observed.require_hosts(await self.find(ref))


def _did_you_mean(zone: str, node: str, names: Iterable[NodeName]) -> str:
    """With their zones where a zone was given, or where the name alone is not enough."""
    names = sorted(names)
    called = [name.node for name in names]
    near = [
        f"{name.zone}~{name.node}" if zone or called.count(name.node) > 1 else name.node
        for close in difflib.get_close_matches(node, sorted(set(called)), n=2)
        for name in names
        if name.node == close
    ]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _matching(zone: str, node: str, names: Iterable[NodeName]) -> list[NodeName]:
    return sorted(name for name in names if name.node == node and zone in ("", name.zone))
