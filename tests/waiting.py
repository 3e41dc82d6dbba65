"""Waiting for something to become true, with a limit that is only there for what never does."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

#: Seconds between two looks.
PAUSE = 0.02


def until(
    what: Callable[[], object], limit: float = 60.0, why: Callable[[], str] = lambda: ""
) -> Any:
    """Waits for *what* to be true, which it returns; *limit* in seconds."""
    end = time.monotonic() + limit
    while not (found := what()):
        assert time.monotonic() < end, f"not within {limit} s: {why()}"
        time.sleep(PAUSE)
    return found


async def eventually(what: Callable[[], Any], limit: float = 60.0) -> Any:
    """The same, while the loop goes on; *what* may give an awaitable."""
    end = time.monotonic() + limit
    while True:
        found = what()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        await asyncio.sleep(PAUSE)
