"""Waiting for several calls as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from .errors import TPUError, error_for
from .wording import hosts_text, other_hosts

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels *tasks*, and waits for their ends, 10 s at most."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=10)


async def gather_or_cancel(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """All results in order. The first failure cancels the other calls and is raised."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def gather_failures(
    calls: Mapping[K, Awaitable[T]],
) -> tuple[dict[K, T], dict[K, TPUError]]:
    """The results, and the failures; one does not end the other calls. Raises what is no TPUError
    when all have ended.
    """
    answers = await asyncio.gather(*calls.values(), return_exceptions=True)
    results: dict[K, T] = {}
    failed: dict[K, TPUError] = {}
    for key, answer in zip(calls, answers, strict=True):
        if isinstance(answer, TPUError):
            failed[key] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            results[key] = answer
    return results, failed


class SharedCalls(Generic[K, T]):
    """Callers that ask for the same key while it is being asked share the next call: none gets an
    answer that is older than its question, and a hundred callers cause two calls. On one loop.
    """

    def __init__(self) -> None:
        self._running: dict[K, asyncio.Task[T]] = {}
        self._next: dict[K, asyncio.Task[T]] = {}  # they have not begun

    async def get(self, key: K, call: Callable[[], Awaitable[T]]) -> T:
        """What *call* returns; raises what it raises. Cancelling one caller leaves the others
        alone. It has a time limit of its own.
        """
        task = self._next.get(key)
        if task is None:
            task = asyncio.ensure_future(self._run(key, call, self._running.get(key)))
            self._next[key] = task
            task.add_done_callback(_retrieved)
        return await asyncio.shield(task)

    async def _run(
        self, key: K, call: Callable[[], Awaitable[T]], before: asyncio.Task[T] | None
    ) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._running[key] = self._next.pop(key)
        try:
            return await call()
        finally:
            del self._running[key]

    async def close(self) -> None:
        """Cancels the calls."""
        await cancel_all([*self._running.values(), *self._next.values()])


def _retrieved(task: asyncio.Task[Any]) -> None:
    # All callers may have been cancelled; then no one sees the error.
    if not task.cancelled():
        task.exception()


async def finish_on_hosts(calls: Mapping[int, Awaitable[None]], hosts: int) -> None:
    """Waits for the calls to all hosts, by their numbers. A failure does not end the others.

    hosts: how many there are, also of those that need no call. Raises what failed, with what became
    of the others.
    """
    _, failed = await gather_failures(calls)
    if failed:
        raise _failure(failed, hosts)


def _failure(failed: Mapping[int, TPUError], hosts: int) -> TPUError:
    """The first error; it says which hosts failed, and that the others did not."""
    first = next(iter(failed.values()))
    others = hosts - len(failed)
    message = first.message
    if len(failed) > 1 and (others or len({error.message for error in failed.values()}) > 1):
        message = f"{hosts_text(list(failed)).capitalize()} failed. {message}"
    message += other_hosts(others, "has finished", "have finished")
    return error_for(message, first.reason, first.hint)
