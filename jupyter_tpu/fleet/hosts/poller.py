"""One poll per connected TPU: asks the agent of host 0 once for all that is shown of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import to_builtins

from ...cloud import NodeName
from ...environment import gather_or_cancel
from ...errors import TPUError
from ..knowledge.failures import TPUFailures
from .connections import HostConnections
from .kernels import KernelMonitor
from .warm_kernels import WarmKernelMonitor

#: Between two polls, and while a warm kernel is being started; seconds.
INTERVAL = 10.0
INTERVAL_STARTING = 1.0
#: After this, what was just started is listed; seconds.
SETTLE = 0.3
_WHAT = "Kernels"


class HostPoller:
    """Asks the agents for kernels and warm kernels at intervals, over links that are up.

    packages(name, reports) is called with what is asked for in the environments of a TPU.
    """

    def __init__(
        self,
        connections: HostConnections,
        kernels: KernelMonitor,
        warm: WarmKernelMonitor,
        failures: TPUFailures,
        packages: Callable[[NodeName, Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        self._connections = connections
        self._kernels = kernels
        self._warm = warm
        self._failures = failures
        self._packages = packages
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something was started, ended or requested: poll soon."""
        self._wake.set()

    async def run(self) -> None:
        """Polls until it is cancelled."""
        while True:
            self._wake.clear()
            up = [name for name in self._connections.names() if self._connections.is_up(name)]
            await gather_or_cancel([self._poll_safely(name) for name in up])
            self._warm.forget_disconnected()
            self._failures.retain(_WHAT, self._connections.names())
            pause = INTERVAL_STARTING if self._warm.starting() else INTERVAL
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                await asyncio.sleep(SETTLE)

    async def _poll_safely(self, name: NodeName) -> None:
        """If a host does not answer, what was known stays; its link has the reason."""
        if self._failures.waits(name, _WHAT):
            return
        try:
            await self._poll(name)
        except TPUError:
            pass
        except Exception as error:  # an answer that can't be read, for example
            self._failures.record(name, _WHAT, error)
            return
        self._failures.clear(name, _WHAT)

    async def _poll(self, name: NodeName) -> None:
        specs = self._warm.specs(name)
        answer = await self._connections.request(
            name, "status", environments=to_builtins(list(specs.values()))
        )
        if name not in self._connections:
            return  # disconnected meanwhile
        self._kernels.update(name, answer["kernels"])
        self._warm.update(name, specs, answer["warm"])
        await self._packages(name, answer["packages"])
