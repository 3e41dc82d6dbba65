"""From a reference, ``name`` or ``zone~name``, to the one TPU that is meant."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable

from ..cloud import NodeName
from ..errors import Reason, TPUError
from .state import State


async def resolve(ref: str, state: State) -> NodeName:
    """Raises NOT_FOUND, CONFLICT where two zones have one of that name, or why the list of
    TPUs is not known.
    """
    looked = await state.observer.ensure_recent()
    zone, _, node = ref.replace("~", "/", 1).rpartition("/")
    found = _matching(zone, node, state)
    if not found and not looked:
        # Perhaps it was made elsewhere a moment ago.
        await asyncio.shield(state.observer.refresh_for_missing())
        found = _matching(zone, node, state)
    if len(found) == 1:
        return found[0]
    if found:
        zones = ", ".join(name.zone for name in found)
        raise TPUError(
            f"There are several TPUs called {node}: in {zones}.",
            Reason.CONFLICT,
            f"Say which one: {found[0].zone}~{node}.",
        )
    problem = state.observer.problem
    if problem is not None:
        raise TPUError(problem.message, problem.reason, problem.hint)
    raise TPUError(
        f"There is no TPU called {node}{f' in {zone}' if zone else ''}."
        + _did_you_mean(zone, node, state.names()),
        Reason.NOT_FOUND,
    )


def _did_you_mean(zone: str, node: str, names: Iterable[NodeName]) -> str:
    """With their zones where a zone was given, or where the name alone is not enough."""
    names = list(names)
    called = [name.node for name in names]
    near = [
        f"{name.zone}~{name.node}" if zone or called.count(name.node) > 1 else name.node
        for close in difflib.get_close_matches(node, sorted(set(called)), n=2)
        for name in sorted(names)
        if name.node == close
    ]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _matching(zone: str, node: str, state: State) -> list[NodeName]:
    return sorted(name for name in state.names() if name.node == node and zone in ("", name.zone))
