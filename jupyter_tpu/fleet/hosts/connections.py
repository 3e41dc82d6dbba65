"""The links that this fleet wants up."""

from __future__ import annotations

from collections.abc import Callable

from ...cloud import NodeName
from ...links import HostName, Link, Links


class HostConnections:
    """Links links up by TPU, from connecting to disconnecting.

    changed(name) is called when the state of one of a TPU's links changes.
    """

    def __init__(self, links: Links, changed: Callable[[NodeName], None]) -> None:
        self._links = links
        self._changed = changed
        self._links_of: dict[NodeName, list[Link]] = {}
        self._unsubscribe: dict[NodeName, list[Callable[[], None]]] = {}

    def __contains__(self, name: NodeName) -> bool:
        return name in self._links_of

    def names(self) -> list[NodeName]:
        return list(self._links_of)

    def links(self, name: NodeName) -> list[Link]:
        """The links links of a TPU, host by host; [] if none are."""
        return self._links_of.get(name, [])

    def acquire(self, name: NodeName, hosts: int) -> list[Link]:
        """Wishes that the links to all hosts are up. Holding twice is the same as once."""
        links = self._links_of.setdefault(name, [])
        unsubscribe = self._unsubscribe.setdefault(name, [])
        for worker in range(len(links), hosts):
            link = self._links.get(HostName(name, worker))
            unsubscribe.append(link.subscribe(lambda *_: self._changed(name)))
            link.acquire()
            links.append(link)
        self._changed(name)
        return links

    def release(self, name: NodeName) -> None:
        for unsubscribe in self._unsubscribe.pop(name, []):
            unsubscribe()
        for link in self._links_of.pop(name, []):
            link.release()
        self._changed(name)

    def close(self) -> None:
        for name in self.names():
            self.release(name)
