"""Ends kernels on their hosts in the background, even if a host is unreachable for a while, and
those of a process that exits.

A server stores what it needs to find its kernels again. Other programs (a console, nbclient,
papermill, a script with a KernelManager) may just exit, some right after sending a
shutdown_request. A local kernel would notice that its parent is gone, and end.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
from contextlib import suppress
from typing import Protocol

from ..errors import TPUError
from ..links import HostGone, OwnedKernel, core_thread, register_owned
from ..on_host.agent.protocol.requests import EndKernelRequest
from ..per_process import per_process
from .attachment import KernelLink

log = logging.getLogger(__name__)

#: Seconds between attempts, and seconds after which no more are made.
RETRY_SECONDS, LIMIT_SECONDS = 5.0, 3600.0


@per_process
def _shutdowns() -> set[asyncio.Task[None]]:
    return set()


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
    _shutdowns().add(task)
    task.add_done_callback(_shutdowns().discard)
    return task


def pending() -> list[str]:
    """The ids of the kernels that have not ended yet."""
    return [task.get_name() for task in _shutdowns() if not task.done()]


async def _shutdown(
    host: KernelLink, kernel_id: str, secret: str, owned: OwnedKernel | None
) -> None:
    loop = asyncio.get_running_loop()
    limit = loop.time() + LIMIT_SECONDS
    ended = False
    try:
        while loop.time() < limit:
            try:
                agent = await host.agent()
                await agent.request(EndKernelRequest(id=kernel_id, now=True, secret=secret))
                ended = True
                return
            except HostGone:
                ended = True  # with its host
                return
            except TPUError as error:
                log.info("Kernel %s has not ended yet: %s", kernel_id, error.message)
                await asyncio.sleep(RETRY_SECONDS)
    finally:
        host.release()
        if owned is not None:
            owned.close(ended=ended)


#: Seconds in which a last shutdown_request arrives here.
SHUTDOWN_REQUEST_DELAY = 0.2
#: Seconds in which a kernel that was asked to end may do so on its own.
GRACE_SECONDS = 5.0
#: Seconds by which this may delay the exit: a little more than all the waits below.
EXIT_SECONDS = 30.0


@per_process
def _kernels() -> set[RunningKernel]:
    return set()


class RunningKernel(Protocol):
    """A kernel of this process: a :class:`~.relay.KernelRelay`."""

    kernel_id: str

    @property
    def stopping(self) -> bool:
        """It was asked to end."""

    async def wait_ended(self) -> int:
        """Waits until it has ended."""

    async def cleanup(self) -> None:
        """Ends it on its host."""


def register(kernel: RunningKernel) -> None:
    """From now on *kernel* ends when this process exits, until it is unregistered."""
    if not _kernels():
        atexit.unregister(_exit)
        atexit.register(_exit)
    _kernels().add(kernel)


def unregister(kernel: RunningKernel) -> None:
    """*kernel* has ended, or was left to another process."""
    _kernels().discard(kernel)


def _exit() -> None:
    if not _kernels():
        return
    try:
        core_thread().wait(_end_all(), EXIT_SECONDS)
    except concurrent.futures.TimeoutError:
        for kernel in list(_kernels()):
            _warn(kernel.kernel_id, f"it did not end in {EXIT_SECONDS:g} s")


async def _end_all() -> None:
    kernels = list(_kernels())
    for kernel, result in zip(
        kernels, await asyncio.gather(*map(_end, kernels), return_exceptions=True), strict=True
    ):
        if isinstance(result, BaseException):
            _warn(kernel.kernel_id, str(result) or type(result).__name__)
    for id in pending():
        _warn(id, "the host could not be reached")


async def _end(kernel: RunningKernel) -> None:
    if not kernel.stopping:
        await asyncio.sleep(SHUTDOWN_REQUEST_DELAY)
    if kernel.stopping:
        with suppress(asyncio.TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await kernel.wait_ended()
    await kernel.cleanup()


def _warn(kernel_id: str, why: str) -> None:
    log.warning(
        "Kernel %s may still run on its host: %s. `jupyter tpu kernel list TPU` shows it, "
        "`jupyter tpu kernel stop TPU %s` ends it.",
        *(kernel_id, why, kernel_id),
    )
