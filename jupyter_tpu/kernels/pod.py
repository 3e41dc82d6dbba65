"""What a pod kernel's host needs to reach the other hosts of its TPU."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import Reason, TPUError

#: Seconds for the hosts to let each other log in. What fails there, the kernel itself says.
AUTHORIZE = 15.0


class PodHost(Protocol):
    """The part of a link that this needs."""

    async def pod_addresses(self) -> list[str]: ...

    async def authorize_pod(self) -> None: ...

    async def slice_addresses(self, others: Sequence[str]) -> list[list[str]]: ...

    async def authorize_slices(self, others: Sequence[str]) -> None: ...


async def prepare_pod(host: PodHost, slices: Sequence[str] = ()) -> dict[str, Any]:
    """Lets the hosts of a TPU log in to each other, and those of other TPUs (*slices*) that the
    kernel runs on, too. Returns ``pod`` of the agent's request ``start_kernel``.

    Raises TPUError: INVALID for a TPU of one host, and the link's problem.
    """
    if slices:
        parts = await host.slice_addresses(slices)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AUTHORIZE):
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
        async with asyncio.timeout(AUTHORIZE):
            await host.authorize_pod()
    return {"hosts": len(addresses), "address": addresses[0]}
