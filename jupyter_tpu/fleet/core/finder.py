"""From the reference that a user gives to the TPU that is meant, for the parts of the fleet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...cloud import Node, NodeName
from .observed import ObservedState


class TPUFinder:
    """All methods raise what `inventory.references.resolve` raises.

    reload(): takes over what other processes have written. find(ref): which TPU is meant.
    """

    def __init__(
        self,
        reload: Callable[[], Awaitable[None]],
        find: Callable[[str], Awaitable[NodeName]],
        observed: ObservedState,
    ) -> None:
        self.reload = reload
        self._find = find
        self._observed = observed

    async def find(self, ref: str) -> NodeName:
        await self.reload()
        return await self._find(ref)

    async def find_ready(self, ref: str) -> Node:
        """Raises CONFLICT for a TPU that is not READY."""
        return self._observed.require_hosts(await self.find(ref))
