"""Publishes changes: coalesced, and only when something really changed.

A connect writes hundreds of log lines in a second; subscribers get the newest state of a thing a
few times per second instead.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec

from ...cloud import NodeName
from ...subscribers import Subscribers
from ..models import Change
from ..models.changes import What

log = logging.getLogger(__name__)

Subscriber = Callable[[Change], None]


class ChangeFeed:
    """Collects what changed, and publishes the newest state of it once per *interval* seconds."""

    def __init__(self, interval: float = 0.2) -> None:
        self._interval = interval
        self._describe: dict[What, Callable[[Any], Change]] = {}
        self._subscribers = Subscribers[Change]()
        self._changed: dict[tuple[What, Hashable], None] = {}
        self._published: dict[tuple[What, Hashable], bytes] = {}
        self._timer: asyncio.TimerHandle | None = None

    def register(self, what: What, find: Callable[[str], msgspec.Struct | None]) -> None:
        """Sets how things of one kind are found by id. *find* returns None for what is gone."""

        def describe(id: str) -> Change:
            record = find(id)
            return Change(what=what, id=id, gone=record is None, **{what: record})  # type: ignore[arg-type]

        self._describe[what] = describe

    def register_tpus(self, describe: Callable[[NodeName], Change]) -> None:
        """Sets how TPUs are described. They are marked as changed by their full names."""
        self._describe["tpu"] = describe

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Calls *subscriber* at each change. Returns a function that ends this."""
        return self._subscribers.add(subscriber)

    def mark_changed(self, what: What, id: Hashable) -> None:
        """Something may have changed. Call it on the loop."""
        self._changed[what, id] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self.flush)

    def marker(self, what: What) -> Callable[[str], None]:
        """Marks a thing of one kind as changed, by its id."""
        return functools.partial(self.mark_changed, what)

    def mark_tpus_changed(self, names: Iterable[NodeName]) -> None:
        for name in names:
            self.mark_tpu_changed(name)

    def mark_tpu_changed(self, name: NodeName) -> None:
        self.mark_changed("tpu", name)

    def publish(self, change: Change) -> None:
        """Publishes an event at once that is not the new state of something."""
        for subscriber in self._subscribers:
            try:
                subscriber(change)
            except Exception:  # the other subscribers are called all the same
                log.exception("A change of %s %s could not be published", change.what, change.id)

    def flush(self) -> None:
        """Publishes what was collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        changed, self._changed = self._changed, {}
        for key in changed:
            what, id = key
            try:
                change = self._describe[what](id)
                encoded = msgspec.json.encode(change)
            except Exception:  # the other changes are published all the same
                log.exception("A change of %s %s could not be described", what, id)
                continue
            if change.gone and key not in self._published:
                continue
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
