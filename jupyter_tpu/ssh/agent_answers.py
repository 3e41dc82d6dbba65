"""What the agent of a host may answer: each operation's fields, their types and bounds.

`AgentClient` checks each answer before anyone sees it. A daemon is of this version; a kernel's or a
job's keeper may be of an earlier one, so what that did not say is not required. Fields that are not
here are dropped. docs/security.md has this as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from ..errors import Reason
from .host_values import (
    AnyId,
    Chip,
    Chips,
    Count,
    HostPath,
    Id,
    InvalidAnswer,
    Line,
    Lines,
    Pid,
    Seconds,
    Text,
    Time,
    Timestamp,
    Token,
    Word,
)


class Started(TypedDict):
    """What ``up`` prints when the agent listens."""

    socket: HostPath


class Hello(TypedDict):
    """The agent's first message."""

    agent: Word
    pid: Pid
    run: HostPath
    python: NotRequired[Line]
    boot: NotRequired[Line]


class Problem(TypedDict):
    """Why the agent did not do what it was asked for; also why its guard can't act."""

    reason: Reason
    message: Text
    hint: NotRequired[Text]


class Checkpoint(TypedDict):
    """What the user lets a kernel run before its host is stopped, and how that went."""

    what: Line
    state: Literal["running", "done", "failed"]
    seconds: NotRequired[Seconds | None]
    error: NotRequired[Text]
    notebook: NotRequired[Line]


class Kernel(TypedDict):
    id: Id
    launch: NotRequired[Token]
    environment: NotRequired[Line | None]
    notebook: NotRequired[Line | None]
    state: NotRequired[Line | None]
    pid: NotRequired[Pid | None]
    keeper: NotRequired[Pid]
    keeper_started: NotRequired[Line]
    started: NotRequired[Time | None]
    last_activity: NotRequired[Time | None]
    attached: NotRequired[bool | None]
    holder: NotRequired[Line | None]
    chips: NotRequired[bool | None]
    booked: NotRequired[Chips | None]
    boot: NotRequired[Line]
    waiting: NotRequired[Count]
    paused: NotRequired[bool]
    code: NotRequired[int | None]
    cause: NotRequired[Text]
    died: NotRequired[Time]
    once: NotRequired[Lines | bool]
    checkpoint: NotRequired[Checkpoint | None]


Kernels = Annotated[list[Kernel], Meta(max_length=4096)]


class Owner(TypedDict):
    """To what of ours a process belongs."""

    kernel: AnyId
    notebook: Line
    job: AnyId
    run: AnyId


class Ending(TypedDict):
    """What a host recorded of a kernel that has ended."""

    end: NotRequired[Word]
    code: NotRequired[int | None]
    cause: NotRequired[Text]
    died: NotRequired[Time]
    waiting: NotRequired[Count]


class WarmKernel(TypedDict):
    python: Line
    pid: Pid
    state: Literal["starting", "ready", "failed"]
    problem: Text
    memory: Count


class Job(TypedDict):
    id: Id
    state: Literal["running", "stopping", "ended", "lost"]
    version: Count
    code: Annotated[int, Meta(ge=-(1 << 31), le=1 << 31)] | None
    cause: Text
    paused: Text
    pid: Pid
    started: Time
    ended: Time
    restarted: bool
    keeper: NotRequired[Pid]
    last: NotRequired[Count]
    partial: NotRequired[Partial]


class Partial(TypedDict):
    """The beginning of a line of each stream of a job."""

    out: Text
    err: Text


#: Its number, milliseconds since 1970, the stream, the text, and whether it goes on.
LogLine = tuple[Count, Count, Literal["out", "err"], Text, bool | Literal[0, 1]]


class JobLog(TypedDict):
    lines: Annotated[list[LogLine], Meta(max_length=5000)]
    oldest: Count
    next: Count
    last: Count
    partial: Partial
    status: Job


class RunEnd(TypedDict):
    code: Annotated[int, Meta(ge=0, le=255)] | None
    signal: Annotated[int, Meta(ge=0, le=255)] | None
    cause: Literal["", "timeout", "stopped", "abandoned"]
    message: Text
    seconds: Seconds


class RunOutput(TypedDict):
    """bytes: as base64."""

    output: Annotated[list[tuple[Literal[1, 2], bytes]], Meta(max_length=1 << 16)]
    next: Count
    ended: RunEnd | None


class Packages(TypedDict):
    """Those that were asked for in an environment."""

    revision: Count
    packages: Lines


class GuardLimits(TypedDict):
    """The client's own words, which the host repeats."""

    max_cost: NotRequired[Seconds | None]
    until: NotRequired[Line]


class GuardRule(TypedDict):
    """As a client gave it, which need not have said all."""

    action: Literal["stop", "delete"]
    node_id: Line | None
    idle: Seconds | None
    notice: Seconds | None
    limits: GuardLimits | None


