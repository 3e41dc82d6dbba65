"""Waiting for what Compute Engine does after it has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...backoff import Backoff
from ...errors import Reason, TPUError
from ..errors import classify, tidy

#: Seconds that Compute Engine may take for one change. Networks take about a minute.
CHANGE_LIMIT = 180.0
#: Between questions whether it is done.
_PAUSES = Backoff(0.5, 5.0, factor=1.4)


async def wait_until_done(
    operation: dict[str, Any], get: Callable[[str], Awaitable[dict[str, Any]]]
) -> None:
    """Returns when *operation* is done; raises its error, and TIMEOUT.

    get: reads a path in the project. Whatever it raises becomes UNAVAILABLE: the change may
    continue.
    """
    region = str(operation.get("region", "")).rpartition("/")[2]
    where = f"regions/{region}" if region else "global"
    path = f"{where}/operations/{operation['name']}"
    try:
        async with asyncio.timeout(CHANGE_LIMIT):
            for pause in _PAUSES:
                if operation.get("status") == "DONE":
                    break
                await asyncio.sleep(pause)
                operation = await _status(get, path)
    except TimeoutError as error:
        raise TPUError(
            f"Compute Engine did not finish within {CHANGE_LIMIT:.0f} s.",
            Reason.TIMEOUT,
            "Check again in a minute.",
        ) from error
    for problem in operation.get("error", {}).get("errors", ()):
        message = str(problem.get("message", ""))
        raise TPUError(tidy(message), *classify(None, message))


async def _status(get: Callable[[str], Awaitable[dict[str, Any]]], path: str) -> dict[str, Any]:
    try:
        return await get(path)
    except TPUError as error:
        raise TPUError(error.message, Reason.UNAVAILABLE, error.hint) from error
