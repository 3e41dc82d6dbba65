"""How the fleet itself is doing."""

from __future__ import annotations

from msgspec import Struct

from .problems import Problem


class LoopStatus(Struct, kw_only=True):
    """One of the loops that keep TPUs as they should be. A failure ends none of them."""

    name: str
    failures: int = 0
    last_failure: str = ""  # when
    last_error: str = ""


class FleetStatus(Struct, kw_only=True):
    """The project that is shown, and the health of what keeps it up to date."""

    project: str = ""
    emulated: bool = False
    #: Why the list of TPUs may be out of date.
    problem: Problem | None = None
    loops: list[LoopStatus] = []
