"""The kernels on connected TPUs, as the agents last said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from ...cloud import NodeName
from ...environment import gather_or_cancel
from ...errors import TPUError
from ...links import HostName, Links, LinkState
from ..models import ChipHolder, Kernel
from .connections import HostConnections

#: Between two looks at the kernels of a connected TPU, over its link; seconds.
KERNELS_EVERY = 10.0
#: How long an agent may take to answer; seconds.
ANSWER = 15.0
#: So many dead kernels of a TPU are shown until somebody has seen them.
LOST = 50


class KernelMonitor:
    """The kernels on the TPUs whose links are held, as the agents last told.

    changed(name, kernel ids) is called with the ids of those that came, went or changed.
    """

    def __init__(
        self,
        links: Links,
        connections: HostConnections,
        changed: Callable[[NodeName, set[str]], None],
    ) -> None:
        self._links = links
        self._connections = connections
        self._changed = changed
        self._known: dict[NodeName, dict[str, Kernel]] = {}
        self._lost: dict[NodeName, dict[str, Kernel]] = {}  # dead, and somebody should know
        self._wake = asyncio.Event()

    def known(self, name: NodeName) -> list[Kernel]:
        """As last told, with those that were lost lately; [] where nothing is known."""
        return list({**self._lost.get(name, {}), **self._known.get(name, {})}.values())

    def find(self, id: str) -> Kernel | None:
        for kernels in (*self._known.values(), *self._lost.values()):
            if id in kernels:
                return kernels[id]
        return None

    def record_lost(self, name: NodeName, kernel: Kernel) -> None:
        """Takes the word of a client that a kernel is dead; its ``problem`` says why."""
        self._known.get(name, {}).pop(kernel.id, None)
        lost = self._lost.setdefault(name, {})
        lost[kernel.id] = kernel
        old = set(list(lost)[:-LOST])
        for id in old:
            del lost[id]
        self._changed(name, {kernel.id, *old})

    def dismiss_lost(self, name: NodeName, id: str) -> bool:
        """Shows a lost kernel no more; False if there is none of that id."""
        gone = self._lost.get(name, {}).pop(id, None)
        if gone is not None:
            self._changed(name, {id})
        return gone is not None

    async def fetch(self, name: NodeName, patience: float = ANSWER) -> list[Kernel]:
        """Asks the agent of host 0; raises TPUError if it can't be reached within *patience*."""
        answer = await self._request(name, "kernels", patience)
        self._update(name, [_kernel(name, told) for told in answer["kernels"]])
        return self.known(name)

    async def chips(self, name: NodeName) -> list[ChipHolder]:
        """Asks the agent of host 0 who has its chips; raises as :meth:`fetch`."""
        answer = await self._request(name, "chips", ANSWER)
        return [msgspec.convert(told, ChipHolder) for told in answer["holders"]]

    async def key(self, name: NodeName, id: str) -> str:
        """What signs a kernel's messages; raises NOT_FOUND, and as :meth:`fetch`."""
        return (await self._request(name, "kernel_key", ANSWER, id=id))["key"]

    async def end(self, name: NodeName, id: str, patience: float = ANSWER) -> None:
        await self._request(name, "end_kernel", patience, id=id)

    async def _request(self, name: NodeName, op: str, patience: float, **params: Any) -> Any:
        link = self._links.get(HostName(name, 0))
        link.acquire()
        try:
            await link.wait_up(timeout=patience)
            agent = await link.agent()
            return await asyncio.wait_for(agent.request(op, **params), patience)
        finally:
            link.release()

    def forget(self, name: NodeName) -> None:
        self._update(name, [])
        self._known.pop(name, None)

    def forget_lost(self, name: NodeName) -> None:
        for id in list(self._lost.pop(name, {})):
            self._changed(name, {id})

    def wake(self) -> None:
        """Something was started or ended: look soon."""
        self._wake.set()

    async def run(self) -> None:
        """Looks now and then until it is cancelled."""
        while True:
            self._wake.clear()
            up = [name for name in self._connections.names() if self._is_up(name)]
            await gather_or_cancel([self._refresh(name) for name in up])
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), KERNELS_EVERY)
                await asyncio.sleep(0.3)  # what was started is there by then

    def _is_up(self, name: NodeName) -> bool:
        links = self._connections.links(name)
        return bool(links) and links[0].state is LinkState.UP

    async def _refresh(self, name: NodeName) -> None:
        # A host that does not answer keeps what was known: its link says what is wrong.
        with contextlib.suppress(TPUError, asyncio.TimeoutError):
            await self.fetch(name)

    def _update(self, name: NodeName, kernels: list[Kernel]) -> None:
        before = self._known.get(name, {})
        after = {kernel.id: kernel for kernel in kernels}
        self._known[name] = after
        changed = {id for id in before.keys() | after.keys() if before.get(id) != after.get(id)}
        # A notebook that has another kernel has no lost one.
        notebooks = {kernel.notebook for kernel in kernels if kernel.notebook}
        for lost in list(self._lost.get(name, {}).values()):
            if lost.id in after or lost.notebook in notebooks:
                del self._lost[name][lost.id]
                changed.add(lost.id)
        if changed:
            self._changed(name, changed)


def _kernel(name: NodeName, told: dict) -> Kernel:
    return Kernel(
        id=told["id"],
        tpu=name.node,
        zone=name.zone,
        environment=told.get("environment") or "",
        state=told.get("state") or "",
        pid=told.get("pid") or 0,
        started=told.get("started") or "",
        last_activity=told.get("last_activity") or "",
        attached=bool(told.get("attached")),
        holder=told.get("holder") or "",
        chips=bool(told.get("chips")),
        notebook=told.get("notebook") or "",
    )
