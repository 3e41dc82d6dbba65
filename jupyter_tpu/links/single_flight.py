"""Calls for the same key at the same time become one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Callers that ask for a key while a call for it is running share its result.

    Parameters
    ----------
    call: gets the value of a key; it has a time limit of its own.
    keep: seconds for which a value (not an error) is reused.
    """

    def __init__(self, call: Callable[[K], Awaitable[V]], keep: float = 0.0) -> None:
        self._call = call
        self._keep = keep
        self._running: dict[K, asyncio.Task[V]] = {}
        self._values: dict[K, tuple[float, V]] = {}

    async def get(self, key: K) -> V:
        """The value; raises what the call raised. Cancelling one caller leaves the others alone."""
        now = asyncio.get_running_loop().time()
        known = self._values.get(key)
        if known is not None and now - known[0] < self._keep:
            return known[1]
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(self._run(key))
            self._running[key] = task
            task.add_done_callback(_retrieved)
        return await asyncio.shield(task)

    async def _run(self, key: K) -> V:
        try:
            value = await self._call(key)
            self._values[key] = (asyncio.get_running_loop().time(), value)
            return value
        finally:
            del self._running[key]

    def note(self, key: K, value: V) -> None:
        """Stores a value that came in another way."""
        self._values[key] = (asyncio.get_running_loop().time(), value)

    def forget(self, key: K) -> None:
        """The next caller gets a new value."""
        self._values.pop(key, None)

    async def close(self) -> None:
        """Cancels the running calls."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _retrieved(task: asyncio.Task) -> None:
    # All callers may have been cancelled; then no one sees the error.
    if not task.cancelled():
        task.exception()
