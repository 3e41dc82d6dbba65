"""Waiting for something to become true, with a limit that is only there for what never does."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

#: Seconds between the first two looks, and at most: who looks takes the processor from what it
#: waits for.
PAUSE, LONGEST = 0.02, 0.25


def until(
    what: Callable[[], object], limit: float = 60.0, why: Callable[[], str] = lambda: ""
) -> Any:
    """Waits for *what* to be true, which it returns; *limit* in seconds."""
    end, pause = time.monotonic() + limit, PAUSE
    while not (answer := what()):
        assert time.monotonic() < end, f"not within {limit} s: {why()}"
        time.sleep(pause)
        pause = min(1.2 * pause, LONGEST)
    return answer


async def eventually(what: Callable[[], Any], limit: float = 60.0) -> Any:
    """The same, while the loop goes on; *what* may give an awaitable."""
    end, pause = time.monotonic() + limit, PAUSE
    while True:
        answer = what()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, LONGEST)
