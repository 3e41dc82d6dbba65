"""What a machine reports about itself before it is attached."""

from __future__ import annotations

from .host_answers import Machine
from .models import RemoteHost
from .remote_call import call

LIMIT = 60.0  # seconds


async def describe_machine(host: RemoteHost) -> Machine:
    """Asks it. Raises NO_PYTHON, ENVIRONMENT, UNREACHABLE, TIMEOUT."""
    answer: Machine = await call(
        host,
        "describe_machine",
        log=lambda line: None,
        timeout=LIMIT,
        main="environment.on_host.machine",
    )
    return answer
