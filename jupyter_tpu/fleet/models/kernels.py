"""Kernels on hosts, and who holds the chips."""

from __future__ import annotations

from msgspec import Struct

from .problems import Problem


class Kernel(Struct, kw_only=True):
    """A kernel that runs on host 0 of a TPU."""

    id: str
    tpu: str
    zone: str
    environment: str
    state: str  # "starting", "idle", "busy", "dead"
    pid: int = 0
    started: str = ""
    last_activity: str = ""
    attached: bool = False  # a client is connected to it
    holder: str = ""  # which client that is, or was last
    chips: bool = False  # it, or what it started, holds the host's chips
    notebook: str = ""
    #: Why it died, if nobody shut it down; it is shown until it is dismissed.
    problem: Problem | None = None


class ChipHolder(Struct, kw_only=True):
    """A process that uses chips of a TPU's host 0; no other can use them until it ends."""

    pid: int
    user: str
    command: str  # shortened
    devices: list[str] = []  # [] where only libtpu's lock tells
    kernel: str = ""  # the id of the kernel that it belongs to
    notebook: str = ""
