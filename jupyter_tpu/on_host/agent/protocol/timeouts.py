"""Waits with a limit, and ends with one.

Before Python 3.12 ``asyncio.wait_for`` may swallow the cancel of its caller (python/cpython#86296),
and hosts have such Pythons; ``asyncio.timeout`` does not exist before 3.11. ``asyncio.wait`` is in
all versions and has no such error. Standard library only: programs that are sent to a host
alone take this file with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
from typing import Any, Awaitable, Iterable, Optional, TypeVar

T = TypeVar("T")
#: Seconds that a cancelled call is waited for.
CANCELLED_SECONDS = 2.0


async def with_timeout(call: Awaitable[T], seconds: Optional[float]) -> T:
    """The result of *call*; None: without a limit.

    Raises asyncio.TimeoutError after so many seconds. *call* is cancelled then, and if the caller
    is.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            await cancel_all([task])
    finally:
        task.cancel()
    if not task.done() or task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


async def is_set_within(event: asyncio.Event, seconds: Optional[float]) -> bool:
    """Whether *event* is set at the latest after so many seconds; None: without a limit."""
    with contextlib.suppress(asyncio.TimeoutError):
        await with_timeout(event.wait(), seconds)
    return event.is_set()


async def cancel_all(
    tasks: "Iterable[asyncio.Future[Any]]", seconds: float = CANCELLED_SECONDS
) -> "set[asyncio.Future[Any]]":
    """Cancels *tasks* and waits for their ends, so many seconds at most; returns those that go on.

    How they end is not looked at.
    """
    left = set(tasks)
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=seconds)
    return left


def exit_within(seconds: float) -> None:
    """This process ends within so many seconds, whatever hangs in it; what that is, is then in its
    log.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)
