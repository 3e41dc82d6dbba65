"""The links to the hosts of connected TPUs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from ...agent.protocol.declarations import Answer, Request
from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...links import HostName, Link, Links, LinkState
from ...subscribers import Subscribers

#: How long an agent may take to answer, and to be installed and started before; seconds.
ANSWER = 15.0
DEPLOYMENT = 60.0


class HostConnections:
    """The links of each TPU, kept up while it is connected."""

    def __init__(self, links: Links) -> None:
        self._links = links
        #: Called with a TPU when the state of one of its links changes.
        self.changed = Subscribers[NodeName]()
        self._acquired: dict[NodeName, list[Link]] = {}
        self._unsubscribe: dict[NodeName, list[Callable[[], None]]] = {}

    def __contains__(self, name: NodeName) -> bool:
        return name in self._acquired

    def names(self) -> list[NodeName]:
        return list(self._acquired)

    def links(self, name: NodeName) -> list[Link]:
        """The acquired links of a TPU, host by host; [] if there are none."""
        return self._acquired.get(name, [])

    def link(self, host: HostName) -> Link:
        """The link to one host, acquired or not."""
        return self._links.get(host)

    def acquire(self, name: NodeName, hosts: int) -> list[Link]:
        """Keeps the links to all hosts up until :meth:`release`. A second call changes nothing."""
        links = self._acquired.setdefault(name, [])
        unsubscribe = self._unsubscribe.setdefault(name, [])
        for worker in range(len(links), hosts):
            link = self._links.get(HostName(name, worker))
            unsubscribe.append(link.subscribe(lambda *_: self._mark_changed(name)))
            link.acquire(in_use=False)
            links.append(link)
        self._mark_changed(name)
        return links

    def release(self, name: NodeName) -> None:
        for unsubscribe in self._unsubscribe.pop(name, []):
            unsubscribe()
        for link in self._acquired.pop(name, []):
            link.release(in_use=False)
        self._mark_changed(name)

    def close(self) -> None:
        for name in self.names():
            self.release(name)

    def _mark_changed(self, name: NodeName) -> None:
        for changed in self.changed:
            changed(name)

    @contextlib.asynccontextmanager
    async def borrow(
        self, host: HostName, timeout: float, *, in_use: bool = True
    ) -> AsyncIterator[Link]:
        """The link to one host, once it is up. TPUError if that takes over *timeout* seconds.

        in_use: see `Link.acquire`.
        """
        link = self._links.get(host)
        link.acquire(in_use=in_use)
        try:
            await link.wait_up(timeout=timeout)
            yield link
        finally:
            link.release(in_use=in_use)

    async def request(
        self, name: NodeName, request: Request[Answer], timeout: float = ANSWER
    ) -> Answer:
        """The answer of host 0's agent; see :meth:`request_host`."""
        return await self.request_host(HostName(name, 0), request, timeout)

    async def request_host(
        self,
        host: HostName,
        request: Request[Answer],
        timeout: float = ANSWER,
        *,
        in_use: bool = True,
    ) -> Answer:
        """The answer of a host's agent. Raises TPUError, TIMEOUT after *timeout* seconds.

        in_use: see `Link.acquire`.
        """
        async with self.borrow(host, timeout, in_use=in_use) as link:
            try:
                async with asyncio.timeout(DEPLOYMENT):
                    agent = await link.agent()
            except TimeoutError:
                raise TPUError(
                    f"The agent on {link.host} did not start in time.",
                    Reason.TIMEOUT,
                    "Will be retried.",
                ) from None
            return await agent.request(request, timeout)


class PolledHosts:
    """The hosts that are asked all the time for what they have to say (by `HostPoller`)."""

    def __init__(self, connections: HostConnections) -> None:
        self._connections = connections
        connections.changed.add(lambda _: self.wake())
        self.asked: set[HostName] = set()
        self.answering: set[HostName] = set()
        self.woken = asyncio.Event()

    def wake(self) -> None:
        """There may be another host to ask, or something else to ask for."""
        self.woken.set()

    def polls(self, host: HostName) -> bool:
        """Whether this host is asked."""
        return host in self.asked

    def reports(self, host: HostName) -> bool:
        """Whether this host answers, so that what is known of it is what it last reported."""
        return host in self.answering and self._connections.link(host).state is LinkState.UP
