"""A kernel's process on its host: starts it exactly once over an unreliable link, and ends it. For
a pod kernel, the hosts let each other log in first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import Reason, TPUError, error_for
from ..files.sync import MirrorHost
from ..links import OwnedKernel, end_orphans, register_owned
from ..on_host.agent.protocol.requests import KernelStart, StartKernelRequest
from .attachment import KernelLink
from .exit_cleanup import shutdown_in_background

log = logging.getLogger(__name__)

#: Seconds to wait until a host has ended a kernel. After that it is done in the background.
SHUTDOWN_TIMEOUT = 8.0
#: Seconds between attempts to start a kernel whose host cannot be reached.
RETRY_SECONDS = 0.2


class HostKernel:
    """One kernel id on its host, over all restarts. Runs on the core loop.

    Parameters
    ----------
    host: the link to the host.
    kernel_id: its id on the host.
    secret: for its lease.
    owned: the kernel is ended if this process is killed; else it stays for other clients.
    """

    def __init__(
        self, host: KernelLink, kernel_id: str, secret: str, *, owned: bool = False
    ) -> None:
        self._host = host
        self._kernel_id = kernel_id
        self._secret = secret
        self._owned = owned
        self._ownership: OwnedKernel | None = None
        self._acquired = False

    def acquire(self) -> None:
        """Keeps the link until :meth:`release`."""
        if not self._acquired:
            self._acquired = True
            self._host.acquire()

    def release(self) -> None:
        """The kernel has ended, or is left to another process: its link is not needed."""
        self.unregister()
        if self._acquired:
            self._acquired = False
            self._host.release()

    async def start(self, request: dict[str, Any], timeout: float) -> KernelStart:
        """Starts the kernel. Returns the daemon's answer, when its keeper has started it.

        Raises TPUError: the link's problem, TIMEOUT, ENVIRONMENT if the host lacks the environment,
        EXISTS. Then no kernel stays on the host.
        """
        # Repeated requests of one launch start one kernel.
        request |= {"id": self._kernel_id, "secret": self._secret, "launch": uuid.uuid4().hex}
        unconfirmed = False  # the host may have started the kernel without our knowledge
        try:
            async with asyncio.timeout(timeout):
                while True:
                    agent = await self._host.agent()
                    await end_orphans(agent, self._host.host_id)  # they may hold the chips
                    if self._owned and self._ownership is None:
                        self._ownership = register_owned(
                            self._host.host_id, self._kernel_id, self._secret
                        )
                    unconfirmed = True
                    try:
                        return await agent.request(StartKernelRequest(**request))
                    except TPUError as error:
                        if error.reason is not Reason.UNREACHABLE:
                            unconfirmed = False
                            raise
                        log.info("Starting kernel %s: %s", self._kernel_id, error.message)
                        await asyncio.sleep(RETRY_SECONDS)
        except BaseException as error:
            problem = self._host.problem
            if unconfirmed:
                await self.shutdown()
            if isinstance(error, TimeoutError):
                raise _timeout_error(timeout, problem) from None
            raise

    async def shutdown(self) -> None:
        """Ends the kernel. Takes at most SHUTDOWN_TIMEOUT seconds; the rest is done later."""
        owned, self._ownership = self._ownership, None
        shutdown = shutdown_in_background(self._host, self._kernel_id, self._secret, owned)
        await asyncio.wait([shutdown], timeout=SHUTDOWN_TIMEOUT)

    def unregister(self) -> None:
        """The kernel has ended, or another client has it: it is not ended with this process."""
        if self._ownership is not None:
            self._ownership.close(ended=True)
            self._ownership = None


def _timeout_error(timeout: float, problem: TPUError | None) -> TPUError:
    message = f"The kernel's host did not answer within {timeout:g} s."
    if problem is None:
        return TPUError(message, Reason.TIMEOUT, "Try again, or check the TPU in the panel.")
    return error_for(f"{message} {problem.message}", problem.reason, problem.hint)


#: Seconds for the hosts to let each other log in. What fails there, the kernel itself says.
AUTHORIZE_SECONDS = 15.0


class PodHost(Protocol):
    """The part of a link that this needs."""

    async def pod_addresses(self) -> list[str]: ...

    async def authorize_pod(self) -> None: ...

    async def slice_addresses(self, others: Sequence[str]) -> list[list[str]]: ...

    async def authorize_slices(self, others: Sequence[str]) -> None: ...


class KernelHost(KernelLink, MirrorHost, PodHost, Protocol):
    """The part of a link that a kernel and its project need."""


async def prepare_pod(host: PodHost, slices: Sequence[str] = ()) -> dict[str, Any]:
    """Lets the hosts of a TPU log in to each other, and those of other TPUs (*slices*) that the
    kernel runs on, too. Returns ``pod`` of the agent's request ``start_kernel``.

    Raises TPUError: INVALID for a TPU of one host, and the link's problem.
    """
    if slices:
        parts = await host.slice_addresses(slices)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AUTHORIZE_SECONDS):
                await host.authorize_slices(slices)
        sizes = [len(part) for part in parts]
        return {"hosts": sum(sizes), "address": parts[0][0], "slices": sizes}
    addresses = await host.pod_addresses()
    if len(addresses) < 2:
        raise TPUError(
            "This kernel runs on all hosts of a TPU, and the TPU has one host.",
            Reason.INVALID,
            "Choose the TPU's other kernel.",
        )
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AUTHORIZE_SECONDS):
            await host.authorize_pod()
    return {"hosts": len(addresses), "address": addresses[0]}
