"""What a host reports: its kernels, jobs and runs, its guard, and the load of its chips.

The client checks each record by these declarations: `ssh.agent_answers` evaluates the annotations,
in which a kind of value, such as `Id`, has its bounds in `ssh.host_values`. Here they are not
evaluated. A kernel's or a job's keeper may be of an earlier version than the client, so what that
did not say is not required. Fields that are not declared are dropped. docs/reference/security.md
has this as a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Tuple

from .declarations import Record

if TYPE_CHECKING:
    from typing import Annotated, Literal, NotRequired

# Kinds of values. A new one needs its bounds in ssh.host_values.
Id = str
AnyId = str
Word = str
Token = str
Time = str
HostPath = str
Line = str
Text = str
Reason = str
Pid = int
Count = int
Chip = int
Seconds = float
Timestamp = float
Lines = List[str]
Chips = List[int]


class Bounds(NamedTuple):
    """Those of a list (*max_length*: its elements) or of a number."""

    max_length: Optional[int] = None
    ge: Optional[float] = None
    le: Optional[float] = None


class DaemonProblem(Record):
    """Why the daemon did not do what it was asked for; also why its guard can't act."""

    reason: Reason
    message: Text
    hint: NotRequired[Text]


class CheckpointReport(Record):
    """What the user lets a kernel run before its host is stopped, and how that went."""

    what: Line
    state: Literal["running", "done", "failed"]
    seconds: NotRequired[Seconds | None]
    error: NotRequired[Text]
    notebook: NotRequired[Line]


class SavedReport(Record):
    """The session that a kernel has saved. missing: names, each with its reason. hosts: on whose
    disks it is."""

    name: Line
    place: Line
    variables: Count
    missing: Annotated[List[Tuple[Line, Line]], Bounds(max_length=100)]
    missing_count: Count
    size: Count
    saved: Timestamp
    tpu: NotRequired[Line]
    zone: NotRequired[Line]
    type: NotRequired[Line]
    emulated: NotRequired[bool]
    hosts: NotRequired[Count]


class SessionOutcomeReport(Record):
    """What became of a request about a kernel's session. notes: what is otherwise now; done: of how
    many bytes in all so many are written or read, while it runs."""

    id: Id
    state: Literal["waiting", "running", "saved", "restored", "set", "empty", "cancelled", "failed"]
    why: NotRequired[Line]
    name: NotRequired[Line]
    place: NotRequired[Line]
    variables: NotRequired[Count]
    missing: NotRequired[Annotated[List[Tuple[Line, Line]], Bounds(max_length=100)]]
    missing_count: NotRequired[Count]
    size: NotRequired[Count]
    new: NotRequired[Count]
    notes: NotRequired[Annotated[List[Line], Bounds(max_length=20)]]
    done: NotRequired[Count]
    total: NotRequired[Count]


class StoredSessionReport(Record):
    """A session as its manifest says it, if that is of this user; otherwise *problem* says why."""

    name: Line
    problem: NotRequired[Line]
    saved: NotRequired[Timestamp]
    variables: NotRequired[Count]
    missing: NotRequired[Annotated[List[Tuple[Line, Line]], Bounds(max_length=100)]]
    missing_count: NotRequired[Count]
    size: NotRequired[Count]
    python: NotRequired[Line]
    jax: NotRequired[Line]
    tpu: NotRequired[Line]
    zone: NotRequired[Line]
    type: NotRequired[Line]
    emulated: NotRequired[bool]
    hosts: NotRequired[Count]


class HomeOutcomeReport(Record):
    """What became of a request about the home folders. left_out: paths, each with its reason; kept
    and replaced: what was there when they were restored."""

    id: Id
    do: Word
    at: Timestamp
    state: Literal["saved", "restored", "same", "empty", "forgotten", "cancelled", "failed"]
    why: NotRequired[Line]
    saved: NotRequired[Timestamp]
    files: NotRequired[Count]
    size: NotRequired[Count]
    new: NotRequired[Count]
    left_out: NotRequired[Annotated[List[Tuple[Line, Line]], Bounds(max_length=100)]]
    left_out_count: NotRequired[Count]
    kept: NotRequired[Annotated[List[Line], Bounds(max_length=100)]]
    kept_count: NotRequired[Count]
    replaced: NotRequired[Annotated[List[Line], Bounds(max_length=100)]]
    replaced_count: NotRequired[Count]


class HomeReport(Record):
    """The home folders of this host that are kept in a bucket. setting: the hash of what was
    chosen; id: of the request that runs, with the bytes that are done, and all."""

    setting: Token
    id: AnyId
    doing: Word
    done: Count
    total: Count
    outcome: HomeOutcomeReport | None


class KernelReport(Record):
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
    hosts: NotRequired[Lines | None]
    boot: NotRequired[Line]
    waiting: NotRequired[Count]
    paused: NotRequired[bool]
    code: NotRequired[int | None]
    cause: NotRequired[Text]
    died: NotRequired[Time]
    once: NotRequired[Lines | bool]
    checkpoint: NotRequired[CheckpointReport | None]
    session: NotRequired[SessionOutcomeReport | None]
    saved: NotRequired[SavedReport | None]
    cell: NotRequired[Line | None]


class Owner(Record):
    """The kernel, job or run that a process belongs to."""

    kernel: AnyId
    notebook: Line
    job: AnyId
    run: AnyId


class Ending(Record):
    """What a host recorded of a kernel that has ended."""

    end: NotRequired[Word]
    code: NotRequired[int | None]
    cause: NotRequired[Text]
    died: NotRequired[Time]
    waiting: NotRequired[Count]


class WarmKernelReport(Record):
    python: Line
    pid: Pid
    state: Literal["starting", "ready", "failed"]
    problem: Text
    memory: Count
    pod: NotRequired[bool]  # it runs on all hosts


