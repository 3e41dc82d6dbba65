"""Questions asked by several at the same time are asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Coalesces calls: all who ask for a key while it is being asked for get one answer.

    Parameters
    ----------
    ask: the question; has a time limit of its own.
    keep: seconds for which an answer (not an error) is given to others too.
    """

    def __init__(self, ask: Callable[[K], Awaitable[V]], keep: float = 0.0) -> None:
        self._ask = ask
        self._keep = keep
        self._running: dict[K, asyncio.Task[V]] = {}
        self._answers: dict[K, tuple[float, V]] = {}

    async def get(self, key: K) -> V:
        """The answer; raises what the question raised. Being cancelled cancels no one else."""
        now = asyncio.get_running_loop().time()
        known = self._answers.get(key)
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
            answer = await self._ask(key)
            self._answers[key] = (asyncio.get_running_loop().time(), answer)
            return answer
        finally:
            del self._running[key]

    def note(self, key: K, answer: V) -> None:
        """Takes an answer that came in another way."""
        self._answers[key] = (asyncio.get_running_loop().time(), answer)

    def forget(self, key: K) -> None:
        """The next question is asked, whatever is kept."""
        self._answers.pop(key, None)

    async def close(self) -> None:
        """Gives up the questions under way."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _retrieved(task: asyncio.Task) -> None:
    # Those who asked may all have gone; the error is then nobody's.
    if not task.cancelled():
        task.exception()
