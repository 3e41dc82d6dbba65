"""What holds a host's chips, as ``on_host.chip_holders`` finds and ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from .models import RemoteHost
from .remote_call import call
from .verification import HoldingProcess, LockFile

#: Seconds for a host to look, and to end processes in addition to the patience with them.
LOOK, END = 30.0, 60.0

#: "gone": it held no chip any more. "held": it still does, though it was killed. "refused": it is
#: another user's.
Outcome = Literal["ended", "killed", "gone", "held", "refused"]
#: "refused": it is another user's, and sudo asks for a password.
LockOutcome = Literal["deleted", "gone", "held", "refused"]

_PROGRAM: dict[str, Any] = {
    "modules": ("protocol", "paths", "processes", "calls", "lock_file", "chip_holders"),
    "shared": ("chips", "processes"),
}


class HeldChips(Struct, frozen=True, kw_only=True):
    """A host's chips: their device files, and who holds them."""

    devices: list[str]
    holders: list[HoldingProcess]
    #: False: processes of other users and containers could not be seen.
    complete: bool
    lock: LockFile


async def held_chips(host: RemoteHost) -> HeldChips:
    """Asks a host. Raises TPUError."""
    found: HeldChips = await _call(host, "all_holders", LOOK, HeldChips)
    return found


async def end_holders(
    host: RemoteHost, processes: Sequence[tuple[int, str]], patience: float
) -> list[Outcome]:
    """Ends those of *processes* (pid and start) that still hold chips, and says how that went.

    patience: seconds between SIGTERM and SIGKILL. Raises TPUError.
    """
    found: list[Outcome] = await _call(
        host,
        "end_holders",
        END + 2 * patience,
        list[Outcome],
        processes=list(processes),
        patience=patience,
    )
    return found


async def delete_lock_file(host: RemoteHost) -> LockOutcome:
    """Deletes libtpu's lock file on a host while no process holds the lock. Raises TPUError."""
    found: LockOutcome = await _call(host, "delete_lock_file", LOOK, LockOutcome)
    return found


async def _call(
    host: RemoteHost, function: str, timeout: float, kind: Any, **arguments: Any
) -> Any:
    def ignore(line: str) -> None: ...

    return await call(
        host, function, log=ignore, timeout=timeout, kind=kind, **_PROGRAM, **arguments
    )
