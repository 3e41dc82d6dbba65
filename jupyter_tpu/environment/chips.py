"""What holds a host's chips, as ``on_host.chip_holders`` finds and ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ssh.host_values import InvalidAnswer
from .host_answers import HeldChips, LockOutcome, Outcome
from .models import RemoteHost
from .remote_call import call

#: Seconds for a host to look, and to end processes in addition to the patience with them.
LOOK, END = 30.0, 60.0

_PROGRAM = "environment.on_host.chip_holders"


async def held_chips(host: RemoteHost) -> HeldChips:
    """Asks a host. Raises TPUError."""
    held: HeldChips = await _call(host, "all_holders", LOOK)
    return held


async def end_holders(
    host: RemoteHost, processes: Sequence[tuple[int, str]], patience: float
) -> list[Outcome]:
    """Ends those of *processes* (pid and start) that still hold chips, and says how that went.

    patience: seconds between SIGTERM and SIGKILL. Raises TPUError.
    """
    outcomes: list[Outcome] = await _call(
        host, "end_holders", END + 2 * patience, processes=list(processes), patience=patience
    )
    if len(outcomes) != len(processes):
        raise InvalidAnswer("end_holders", f"Expected {len(processes)} outcomes")
    return outcomes


async def delete_lock_file(host: RemoteHost) -> LockOutcome:
    """Deletes libtpu's lock file on a host while no process holds the lock. Raises TPUError."""
    outcome: LockOutcome = await _call(host, "delete_lock_file", LOOK)
    return outcome


async def _call(host: RemoteHost, function: str, timeout: float, **arguments: Any) -> Any:
    def ignore(line: str) -> None: ...

    return await call(host, function, log=ignore, timeout=timeout, main=_PROGRAM, **arguments)
