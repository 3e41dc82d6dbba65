"""The hosts of connected pods can log in to each other, before the first pod kernel needs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...agent.protocol.requests import PodAddress
from ...cloud import NodeName
from ...errors import TPUError
from ...links import LinkState
from ..core.connections import HostConnections

log = logging.getLogger(__name__)

#: Seconds until the hosts of a pod that could not be authorized are tried again.
RETRY = 60.0


class PodHosts:
    """Authorizes the hosts of each connected TPU that has several, once the links to all are up.

    on_ready: called when another pod is ready.
    """

    def __init__(self, connections: HostConnections, on_ready: Callable[[], None]) -> None:
        self._connections = connections
        self._on_ready = on_ready
        self._addresses: dict[NodeName, PodAddress] = {}
        self._begun: set[NodeName] = set()
        self._changed = asyncio.Event()
        connections.changed.add(lambda _: self._changed.set())

    def address(self, name: NodeName) -> PodAddress | None:
        """Where the agent of host 0 reaches the others; None if it can't yet."""
        return self._addresses.get(name)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._begun = set(self._addresses)  # after an error, the others are tried again
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                connected = set(self._connections.names())
                for name in self._begun - connected:
                    self._begun.discard(name)
                    self._addresses.pop(name, None)
                for name in filter(self._is_up, connected - self._begun):
                    self._begun.add(name)
                    tasks.create_task(self._authorize(name))
                await self._changed.wait()

    def _is_up(self, name: NodeName) -> bool:
        links = self._connections.links(name)
        return len(links) > 1 and all(link.state is LinkState.UP for link in links)

    async def _authorize(self, name: NodeName) -> None:
        try:
            link = self._connections.links(name)[0]
            addresses = await link.pod_addresses()
            await link.authorize_pod()
        except (TPUError, IndexError) as error:
            log.info("The hosts of %s can't log in to each other yet: %s", name, error)
            await asyncio.sleep(RETRY)
            self._begun.discard(name)
            self._changed.set()
            return
        if name in self._connections:
            self._addresses[name] = {"hosts": len(addresses), "address": addresses[0]}
            self._on_ready()
