"""Memory and load of the chips of TPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from .chips import ChipBooking
from .problems import Problem


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
