"""Ends kernels on their hosts in the background, even if a host is unreachable for a while.

What this process could not end is ended by the next one that reaches the host.
"""

from __future__ import annotations

import asyncio
import logging

from ..agent.protocol.requests import EndKernel
from ..errors import TPUError
from ..links import HostGone, OwnedKernel, register_owned
from .attachment import KernelLink

log = logging.getLogger(__name__)

#: Seconds between attempts, and seconds after which no more are made.
RETRY, LIMIT = 5.0, 3600.0

_shutdowns: set[asyncio.Task[None]] = set()


def shutdown_in_background(
    host: KernelLink, kernel_id: str, secret: str, owned: OwnedKernel | None = None
) -> asyncio.Task[None]:
    """Starts to end a kernel and its child processes. The task is done when all have ended.

    secret: for its lease: a kernel that another client has taken over is not ended.
    owned: what :func:`~jupyter_tpu.links.register_owned` gave for it; closed here.
    """
    host.acquire()
    task = asyncio.get_running_loop().create_task(
        _shutdown(
            host, kernel_id, secret, owned or register_owned(host.host_id, kernel_id, secret)
        ),
        name=kernel_id,
    )
    _shutdowns.add(task)
    task.add_done_callback(_shutdowns.discard)
    return task


def pending() -> list[str]:
    """The ids of the kernels that have not ended yet."""
    return [task.get_name() for task in _shutdowns if not task.done()]


async def _shutdown(
    host: KernelLink, kernel_id: str, secret: str, owned: OwnedKernel | None
) -> None:
    loop = asyncio.get_running_loop()
    limit = loop.time() + LIMIT
    ended = False
    try:
        while loop.time() < limit:
            try:
                agent = await host.agent()
                await agent.request(EndKernel(id=kernel_id, now=True, secret=secret))
                ended = True
                return
            except HostGone:
                ended = True  # with its host
                return
            except TPUError as error:
                log.info("Kernel %s has not ended yet: %s", kernel_id, error.message)
                await asyncio.sleep(RETRY)
    finally:
        host.release()
        if owned is not None:
            owned.close(ended=ended)
