"""Hosts give something to each other: it leaves this computer once, and the number of hosts that
have it doubles in each round.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

H = TypeVar("H")


class Relay(Generic[H]):
    """Which hosts can give it to another one now. On an asyncio loop.

    A host that has it gives it to one at a time.
    """

    def __init__(self) -> None:
        self._idle: list[H] = []
        self._lost: set[H] = set()
        self._waiting = 0
        self._running = 0
        self._changed = asyncio.Condition()

    @property
    def is_waited_for(self) -> bool:
        return self._waiting > 0

    @contextlib.asynccontextmanager
    async def source(self) -> AsyncIterator[H | None]:
        """A host from which another one gets it; None if no host has it or is getting it. Waits
        until there is one.
        """
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: self._idle or not self._running)
            finally:
                self._waiting -= 1
            source = self._idle.pop(0) if self._idle else None
            self._running += 1
        try:
            yield source
        finally:
            self._running -= 1
            if source is not None and source not in self._lost:
                self._idle.append(source)
            await self._notify()

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
            await self._changed.wait_for(lambda: host in self._idle and not self._waiting)
            self._idle.remove(host)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
