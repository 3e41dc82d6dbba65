"""Warm kernels on connected TPUs: wished for here, started and counted by the agent of host 0.

A spec stands in this process's connection to the agent only, so what is warm ends with the
connection; it is said again and again, and so comes back with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ...cloud import NodeName
from ...environment import gather_or_cancel
from ...errors import TPUError
from ...links import HostName, Links, LinkState
from ..hosts.connections import HostConnections
from ..models import WarmKernel

#: Between two looks at those of a TPU, over its link, and while one is being started; seconds.
EVERY, SOON = 15.0, 1.0
#: How long an agent may take to answer; seconds.
ANSWER = 15.0


class WarmKernelSpec(Struct, frozen=True, kw_only=True):
    """An environment that should have a warm kernel."""

    python: str  # on the host
    imports: list[str]
    env: dict[str, str]


class WarmKernelMonitor:
    """desired(name) says which environments of a TPU should have one; changed(name) is called when
    there is news of them.
    """

    def __init__(
        self,
        links: Links,
        connections: HostConnections,
        desired: Callable[[NodeName], Mapping[str, WarmKernelSpec]],
        changed: Callable[[NodeName], None],
    ) -> None:
        self._links = links
        self._connections = connections
        self._desired = desired
        self._changed = changed
        self._known: dict[NodeName, dict[str, WarmKernel]] = {}
        self._wake = asyncio.Event()

    def status(self, name: NodeName, environment: str) -> WarmKernel:
        """What is known of one environment's."""
        spec = self._desired(name).get(environment)
        if spec is None or name not in self._connections:
            return WarmKernel(state="off")
        known = self._known.get(name, {}).get(environment)
        return known or WarmKernel(state="starting", imports=spec.imports)

    def wake(self) -> None:
        """Something else is wanted: see to it soon."""
        self._wake.set()

    async def run(self) -> None:
        """Sees to it now and then until it is cancelled."""
        while True:
            self._wake.clear()
            await gather_or_cancel([self._refresh(name) for name in self._connections.names()])
            for name in set(self._known) - set(self._connections.names()):
                del self._known[name]  # they went with the connection
            starting = any(
                warm.state == "starting" for each in self._known.values() for warm in each.values()
            )
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), SOON if starting else EVERY)

    async def stop(self, name: NodeName) -> None:
        """Ends those of a TPU, whatever is wished; returns when that is said."""
        if self._known.pop(name, None):
            with contextlib.suppress(TPUError, asyncio.TimeoutError):
                await self._request(name, [])

    async def _refresh(self, name: NodeName) -> None:
        desired = self._desired(name)
        links = self._connections.links(name)
        up = bool(links) and links[0].state is LinkState.UP
        if not up or not (desired or self._known.get(name)):
            return
        with contextlib.suppress(TPUError, asyncio.TimeoutError):
            told = {warm["python"]: warm for warm in await self._request(name, [*desired.values()])}
            now = {
                environment: _warm(told[spec.python], spec)
                for environment, spec in desired.items()
                if spec.python in told
            }
            if self._known.get(name, {}) != now:
                self._known[name] = now
                self._changed(name)

    async def _request(self, name: NodeName, desired: list[WarmKernelSpec]) -> list[dict[str, Any]]:
        agent = await asyncio.wait_for(self._links.get(HostName(name, 0)).agent(), ANSWER)
        environments = [
            {"python": spec.python, "imports": spec.imports, "env": spec.env} for spec in desired
        ]
        return (await agent.request("keep_warm", timeout=ANSWER, environments=environments))["warm"]


def _warm(told: dict[str, Any], spec: WarmKernelSpec) -> WarmKernel:
    return WarmKernel(
        state=told["state"],
        # In whole MiB: a few bytes more or less are no news.
        memory=told["memory"] >> 20 << 20,
        imports=spec.imports,
        problem=told["problem"],
    )
