"""Which chips programs have, and how busy chips and hosts are."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ...options import option
from .core import Problem


class ChipHolder(Struct, kw_only=True):
    """A process that uses chips of a host; no other can use them until it ends."""

    host: int
    pid: int
    #: When the process was started, in a unit of the host's system: with the pid, it identifies it.
    start: str = ""
    since: str = ""  # when the process was started, by the host's clock
    user: str = ""
    command: str = ""  # shortened
    devices: list[str] = []  # [] where only libtpu's lock tells
    container: str = ""  # the beginning of its id, if it runs in one; "?" if that is not known
    stop: str = ""  # the command that stops the container on the host, "" if not known
    #: What it belongs to: the id of a kernel, of a job, or of a run. A notebook alone: that of a
    #: kernel of another Jupyter server, such as one on the host.
    kernel: str = ""
    notebook: str = ""
    job: str = ""
    run: str = ""


class ChipBooking(Struct, kw_only=True):
    """Chips that were given to one kernel, until it ends."""

    chips: list[int]
    kernel: str
    notebook: str = ""


class HostChips(Struct, kw_only=True):
    """The chips of one host."""

    host: int
    devices: list[str] = []  # their device files
    holders: list[ChipHolder] = []
    bookings: list[ChipBooking] = []
    #: False: the host could not look at the processes of other users and of containers.
    complete: bool = True
    #: The owner of a lock file of libtpu that keeps your programs from the chips though no process
    #: holds the lock; "" if there is none.
    lock_owner: str = ""
    problem: Problem | None = None  # why the host could not be asked


class ChipUse(Struct, kw_only=True):
    """The chips of a TPU, host by host."""

    tpu: str
    zone: str
    hosts: list[HostChips]


class SplitChips(Struct, kw_only=True, forbid_unknown_fields=True):
    """For which chips of a host there is a kernel in Jupyter's kernel pickers."""

    environment: str = "default"
    #: 1, 2, or 4 of 8.
    each: Annotated[
        int,
        Meta(ge=0),
        option("How many chips each kernel gets. 0: remove these kernels.", metavar="CHIPS"),
    ] = 1


class ChipKernel(Struct, kw_only=True):
    """A kernel in the kernel pickers that gets some chips of host 0, and no others."""

    chips: list[int]
    kernelspec: str
    display_name: str
    #: What it is started with.
    variables: dict[str, str]


class ChipKernels(Struct, kw_only=True):
    """The kernels of an environment that get some of the chips."""

    tpu: str
    zone: str
    environment: str
    kernels: list[ChipKernel]
    #: How far the variables are known to work on this type of TPU.
    note: str = ""


class HolderToEnd(Struct, kw_only=True, forbid_unknown_fields=True):
    """A process, as `ChipHolder` has it."""

    host: Annotated[int, Meta(ge=0)]
    pid: Annotated[int, Meta(ge=1)]
    start: Annotated[str, Meta(min_length=1)]


class FreeChips(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which processes to end, and lock files to delete, so that the chips are free."""

    #: Those that a person has seen and agreed to end; no other process is ended.
    holders: list[HolderToEnd]
    #: Hosts whose lock file of libtpu is deleted after that, if no process holds the lock.
    locks: list[Annotated[int, Meta(ge=0)]] = []
    patience: Annotated[
        float, Meta(ge=0, le=60), option("Time from SIGTERM to SIGKILL.", unit="seconds")
    ] = 10.0


class FreedHolder(Struct, kw_only=True):
    """What became of a process that held chips."""

    host: int
    pid: int
    #: "gone": it had released them before. "held": it has them still. "refused": it is another
    #: user's, and sudo asks for a password. "unknown": the host could not be asked.
    outcome: Literal["ended", "killed", "gone", "held", "refused", "unknown"]
    problem: Problem | None = None


class DeletedLock(Struct, kw_only=True):
    """What became of a lock file of libtpu that was left over."""

    host: int
    #: "gone": it was already deleted. "held": a process holds the lock now, so it was not deleted.
    #: "refused": it is another user's, and sudo asks for a password. "unknown": the host could not
    #: be asked.
    outcome: Literal["deleted", "gone", "held", "refused", "unknown"]
    problem: Problem | None = None


class FreedChips(Struct, kw_only=True):
    """How freeing went, and what holds chips of these hosts now."""

    ended: list[FreedHolder]
    locks: list[DeletedLock] = []
    use: ChipUse
    #: No process is known to hold chips of these hosts, no lock file blocks your programs, and
    #: all of them could be asked.
    free: bool


class ChipLoad(Struct, kw_only=True):
    """One chip at one time. None: not reported."""

    memory_used: int | None = None  # bytes of HBM
    memory_total: int | None = None
    duty_cycle: float | None = None  # percent of the time in which its cores were busy


class LoadSample(Struct, kw_only=True):
    """The chips of a host at one time."""

    time: float  # seconds since the epoch, by the clock of this computer
    #: "ok": there are figures. "idle": no process uses the chips. "no_port": one does, but libtpu
    #: serves no figures. "unreadable": they can't be read. "no_device": the host has no chips.
    state: Literal["ok", "idle", "no_port", "unreadable", "no_device"]
    #: Those of which there are figures, in the order of libtpu's devices. All chips of the host
    #: where kernels have chips of their own.
    chips: list[ChipLoad] = []
    #: Programs that wait to run on the chips; None: not reported.
    queue: int | None = None


class HostLoad(Struct, kw_only=True):
    """What is known of the chips of a host."""

    host: int
    chips: int = 0  # device files of chips that it has; 0: not known
    #: The oldest first; which ones, the query says.
    samples: list[LoadSample] = []
    #: The kernels that have chips of their own.
    bookings: list[ChipBooking] = []
    #: What the latest figures do not say, or why there are none; "" if nothing is missing.
    message: str = ""
    #: What libtpu says is wrong with cores.
    errors: list[str] = []
    problem: Problem | None = None  # why the host could not be asked


class TPULoad(Struct, kw_only=True):
    """Memory and load of the chips of a TPU, host by host."""

    tpu: str
    zone: str
    type: str = ""
    #: The figures are those of simulated devices: the processor time of the process that uses JAX,
    #: and the bytes of its arrays.
    emulated: bool = False
    hosts: list[HostLoad]
    next: int = 0  # where to read on: a `from`


class LoadQuery(Struct, kw_only=True):
    """Which samples, and of which hosts."""

    #: The samples after the answer that had this as its `next`; 0: all that are kept. None: the
    #: latest one of each host.
    start: Annotated[int, Meta(ge=0)] | None = field(default=None, name="from")
    hosts: str | None = None
