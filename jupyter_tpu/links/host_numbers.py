"""Asks hosts for Google's numbers of them, which they have in their metadata."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from ..concurrency import gather_failures
from ..errors import Reason, TPUError
from ..ssh import CompletedCommand, HostAddress, connect

_ANSWER_SECONDS = 20.0  # seconds
#: A host's guest agent may take some time to accept our key: between two tries, seconds.
_KEY_PAUSE = 1.0
_AT_ONCE = 32
_ASK = """\
host=${GCE_METADATA_HOST:-metadata.google.internal}
url=http://$host/computeMetadata/v1/instance/attributes/agent-worker-number
flavor='Metadata-Flavor: Google'
curl -sf -m 8 -H "$flavor" "$url" || wget -qO- -T 8 --header="$flavor" "$url"
"""


async def ask_host_numbers(
    count: int, address: Callable[[int], Awaitable[tuple[HostAddress, float]]]
) -> tuple[dict[int, int | None], dict[int, TPUError]]:
    """What each of *count* hosts says, by its place, and why some can't be asked.

    address: where a host is, and for how many seconds it may still reject our key.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(place: int) -> int | None:
        async with limit:
            where, key_wait = await address(place)
            until = time.monotonic() + key_wait
            while True:
                try:
                    connection = await connect(where)
                    break
                except TPUError as error:
                    if error.reason is not Reason.PERMISSION or time.monotonic() > until:
                        raise
                    await asyncio.sleep(_KEY_PAUSE)
            try:
                return await read_host_number(connection)
            finally:
                await connection.close()

    return await gather_failures({place: ask(place) for place in range(count)})


class _Host(Protocol):
    """A connection or a link."""

    @property
    def run(self) -> Callable[..., Awaitable[CompletedCommand]]: ...


async def read_host_number(connection: _Host) -> int | None:
    """The number; None for a machine that is not of a TPU, or does not say it."""
    try:
        done = await connection.run(
            ["sh", "-c", _ASK], timeout=_ANSWER_SECONDS, max_output=1 << 10, check=False
        )
    except TPUError:
        return None
    said = done.stdout.strip()
    return int(said) if re.fullmatch(r"\d{1,4}", said, re.ASCII) else None
