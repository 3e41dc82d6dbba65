"""How the fleet itself is doing."""

from __future__ import annotations

from msgspec import Struct

from .problems import Problem


class LoopStatus(Struct, kw_only=True):
    """One of the loops that keep TPUs as they should be. A failure ends none of them."""

    name: str
    #: Whether it failed a moment ago: it has to run for a while before it is trusted again.
    failing: bool = False
    failures: int = 0
    last_failure: str = ""  # when
    last_error: str = ""


class FailingTPU(Struct, kw_only=True):
    """Something that could not be done for one TPU, and is retried."""

    tpu: str
    zone: str
    what: str  # "Kernelspecs and links", "Host 0", "Tunnels"
    problem: Problem
    failures: int = 1  # in a row
    since: str = ""
    retry_at: str = ""


class FleetStatus(Struct, kw_only=True):
    """The project that is shown, and the health of what keeps it up to date."""

    project: str = ""
    emulated: bool = False
    #: Why the list of TPUs may be out of date.
    problem: Problem | None = None
    #: Why the state of the TPUs can't be saved now. It is kept in memory and retried.
    storage: Problem | None = None
    loops: list[LoopStatus] = []
    #: TPUs that are not as they should be; the TPUs' own ``problem`` says it, too.
    failing: list[FailingTPU] = []