class Guard(TypedDict):
    rule: GuardRule
    host: bool
    refused: Problem | None
    phase: Literal["watching", "due", "ending"]
    reason: Literal["", "idle", "time", "cost"]
    ends: Timestamp | None
    busy: Lines | None
    problem: Problem | None
    no_restart: NotRequired[Text]


class Interruption(TypedDict):
    kind: Literal["maintenance", "preemption"]
    noticed: Time
    checkpoints: Annotated[list[Checkpoint], Meta(max_length=4096)]


class Booking(TypedDict):
    chips: Chips
    kernel: Id
    notebook: Line


_Figure = Annotated[float, Meta(ge=0, le=1e18)] | None


class Load(TypedDict):
    """One sample of the chips; of each the memory used and in all, and its duty cycle."""

    number: Count
    age: Seconds
    state: Literal["ok", "idle", "no_port", "unreadable", "no_device"]
    of: NotRequired[Chip]
    chips: NotRequired[
        Annotated[list[tuple[Count | None, Count | None, _Figure]], Meta(max_length=4096)]
    ]
    queue: NotRequired[Count | None]
    errors: NotRequired[Lines]
    why: NotRequired[Text]
    bookings: NotRequired[Annotated[list[Booking], Meta(max_length=1024)]]
    silent: NotRequired[Count]


Loads = Annotated[list[Load], Meta(max_length=1024)]


class KernelList(TypedDict):
    kernels: Kernels


class KernelFate(TypedDict):
    known: bool
    ending: Ending | None


class KernelKey(TypedDict):
    key: Token


class KernelStart(TypedDict):
    pid: Pid
    keeper: Pid
    socket: HostPath


class WarmKernelList(TypedDict):
    warm: Annotated[list[WarmKernel], Meta(max_length=1024)]


class ChipHolder(Owner):
    pid: Pid
    user: Line
    command: Text
    devices: Lines


class ChipHolders(TypedDict):
    devices: Lines
    holders: Annotated[list[ChipHolder], Meta(max_length=4096)]


class OwnerList(TypedDict):
    owners: Annotated[list[Owner], Meta(max_length=1 << 16)]


class JobList(TypedDict):
    jobs: Annotated[list[Job], Meta(max_length=4096)]


class LoadList(TypedDict):
    load: Loads


class GuardShown(TypedDict):
    guard: Guard | None


class AgentProbe(TypedDict):
    hostname: Line
    python: Line
    cpus: Count
    disk_free: Count
    disk_total: Count
    memory: Count
    emulated: bool
    chips: Count
    home: Line
    user: Line
    #: The host's clock, seconds since 1970.
    time: Seconds
    agent: Word


class Status(TypedDict):
    """Of what has not changed, only ``version`` is answered."""

    version: Token
    kernels: NotRequired[Kernels]
    warm: NotRequired[Annotated[list[WarmKernel], Meta(max_length=1024)]]
    jobs: NotRequired[dict[Id, Job]]
    packages: NotRequired[dict[Line, Packages]]
    guard: NotRequired[Guard | None]
    interruption: NotRequired[Interruption | None]
    load: NotRequired[Loads]


class Ended(TypedDict):
    ended: bool


class EndedKernels(TypedDict):
    ended: Count


class Reads(TypedDict):
    reads: bool


class Removed(TypedDict):
    removed: bool


def owners_by_pid(pids: Sequence[int], answer: Mapping[str, Any]) -> dict[int, Owner]:
    """The answer of ``process_owners`` to these *pids*. Raises InvalidAnswer."""
    if len(answer["owners"]) != len(pids):
        raise InvalidAnswer("process_owners", f"Expected {len(pids)} owners")
    return dict(zip(pids, answer["owners"], strict=True))


#: By operation.
ANSWERS: dict[str, Any] = {
    "probe": AgentProbe,
    "start_kernel": KernelStart,
    "kernels": KernelList,
    "kernel_fate": KernelFate,
    "kernel_key": KernelKey,
    "signal_kernel": Kernel,
    "end_kernel": Ended,
    "keep_warm": WarmKernelList,
    "chips": ChipHolders,
    "process_owners": OwnerList,
    "status": Status,
    "load": LoadList,
    "run": RunOutput,
    "read_run": RunOutput,
    "write_run": Reads,
    "stop_run": Ended,
    "start_job": Job,
    "jobs": JobList,
    "job_status": Job,
    "job_log": JobLog,
    "stop_job": Job,
    "remove_job": Removed,
    "set_guard": GuardShown,
    "guard": GuardShown,
    "keep": GuardShown,
    "remove_guard": GuardShown,
    "client_stops": GuardShown,
    "prepare_delete": EndedKernels,
    "end_agent": Ended,
}
