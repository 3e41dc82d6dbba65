"""Who is told what changed: coalesced, and only when it really did.

A connect writes hundreds of log lines in a second; subscribers get the newest state of a thing a
few times per second instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ..models import Change

Subscriber = Callable[[Change], None]


class ChangeFeed:
    """Collects what is dirty and tells *describe*'s answer about it once per *interval* seconds.

    describe((what, id)) gives the thing's state now, as a Change; None if it never was there.
    """

    def __init__(
        self, describe: Callable[[str, str], Change | None], interval: float = 0.2
    ) -> None:
        self._describe = describe
        self._interval = interval
        self._subscribers: list[Subscriber] = []
        self._dirty: dict[tuple[str, str], None] = {}
        self._published: dict[tuple[str, str], bytes] = {}
        self._timer: asyncio.TimerHandle | None = None

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def mark_changed(self, what: str, id: str) -> None:
        """Says that this may have changed; on the loop."""
        self._dirty[what, id] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self.flush)

    def publish(self, change: Change) -> None:
        """Tells of something that happens, rather than is."""
        for subscriber in tuple(self._subscribers):
            subscriber(change)

    def flush(self) -> None:
        """Tells now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            change = self._describe(*key)
            if change is None or (change.gone and key not in self._published):
                continue
            encoded = msgspec.json.encode(change)
            if self._published.get(key) == encoded:
                continue
            if change.gone:
                del self._published[key]
            else:
                self._published[key] = encoded
            self.publish(change)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._subscribers.clear()
