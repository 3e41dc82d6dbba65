"""Looks at what a job does: its processes, and what libtpu says of their chips."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Dict

from ..keeper.job_stacks import job_processes
from ..metrics.libtpu import read, read_places
from ..protocol.timeouts import with_timeout

#: Seconds for libtpu to answer.
LIBTPU_SECONDS = 1.0


async def look_into(root: int) -> Dict[str, Any]:
    """What a request for the stacks of the job that the process *root* keeps is answered."""
    loop = asyncio.get_running_loop()
    found, libtpu = await asyncio.gather(
        loop.run_in_executor(None, job_processes, root), _ask_libtpu()
    )
    answer: Dict[str, Any] = {"processes": found.processes, "more": found.more}
    return {**answer, **libtpu} if found.has_all_chips else answer


async def _ask_libtpu() -> Dict[str, Any]:
    """Nothing is answered by an emulated chip whose program holds the GIL."""
    with contextlib.suppress(asyncio.TimeoutError):
        places = await with_timeout(read_places(), LIBTPU_SECONDS)
        figures, _ = await with_timeout(read(0), LIBTPU_SECONDS)
        return {"places": places, "queue": figures.queue if figures else None}
    return {}
