"""What tunnels and apps share: a port of a host, forwarded over a link that is held for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from ...errors import TPUError
from ...links import Link, LinkState

#: How often the counts of bytes are checked; seconds.
COUNT_EVERY = 1.0

_REACHABLE = (LinkState.UP, LinkState.SILENT)


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
