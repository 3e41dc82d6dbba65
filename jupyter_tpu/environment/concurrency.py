"""Waiting for several calls as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any


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
