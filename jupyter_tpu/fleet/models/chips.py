"""The chips of a TPU's hosts, and what holds them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .problems import Problem


class ChipHolder(Struct, kw_only=True):
    """A process that uses chips of a host; no other can use them until it ends."""

    host: int
    pid: int
    #: Of the process, in a unit of the host's system: with the pid it means one process for ever.
    start: str = ""
    since: str = ""  # when the process was started, by the host's clock
    user: str = ""
    command: str = ""  # shortened
    devices: list[str] = []  # [] where only libtpu's lock tells
    container: str = ""  # the beginning of its id, if it runs in one
    #: What it belongs to: the id of a kernel, with its notebook, of a job, or of a run.
    kernel: str = ""
    notebook: str = ""
    job: str = ""
    run: str = ""


class HostChips(Struct, kw_only=True):
    """The chips of one host."""

    host: int
    devices: list[str] = []  # their device files
    holders: list[ChipHolder] = []
    #: False: the host could not look at the processes of other users and of containers.
    complete: bool = True
    problem: Problem | None = None  # why the host could not be asked


class ChipUse(Struct, kw_only=True):
    """The chips of a TPU, host by host."""

    tpu: str
    zone: str
    hosts: list[HostChips]


class HolderToEnd(Struct, kw_only=True, forbid_unknown_fields=True):
    """A process, as `ChipHolder` has it."""

    host: Annotated[int, Meta(ge=0)]
    pid: Annotated[int, Meta(ge=1)]
    start: Annotated[str, Meta(min_length=1)]


class FreeChips(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which processes to end, so that the chips are free."""

    #: Those that somebody has seen and agreed to end; no other process is ended.
    holders: list[HolderToEnd]
    #: Seconds from SIGTERM to SIGKILL.
    patience: Annotated[float, Meta(ge=0, le=60)] = 10.0


class FreedHolder(Struct, kw_only=True):
    """What became of a process that held chips."""

    host: int
    pid: int
    #: "gone": it had released them before. "held": it has them still. "refused": it is another
    #: user's, and sudo asks for a password. "unknown": the host could not be asked.
    outcome: Literal["ended", "killed", "gone", "held", "refused", "unknown"]
    problem: Problem | None = None


class FreedChips(Struct, kw_only=True):
    """How freeing went, and what holds chips of these hosts now."""

    ended: list[FreedHolder]
    use: ChipUse
    #: No process is known to hold chips of these hosts, and all of them could be asked.
    free: bool
