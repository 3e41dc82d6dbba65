"""Kernels on TPUs, and interruptions of programs there."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .core import Problem
from .jobs import Text


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
    #: What each host of a pod kernel does: "starting", "idle", "busy", "waiting" (for the others),
    #: "stuck" (it does not react to interrupts), "dead"; []: the kernel runs on *host* only.
    hosts: list[str] = []
    notebook: str = ""
    #: Why it died, unless it was shut down. It is shown until it is dismissed.
    problem: Problem | None = None


class EnvironmentKernelspec(Struct, kw_only=True):
    """By which a kernel is started in an environment."""

    tpu: str
    zone: str
    environment: str
    kernelspec: str


class AddSlicesKernel(Struct, kw_only=True, forbid_unknown_fields=True):
    """One kernel on all hosts of several TPUs, which are the slices of one job."""

    #: Names of TPUs, or ["queued"]: the other TPUs of the queued resource.
    slices: Annotated[list[Text], Meta(min_length=1, max_length=64)]
    environment: Text = "default"


class SlicesKernel(Struct, kw_only=True):
    """A kernel in the kernel pickers that runs each cell on all hosts of several TPUs."""

    tpu: str
    zone: str
    environment: str
    #: The TPUs, in the order of the slices' numbers.
    slices: list[str]
    hosts: int  # of all of them
    kernelspec: str
    display_name: str


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What the user lets run when a host is about to be stopped, to save what must not be lost."""

    host: int
    what: str  # "save()"
    notebook: str = ""  # whose kernel runs it
    state: Literal["running", "done", "failed"]
    seconds: float | None = None  # that it took; null while it runs
    error: str = ""


class Interruption(Struct, frozen=True, kw_only=True):
    """Google is about to stop hosts of a TPU, within seconds or minutes, and has notified them."""

    #: "preemption": Google reclaims the TPU. "maintenance": the hosts start again afterwards.
    kind: Literal["maintenance", "preemption"]
    #: The hosts that say it.
    hosts: list[int]
    #: When the first of them heard of it.
    noticed: str
    checkpoints: list[Checkpoint] = []
