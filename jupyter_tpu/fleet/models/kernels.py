"""Kernels on hosts."""

from __future__ import annotations

from msgspec import Struct

from .problems import Problem


class Kernel(Struct, kw_only=True):
    """A kernel that runs on a host of a TPU."""

    id: str
    tpu: str
    zone: str
    host: int = 0
    environment: str
    state: str  # "starting", "idle", "busy", "dead"
    pid: int = 0
    started: str = ""
    last_activity: str = ""
    attached: bool = False  # a client is connected to it
    holder: str = ""  # which client that is, or was last
    chips: bool = False  # it, or what it started, holds the host's chips
    #: The chips of the host that only it gets; []: all, together with others, or none.
    booked: list[int] = []
    notebook: str = ""
    #: Why it died, unless it was shut down. It is shown until it is dismissed.
    problem: Problem | None = None
