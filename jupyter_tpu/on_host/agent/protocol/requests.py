"""What a client can ask the daemon of a host, and what is answered.

To add a request, declare it here, and handle it in `agent.daemon` with a method that is marked by
`handles`. It travels as ``{"id": 1, "op": "end_kernel", "params": {…}}``; see `Daemon`.

A client talks to the daemon of its own version, which runs beside those of other versions. So
requests and answers can change at any time. Only what keepers say can be older: see `records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .declarations import ProtocolRequest, Record, find_requests
from .records import (
    Chip,
    Count,
    DaemonStatus,
    Ending,
    GuardReport,
    HomeReport,
    HostPath,
    JobReport,
    KernelReport,
    Line,
    Load,
    Owner,
    Partial,
    Pid,
    ProcessStack,
    RunEnd,
    Seconds,
    StoredSessionReport,
    Text,
    Token,
    WarmKernelReport,
)

if TYPE_CHECKING:
    from typing import Annotated, Literal, NotRequired

    from .records import Bounds


# ---- kernels


class KernelList(Record):
    kernels: Annotated[List[KernelReport], Bounds(max_length=4096)]


class ListKernelsRequest(ProtocolRequest[KernelList], op="kernels"):
    """All kernels on the host; ``chips``: whether they hold chips."""


class KernelStart(Record):
    pid: Pid
    keeper: Pid
    socket: HostPath


class PodAddress(Record):
    hosts: int  # of the TPU, or of all slices
    address: str  # of the host that is asked, in the pod's network
    slices: NotRequired[List[int]]  # the hosts of each slice, if there are several


class StartKernelRequest(ProtocolRequest[KernelStart], op="start_kernel", changes=True):
    """Starts a keeper, which starts a kernel."""

    id: str
    launch: str  # the same for a repeated request, which starts nothing
    python: str  # of the environment
    key: str  # signs the kernel's messages
    secret: str  # of the lease
    environment: str = ""  # the environment's name
    mirror: Optional[str] = None  # made if missing, and used if ``cwd`` is the home folder
    cwd: Optional[str] = None
    env: Optional[Dict[str, str]] = None
    notebook: str = ""
    #: Bytes of output that no client has acknowledged, and what happens then: "pause" the kernel,
    #: the default, or "drop" the oldest output.
    journal_limit: Optional[int] = None
    when_full: Optional[str] = None
    needs_chips: bool = False  # waits for chips that another process holds
    chips: Optional[List[int]] = None  # numbers: it gets these, and no other kernel does
    tpu: str = ""  # the TPU's name in messages …
    zone: str = ""  # … its zone …
    worker: int = 0  # … and the number of this host
    pod: Optional[PodAddress] = None  # it runs each cell on all hosts


class KernelFate(Record):
    known: bool
    ending: Ending | None


class GetKernelFateRequest(ProtocolRequest[KernelFate], op="kernel_fate"):
    """What became of a kernel: whether it, or its keeper, is there, and how it has ended."""

    id: str


class KernelKey(Record):
    key: Token


class GetKernelKeyRequest(ProtocolRequest[KernelKey], op="kernel_key"):
    """The key of a kernel, for a client that takes over its lease."""

    id: str


class Ended(Record):
    ended: bool


class EndKernelRequest(ProtocolRequest[Ended], op="end_kernel", changes=True):
    """Ends a kernel and all it started; False: there was none."""

    id: str
    now: bool = False  # without asking it first
    secret: Optional[str] = None  # only if it is that of the lease


class WarmEnvironment(Record, total=False):
    python: str
    imports: List[str]
    env: Dict[str, str]
    tpu: str
    pod: Optional[PodAddress]  # a kernel of all hosts is kept warm, too …
    pod_env: Dict[str, str]  # … with these variables


class WarmKernelList(Record):
    warm: Annotated[List[WarmKernelReport], Bounds(max_length=1024)]


class KeepWarmRequest(ProtocolRequest[WarmKernelList], op="keep_warm", changes=True):
    """Keeps a warm kernel of each of these environments and of no others, for this client while it
    is connected."""

    environments: List[WarmEnvironment]


# ---- sessions


class AskedKernel(Record):
    kernel: KernelReport | None


class AskKernelSessionRequest(ProtocolRequest[AskedKernel], op="kernel_session"):
    """Has a kernel save or restore its session, and answers its status of before; None: there is
    no such kernel. Without a request: its status.

    A request has an ``id`` and what to ``do``: "save", "restore", "set" or "cancel"; see
    `agent.session.requested`.
    """

    id: str
    request: Optional[Dict[str, Any]] = None


class SessionsThere(Record):
    """problem: why they can't be listed."""

    sessions: Annotated[List[StoredSessionReport], Bounds(max_length=4096)]
    problem: NotRequired[Text]


