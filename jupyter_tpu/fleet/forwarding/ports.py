"""Ports of hosts: checked in a request, and forwarded over a link that is held for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from ...cloud import Node
from ...errors import InvalidInput, TPUError
from ...links import Link, LinkState, no_such_host

#: How often the counts of bytes are checked; seconds.
COUNT_EVERY = 1.0

_REACHABLE = (LinkState.UP, LinkState.SILENT)


def check_host_port(node: Node, port: int, host: int) -> None:
    """Raises INVALID for a wrong port, or for a host that the TPU does not have."""
    check_port(port, "on the host")
    check_host(node, host)


def check_host(node: Node, host: int) -> None:
    """Raises INVALID for a host that the TPU does not have."""
    if not 0 <= host < len(node.endpoints):
        raise no_such_host(node.name.node, host, len(node.endpoints))


def check_port(port: int, where: str) -> None:
    if not 1 <= port <= 65535:
        raise InvalidInput(f"{port} is not a port {where}.", "Ports are 1 to 65535.")


class ByteStream(Protocol):
    """What carries the bytes: a tunnel's `Forwarder`, or an app's `Upstream`."""

    sent: int
    received: int

    async def close(self) -> None: ...


class ForwardedPort:
    """Keeps *link* up for *stream*. changed() is called when the state changes."""

    def __init__(self, link: Link, stream: ByteStream, changed: Callable[[], None]) -> None:
        self.link = link
        self._stream = stream
        self._counts = (0, 0)
        self._unsubscribe = link.subscribe(lambda _: changed())
        link.acquire()

    @property
    def state(self) -> Literal["open", "waiting", "needs-attention"]:
        if self.link.state in _REACHABLE:
            return "open"
        return "needs-attention" if self.link.state is LinkState.NEEDS_ATTENTION else "waiting"

    @property
    def problem(self) -> TPUError | None:
        """Why it is not open."""
        return self.link.problem if self.state != "open" else None

    def had_traffic(self) -> bool:
        """Whether bytes were transferred since the last call."""
        before, self._counts = self._counts, (self._stream.sent, self._stream.received)
        return before != self._counts

    async def close(self) -> None:
        self._unsubscribe()
        await self._stream.close()
        self.link.release()