class Partial(Record):
    """The beginning of a line of each stream of a job."""

    out: Text
    err: Text


class ServingReport(Record):
    """A job that is a server. Rates: a second."""

    state: Literal["starting", "healthy", "unhealthy", "restarting"]
    since: Time
    problem: Text
    restarts: Count
    was_healthy: NotRequired[bool]  # since the job's start
    exposed: Line  # an address other than loopback that it listens on
    requests: Seconds | None
    tokens: Seconds | None
    waiting: Count | None  # requests
    worked: Seconds


class JobReport(Record):
    id: Id
    state: Literal["running", "stopping", "ended", "lost"]
    version: Count
    code: Annotated[int, Bounds(ge=-(1 << 31), le=1 << 31)] | None
    cause: Text
    paused: Text
    pid: Pid
    started: Time
    ended: Time
    restarted: bool
    keeper: NotRequired[Pid]
    last: NotRequired[Count]
    serving: NotRequired[ServingReport | None]
    partial: NotRequired[Partial]
    leaving_since: NotRequired[Time]
    silent_since: NotRequired[Time]
    usual_gap: NotRequired[Seconds]
    tail: NotRequired[Lines]


class StackFrame(Record):
    file: Line
    line: Count
    function: Line
    text: Line


class ProcessStack(Record):
    """A process of a job. frames: of its main thread, the user's and the innermost one."""

    pid: Pid
    command: Line
    chips: bool
    state: Word
    call: Word
    source: Literal["faulthandler", "py-spy", "proc"]
    problem: Line
    frames: Annotated[List[StackFrame], Bounds(max_length=64)]


class RunEnd(Record):
    code: Annotated[int, Bounds(ge=0, le=255)] | None
    signal: Annotated[int, Bounds(ge=0, le=255)] | None
    cause: Literal["", "timeout", "stopped", "abandoned"]
    message: Text
    seconds: Seconds


class Packages(Record):
    """Those that were asked for in an environment."""

    revision: Count
    packages: Lines


class GuardLimits(Record):
    """The client's own words, which the host repeats."""

    max_cost: NotRequired[Seconds | None]
    until: NotRequired[Line]


class GuardRuleReport(Record):
    """As a client gave it, which need not have said all."""

    action: Literal["stop", "delete"]
    node_id: Line | None
    idle: Seconds | None
    notice: Seconds | None
    limits: GuardLimits | None


class GuardReport(Record):
    rule: GuardRuleReport
    host: bool
    refused: DaemonProblem | None
    phase: Literal["watching", "due", "ending"]
    reason: Literal["", "idle", "time", "cost"]
    ends: Timestamp | None
    busy: Lines | None
    problem: DaemonProblem | None
    no_restart: NotRequired[Text]


class InterruptionReport(Record):
    kind: Literal["maintenance", "preemption"]
    noticed: Time
    checkpoints: Annotated[List[CheckpointReport], Bounds(max_length=4096)]


class BookingReport(Record):
    chips: Chips
    kernel: Id
    notebook: Line


class Load(Record):
    """One sample of the chips; for each chip its used memory, all its memory, its duty cycle."""

    number: Count
    age: Seconds
    state: Literal["ok", "idle", "no_port", "unreadable", "no_device"]
    of: NotRequired[Chip]
    chips: NotRequired[
        Annotated[
            List[Tuple[Count | None, Count | None, Annotated[float, Bounds(ge=0, le=1e18)] | None]],
            Bounds(max_length=4096),
        ]
    ]
    queue: NotRequired[Count | None]
    errors: NotRequired[Lines]
    why: NotRequired[Text]
    bookings: NotRequired[Annotated[List[BookingReport], Bounds(max_length=1024)]]
    silent: NotRequired[Count]


class DaemonStatus(Record):
    """What clients poll. If nothing has changed, only ``version`` is answered."""

    version: Token
    kernels: NotRequired[Annotated[List[KernelReport], Bounds(max_length=4096)]]
    warm: NotRequired[Annotated[List[WarmKernelReport], Bounds(max_length=1024)]]
    jobs: NotRequired[Dict[Id, JobReport]]
    packages: NotRequired[Dict[Line, Packages]]
    guard: NotRequired[GuardReport | None]
    interruption: NotRequired[InterruptionReport | None]
    home: NotRequired[HomeReport | None]
    load: NotRequired[Annotated[List[Load], Bounds(max_length=1024)]]


# ---- what begins a connection


class Started(Record):
    """What ``up`` prints when the daemon listens."""

    socket: HostPath


class DaemonHello(Record):
    """The daemon's first message."""

    agent: Word
    pid: Pid
    run: HostPath
    python: NotRequired[Line]
    boot: NotRequired[Line]


# ---- what the keeper of a kernel says to the kernel's client


class KeeperHello(Record):
    """info: the content of the kernel's kernel_info_reply, as JSON."""

    status: NotRequired[KernelReport | None]
    info: NotRequired[Text]


class Rejection(Record):
    """Why the keeper does not serve a client."""

    reason: NotRequired[Line]
    message: NotRequired[Text]
    holder: NotRequired[Line]


class KeeperNotice(Record):
    """failed: the protocol error that the keeper has seen."""

    failed: NotRequired[Text]


class KeeperEvent(Record):
    """What happened to the kernel; ``code`` is of "exited" and "ended", ``why`` of "paused" and
    "refused"."""

    event: Literal["ready", "exited", "ended", "paused", "resumed", "refused"]
    code: NotRequired[Annotated[int, Bounds(ge=-(1 << 31), le=1 << 31)] | None]
    cause: NotRequired[Text]
    output: NotRequired[Text]
    asked: NotRequired[bool]
    why: NotRequired[Text]
