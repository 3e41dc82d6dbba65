"""What a pod kernel's host needs to reach the other hosts of its TPU."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

from ..errors import Reason, TPUError

#: Seconds for the hosts to let each other log in. What fails there, the kernel itself says.
AUTHORIZE = 15.0


class PodHost(Protocol):
    """The part of a link that this needs."""

    async def pod_addresses(self) -> list[str]: ...

    async def authorize_pod(self) -> None: ...


async def prepare_pod(host: PodHost) -> dict[str, Any]:
    """Lets the hosts of a TPU log in to each other. Returns ``pod`` of the agent's request
    ``start_kernel``.

    Raises TPUError: INVALID for a TPU of one host, and the link's problem.
    """
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
