"""Hosts give something to each other: it leaves this computer once, and the number of hosts that
have it doubles in each round.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Generic, TypeVar

H = TypeVar("H")


class TransferRelay(Generic[H]):
    """Which hosts can give it to another one now. On an asyncio loop.

    A host that has it gives it to one at a time.

    Parameters
    ----------
    pending: hosts of which it is not known yet whether they need it; for :class:`Relays`.
    changed: notified when the answers of methods may be other ones.
    """

    def __init__(
        self, pending: set[H] | None = None, changed: asyncio.Condition | None = None
    ) -> None:
        self._pending = set() if pending is None else pending
        self._changed = changed or asyncio.Condition()
        self._idle: list[H] = []
        self._lost: set[H] = set()
        self._waiting = 0
        self._running = 0

    @contextlib.asynccontextmanager
    async def source(self, host: H | None = None) -> AsyncIterator[H | None]:
        """A host from which another one, *host*, gets it; None if no host has it or is getting it.
        Waits until there is one.
        """
        self._waiting += 1
        if host is not None:
            self._pending.discard(host)
        try:
            async with self._changed:
                self._changed.notify_all()
                await self._changed.wait_for(lambda: self._idle or not self._running)
                source = self._idle.pop(0) if self._idle else None
                self._running += 1
        finally:
            self._waiting -= 1
        try:
            yield source
        finally:
            self._running -= 1
            if source is not None and source not in self._lost:
                self._idle.append(source)
            await self._notify()

    async def is_waited_for(self) -> bool:
        """Whether another host needs it. Waits until one does, or none can any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting or not self._pending)
        return self._waiting > 0

    async def add(self, host: H) -> None:
        """*host* has it now. Call it within :meth:`source`: else others do not wait for it."""
        self._idle.append(host)
        await self._notify()

    def drop(self, host: H) -> None:
        """*host*, which is a source now, can't be used any more."""
        self._lost.add(host)

    async def leave(self, host: H) -> None:
        """Waits until no host needs *host*, which is not used any more then."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: host in self._idle and not self._waiting and not self._pending
            )
            self._idle.remove(host)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class Relays(Generic[H]):
    """A :class:`TransferRelay` for each thing that *hosts* may need. What each needs is found out
    on it, on some sooner than on others: a host that has a thing waits for all of them.
    """

    def __init__(self, hosts: Iterable[H]) -> None:
        self._pending = set(hosts)
        self._changed = asyncio.Condition()
        self._by_thing: dict[str, TransferRelay[H]] = {}

    def of(self, thing: str) -> TransferRelay[H]:
        """A host that needs the thing names itself to :meth:`TransferRelay.source`."""
        return self._by_thing.setdefault(thing, TransferRelay(self._pending, self._changed))

    async def needs_nothing(self, host: H) -> None:
        """*host* does not ask any more: it needs nothing, or has failed."""
        self._pending.discard(host)
        async with self._changed:
            self._changed.notify_all()