class ListSessionsRequest(ProtocolRequest[SessionsThere], op="sessions"):
    """The sessions in a *place*, read in an environment: "" or gs://BUCKET/FOLDER."""

    python: str  # of the environment
    place: str = ""
    key: str = ""  # the user's, by which sessions are signed; "": this host's own


class ForgottenSession(Record):
    forgotten: bool
    problem: NotRequired[Text]


class ForgetSessionRequest(ProtocolRequest[ForgottenSession], op="forget_session"):
    """Deletes a session and all that is stored of it; False: there was none.

    of_pod: what is on the disk of a host other than 0 of a session of all hosts. mark: only has it
    not be a session any more; what is stored of it stays.
    """

    python: str
    name: str
    place: str = ""
    key: str = ""
    of_pod: bool = False
    mark: bool = False


class SessionCopy(Record):
    """size: of its files, in bytes. save: which save of the session it is; "": host 0 knows."""

    size: NotRequired[Count]
    save: NotRequired[Line]
    problem: NotRequired[Text]


class CopySessionRequest(ProtocolRequest[SessionCopy], op="copy_session"):
    """Keeps the files of a session on the host's disk as they are now, in the folder *copy* of
    `session.storage.COPIES`; with *ended* removes that. of_pod: as for `ForgetSessionRequest`.
    """

    python: str
    name: str
    copy: str
    key: str = ""
    of_pod: bool = False
    ended: bool = False


# ---- home folders


class HostHomeSetting(Record):
    """Which home folders are kept in a bucket, and how it is read; see `agent.home`."""

    python: str  # of an environment
    place: str
    project: str
    tpu: str
    key: str  # by which the copy is signed
    folders: List[str]
    limit: int  # bytes
    idle: float  # seconds without a change after which they are saved
    about: Dict[str, Any]


class HomeAnswer(Record):
    home: HomeReport | None


class AskHomeRequest(ProtocolRequest[HomeAnswer], op="home"):
    """Begins what to *do*, which runs until it has ended: "save", "restore", "adopt" (restores what
    this disk does not have yet) or "forget"; "cancel" ends it. "set" notes the *setting*, None to
    end it; "": nothing.

    The same *id* begins only once. What runs is answered, whoever has begun it.
    """

    do: str = ""
    id: str = ""
    setting: Optional[HostHomeSetting] = None


# ---- the host


class HostTime(Record):
    time: Seconds


class GetTimeRequest(ProtocolRequest[HostTime], op="time"):
    """The host's clock: seconds since 1970."""


class OwnerList(Record):
    owners: Annotated[List[Owner], Bounds(max_length=1 << 16)]


class GetProcessOwnersRequest(ProtocolRequest[OwnerList], op="process_owners"):
    """The owner of each of these processes, in their order."""

    pids: List[int]


class DaemonLoadQuery(Record, total=False):
    """A sample is taken ``every`` so many seconds; those after number ``after`` are answered."""

    every: float
    after: int


class GetStatusRequest(ProtocolRequest[DaemonStatus], op="status"):
    """Also does what `KeepWarmRequest` does. Waits for another *version*, or for samples of the
    *load*, so many *seconds*, or until the client asks again."""

    environments: List[WarmEnvironment]
    jobs: Optional[List[str]] = None  # ids
    load: Optional[DaemonLoadQuery] = None
    version: str = ""
    seconds: float = 0.0


class LoadList(Record):
    load: Annotated[List[Load], Bounds(max_length=1024)]


class GetLoadRequest(ProtocolRequest[LoadList], op="load"):
    """The load of the chips now: one sample."""


class EndedKernels(Record):
    ended: Count


class PrepareDeleteRequest(ProtocolRequest[EndedKernels], op="prepare_delete"):
    """Ends all kernels and jobs, then the daemon and its commands: nothing of it continues."""


class EndDaemonRequest(ProtocolRequest[Ended], op="end_agent"):
    """Ends the daemon if no other client is connected, and there are no kernel and no home folders
    that it saves."""


# ---- runs


class FirstRunOutput(Record):
    """bytes: as base64. The rest of the output, and the end, are at the run's keeper."""

    output: Annotated[List[Tuple[Literal[1, 2], bytes]], Bounds(max_length=1 << 16)]
    ended: RunEnd | None


class StartRunRequest(ProtocolRequest[FirstRunOutput], op="run"):
    """Starts a command; a known *id* starts nothing. Answered once there is output, or it has
    ended, or after a while."""

    id: str
    command: List[str]
    cwd: Optional[str] = None  # relative to the home folder
    python: Optional[str] = None  # of an environment
    env: Optional[Dict[str, str]] = None
    limit: Optional[float] = None  # seconds
    input: bool = False  # whether there will be any


