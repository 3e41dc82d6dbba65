"""The links that this fleet wants up."""

from __future__ import annotations

from collections.abc import Callable

from ...cloud import NodeName
from ...links import HostName, Link, Links


class HostConnections:
    """Links held up by TPU, from connecting to disconnecting.

    changed(name) is called when the state of one of a TPU's links changes.
    """

    def __init__(self, links: Links, changed: Callable[[NodeName], None]) -> None:
        self._links = links
        self._changed = changed
        self._held: dict[NodeName, list[Link]] = {}
        self._unsubscribe: dict[NodeName, list[Callable[[], None]]] = {}

    def __contains__(self, name: NodeName) -> bool:
        return name in self._held

    def names(self) -> list[NodeName]:
        return list(self._held)

    def links(self, name: NodeName) -> list[Link]:
        """The held links of a TPU, host by host; [] if none are."""
        return self._held.get(name, [])

    def hold(self, name: NodeName, hosts: int) -> list[Link]:
        """Wishes that the links to all hosts are up. Holding twice is the same as once."""
        held = self._held.setdefault(name, [])
        unsubscribe = self._unsubscribe.setdefault(name, [])
        for worker in range(len(held), hosts):
            link = self._links.get(HostName(name, worker))
            unsubscribe.append(link.subscribe(lambda *_: self._changed(name)))
            link.hold()
            held.append(link)
        self._changed(name)
        return held

    def release(self, name: NodeName) -> None:
        for unsubscribe in self._unsubscribe.pop(name, []):
            unsubscribe()
        for link in self._held.pop(name, []):
            link.release()
        self._changed(name)

    def close(self) -> None:
        for name in self.names():
            self.release(name)
