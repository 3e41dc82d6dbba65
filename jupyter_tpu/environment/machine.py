"""What a machine that is about to be attached says of itself."""

from __future__ import annotations

from msgspec import Struct

from .models import RemoteHost
from .remote_call import call

LIMIT = 60.0  # seconds


class Machine(Struct, frozen=True, kw_only=True):
    #: The generation of each TPU chip; "" of one that is not known. Empty: it has none.
    chips: list[str]
    #: Its address for other hosts; "" if it does not know one.
    address: str


async def describe_machine(host: RemoteHost) -> Machine:
    """Asks it. Raises NO_PYTHON, ENVIRONMENT, UNREACHABLE, TIMEOUT."""
    found: Machine = await call(
        host,
        "describe_machine",
        log=lambda line: None,
        timeout=LIMIT,
        modules=("protocol", "paths", "processes", "calls", "machine"),
        shared=("chips", "processes"),
        kind=Machine,
    )
    return found
