"""Where a job stands on its hosts."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .core import Problem


class JobFrame(Struct, kw_only=True):
    """A line of Python at which a process is, or from which it was called."""

    file: str
    line: int
    function: str
    text: str = ""  # the line itself; only that of the user's code


class ProcessPlace(Struct, kw_only=True):
    """A process of a job, and where it is."""

    pid: int
    command: str
    chips: bool  # whether it holds chips
    #: What its main thread does: "running", "waiting", "blocked" (by a device or a disk), "stopped"
    #: (by a signal), "traced"; "" if not known.
    state: str
    #: The function of the Linux kernel in which that waits, if it is known.
    call: str
    #: By what the frames were found. "proc": by nothing, `problem` says why.
    source: Literal["faulthandler", "py-spy", "proc"]
    problem: str = ""
    #: The user's frames, the innermost first, and then the innermost of all.
    frames: list[JobFrame] = []


class JobOnHost(Struct, kw_only=True):
    """Where a job is on one host."""

    host: int
    #: As in `HostJob`.
    state: str
    exit_code: int | None = None
    cause: str = ""
    #: As in `HostJob`.
    leaving_since: str = ""
    #: Seconds since its last output.
    silent: float | None = None
    tail: list[str] = []
    processes: list[ProcessPlace] = []
    more: int = 0  # processes that were left out
    #: The HLO operations at which chips are, by their numbers, if libtpu names them.
    places: dict[int, str] = {}
    queue: int | None = None  # programs that wait for the chips
    problem: Problem | None = None  # why the host can't be asked


class JobWhere(Struct, kw_only=True):
    """Where a job stands on its hosts."""

    job: str
    tpu: str
    zone: str
    attempt: int
    #: What a person reads: hosts at the same place are in one line.
    explanation: list[str]
    hosts: list[JobOnHost]