class StopRunRequest(ProtocolRequest[Ended], op="stop_run"):
    """Ends a command, and answers whether it has ended."""

    id: str


# ---- jobs


class ServerCheck(Record, total=False):
    """How a job's server is checked; see `serving.watch.ServerWatch`."""

    port: int
    health: str  # path
    metrics: str
    patience: float  # seconds
    shared: bool
    checked: bool
    group: bool


class StartJobRequest(ProtocolRequest[JobReport], op="start_job", changes=True):
    """Starts a job; one with the same *id* that was started before is left as it is."""

    id: str
    argv: List[str]
    cwd: str = ""  # relative to the home folder
    env: Optional[Dict[str, str]] = None
    python: str = ""  # of the environment whose commands come first
    limit: Optional[int] = None  # bytes of output that are kept
    serving: Optional[ServerCheck] = None  # it is a server


class JobList(Record):
    jobs: Annotated[List[JobReport], Bounds(max_length=4096)]


class ListJobsRequest(ProtocolRequest[JobList], op="jobs"):
    """All jobs on the host."""


class GetJobRequest(ProtocolRequest[JobReport], op="job_status"):
    id: str


class JobLogPage(Record):
    """A line: its number, milliseconds since 1970, the stream, the text, whether it goes on."""

    lines: Annotated[
        List[Tuple[Count, Count, Literal["out", "err"], Text, bool | Literal[0, 1]]],
        Bounds(max_length=5000),
    ]
    oldest: Count
    next: Count
    last: Count
    partial: Partial
    status: JobReport


class ReadJobLogRequest(ProtocolRequest[JobLogPage], op="job_log"):
    """At most *limit* lines from number *start* on, which counts from the end if it is negative.
    If there is none yet, waits so many *seconds* for one, or for another *partial*."""

    id: str
    start: int = 1
    limit: int = 1000
    search: str = ""
    seconds: float = 0.0
    partial: Optional[Partial] = None


class JobStacks(Record):
    """Where a job is on a host. places: the operations that chips are at, if only this job uses
    chips; queue: the programs that wait for them; more: how many processes were left out."""

    status: JobReport
    silent: Seconds
    processes: Annotated[List[ProcessStack], Bounds(max_length=64)]
    more: Count
    places: Annotated[List[Tuple[Chip, Line]], Bounds(max_length=1024)]
    queue: Count | None


class GetJobStacksRequest(ProtocolRequest[JobStacks], op="job_stacks"):
    """Asks each process of a job that holds chips where it is."""

    id: str


class StopJobRequest(ProtocolRequest[JobReport], op="stop_job", changes=True):
    """Requests a stop: SIGTERM now, and SIGKILL after *patience* seconds."""

    id: str
    patience: float


class RestartServerRequest(ProtocolRequest[JobReport], op="restart_server", changes=True):
    """Ends a job's server, and starts it again, unless it was started again so many times."""

    id: str
    restarts: int


class Removed(Record):
    removed: bool


class RemoveJobRequest(ProtocolRequest[Removed], op="remove_job"):
    """Deletes a job and its output, if it has ended or is not there."""

    id: str


# ---- the guard


class GuardAnswer(Record):
    guard: GuardReport | None


class SetGuardRequest(ProtocolRequest[GuardAnswer], op="set_guard", changes=True):
    """Replaces the rule. First asks Google whether worker 0 may act: ``host`` says it, and
    ``refused`` why not. The rule counts in both cases, because a client can act in the host's
    place; but not if the host has to read what others publish, and may not.
    """

    action: str
    node: str
    node_id: Optional[str] = None  # "": Google is asked
    idle: Optional[float] = None  # seconds
    until: Optional[float] = None  # seconds since 1970
    cost_until: Optional[float] = None
    notice: Optional[float] = None  # seconds
    limits: Optional[Dict[str, Any]] = None  # the client's own words of the limits
    #: The number of hosts, and which one this is; worker 0 decides for all.
    hosts: Optional[int] = None
    worker: Optional[int] = None


class GetGuardRequest(ProtocolRequest[GuardAnswer], op="guard"):
    """The rule, and what the guard has seen last."""


class DelayGuardRequest(ProtocolRequest[GuardAnswer], op="keep", changes=True):
    """Nothing happens for so many *seconds*."""

    seconds: float


class NoteClientStopRequest(ProtocolRequest[GuardAnswer], op="client_stops"):
    """A client begins to stop the TPU in the guard's place; or, not *stops*, it could not. The
    limits that are reached do not stop the TPU again after its next start."""

    stops: bool


class RemoveGuardRequest(ProtocolRequest[GuardAnswer], op="remove_guard", changes=True):
    """Removes the rule; the guard ends soon."""


#: By their ops.
REQUESTS = find_requests(vars())
