"""Jobs, commands and Ray on hosts, and profiles of programs there."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ...options import option
from .core import Problem

Text = Annotated[str, Meta(pattern=r"^[^\x00]*$", description="text without NUL characters")]
VariableName = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="the name of a variable")
]

#: Which hosts, of what all of them can do.
Hosts = Annotated[str, option("Hosts: all, 0, or 0,2-5.", "--worker")]
WorkingFolder = Annotated[
    Text,
    Meta(max_length=4096),
    option(
        "Folder on the hosts, absolute or relative to the home folder.",
        "--cwd",
        metavar="DIR",
        default="the home folder",
    ),
]
CommandEnvironment = Annotated[
    str | None,
    option(
        "Find Python and programs of this environment first.",
        "--env",
        metavar="ENV",
        default='"default", if the TPU has it',
    ),
]


class StartJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command to run as a job."""

    #: The program and its arguments. No shell reads them: for one, give ["sh", "-c", …].
    command: Annotated[list[str], Meta(min_length=1, max_length=10_000)]
    name: Annotated[
        Text,
        Meta(max_length=80),
        option("What to call the job.", metavar="TEXT", default="the program's name"),
    ] = ""
    hosts: Hosts = "all"
    cwd: WorkingFolder = ""
    #: "": none.
    environment: CommandEnvironment = None
    #: More environment variables. They are never shown.
    variables: dict[VariableName, str] = {}
    restart_with_tpu: Annotated[
        bool,
        option("Start it again after the TPU is restarted, or created again after a preemption."),
    ] = False
    end_together: Annotated[
        bool,
        option(
            "If the job fails on one host, end it on the other hosts, too. They may wait for the "
            "failed host.",
            "--end-together/--no-end-together",
        ),
    ] = True
    #: Set by the server: "agent" if it was asked with the coding agents' token.
    who: str = ""


class StopJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """How to stop a job."""

    patience: Annotated[
        float, Meta(ge=0, le=3600), option("Time from SIGTERM to SIGKILL.", unit="seconds")
    ] = 10.0


class ServingSettings(Struct, kw_only=True):
    """How a job that is a server is looked after; see `StartModelServer`."""

    port: int
    health: str = ""
    metrics: str = ""
    unhealthy_limit: float = 0.0
    #: Another job may hold its port: the Ray of its TPU.
    shared: bool = False
    #: It is restarted on all its hosts when it ends on one of them.
    restart_together: bool = False
    #: A request to the local port starts the TPU, under these conditions.
    start_on_request: bool = False
    hold_limit: float = 0.0
    max_price: float | None = None
    confirm_price: bool = False


class HostServing(Struct, kw_only=True):
    """What is known of a server on one host. Rates: a second; None if it does not say them."""

    state: Literal["starting", "healthy", "unhealthy", "restarting"]
    since: str
    problem: str = ""
    restarts: int = 0
    #: Whether it has been healthy since the job's start.
    was_healthy: bool = True
    #: An address other than loopback that it listens on.
    exposed: str = ""
    requests: float | None = None
    tokens: float | None = None
    waiting: int | None = None


class HostJob(Struct, kw_only=True):
    """What is known of a job on one host."""

    host: int
    #: "starting": it is not known yet that the host has it. "failed": it could not be started.
    #: "unknown": the host can't be reached; the job may be running. "lost": it ended, and how is
    #: not known.
    state: Literal["starting", "running", "stopping", "ended", "failed", "lost", "unknown"] = (
        "starting"
    )
    #: As of a subprocess: negative for a signal. None: there is none, or it is not known.
    exit_code: int | None = None
    #: How it ended, in a sentence; or why it is "unknown".
    cause: str = ""
    #: Why the command is paused: the host's disk is full, for example. "" if it is not.
    paused: str = ""
    pid: int = 0
    started: str = ""
    ended: str = ""
    #: The host was restarted or created again meanwhile, and the job has ended with that.
    restarted: bool = False
    #: Since when its program has ended by an exception, while the process waits for other hosts.
    leaving_since: str = ""
    #: Since when it has printed nothing, if that is more than 10 times its usual gap; else "".
    silent_since: str = ""
    #: The usual time between two outputs then, in seconds.
    usual_gap: float = 0.0
    #: Its last lines, once it has ended.
    tail: list[str] = []
    #: Why it could not be started there.
    problem: Problem | None = None
    #: Of a server.
    serving: HostServing | None = None


class JobAttempt(Struct, kw_only=True):
    """One start of a job, on all its hosts."""

    number: int  # from 1
    created: str
    hosts: list[HostJob]


class Job(Struct, kw_only=True):
    """A command that runs on hosts of a TPU."""

    id: str
    tpu: str
    zone: str
    name: str
    command: list[str]
    cwd: str = ""
    environment: str = ""
    variables: list[str] = []  # their names
    restart_with_tpu: bool = False
    end_together: bool = True
    #: Of a server of a model.
    serving: ServingSettings | None = None
    created: str = ""
    #: The last attempt on all its hosts. "ended": with exit code 0 on each; "failed": with
    #: another one, or not started; "waiting": until the TPU is ready, to be started again.
    state: Literal[
        "starting", "running", "stopping", "ended", "failed", "stopped", "lost", "unknown",
        "waiting",
    ]  # fmt: skip
    #: That of the first host on which it failed; None while it is not known on all hosts.
    exit_code: int | None = None
    #: What seems wrong while it runs: a host has failed, or has printed nothing for long. Else "".
    notice: str = ""
    #: It was stopped by a person or a program.
    stopped: bool = False
    ended: str = ""
    #: The last is the current one.
    attempts: list[JobAttempt]

    @property
    def over(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.state in ("ended", "failed", "stopped", "lost")


class JobLine(Struct, kw_only=True):
    """A line of a job's output on one host."""

    number: int  # from 1 on each host
    time: str
    stream: Literal["out", "err"]
    text: str
    #: The line continues in the next record of this stream; it is longer than 32 KiB.
    more: bool = False


class JobLog(Struct, kw_only=True):
    """A part of a job's output on one host."""

    host: int
    attempt: int
    lines: list[JobLine]
    #: The first line that is still kept: older ones were dropped to limit the size.
    oldest: int = 1
    #: Where to read on.
    next: int = 1
    #: The number of the newest line.
    last: int = 0
    #: What was printed after that without an end of line: a progress bar, for example.
    partial_out: str = ""
    partial_err: str = ""
    #: Nothing will be added any more.
    complete: bool = False


class JobLogQuery(Struct, kw_only=True):
    """Which part of a job's output."""

    #: None: the first host of the job.
    host: Annotated[
        int | None, option("Only this host.", "--worker", metavar="N", default="all of the job")
    ] = None
    #: The number of the first line; a negative one counts from the end.
    start: int = field(default=1, name="from")
    limit: Annotated[int, Meta(ge=1, le=5000)] = 1000
    search: Annotated[str, option("Only lines with this text, in any case.", metavar="TEXT")] = ""
    #: Seconds to wait for a line.
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0
    attempt: Annotated[
        int | None, option("Only this start.", metavar="N", default="the last one")
    ] = None
    #: What the caller has of `JobLog.partial_out` and `partial_err`: another ends the waiting.
    partial_out: str = ""
    partial_err: str = ""


class StartRun(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command to run on hosts of a TPU."""

    #: The program and its arguments, which no shell changes. `["sh", "-c", "…"]` for one.
    command: Annotated[list[str], Meta(min_length=1)]
    hosts: Hosts = "all"
    cwd: WorkingFolder = ""
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, option("Stop it after this time.", typed="limit")
    ] = None
    #: "": none.
    environment: CommandEnvironment = None
    #: Whether input will be sent. Otherwise it is empty.
    input: bool = False
    #: Seconds after which it is stopped if no client asks about it any more; None: never.
    stop_unwatched: Annotated[float, Meta(gt=0)] | None = None
    #: Set by the server: "agent" if it was asked with the coding agents' token.
    who: str = ""


class RunInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """More standard input for a run, the same on all its hosts."""

    data: bytes = b""  # base64 in JSON
    #: There is no more.
    end: bool = False


class HostRun(Struct, kw_only=True):
    """A run on one host."""

    host: int
    #: "unknown": the connection was lost, and it may still run there.
    state: Literal["connecting", "running", "exited", "not-started", "unknown"] = "connecting"
    #: As a shell has it: 124 at the time limit, 126 and 127 for a program that can't be executed or
    #: does not exist, 128 + N for signal N; 255 if it was not started or its end is not known.
    code: int | None = None
    signal: str = ""  # that ended it, such as "SIGKILL"
    cause: Literal["", "timeout", "stopped", "abandoned"] = ""  # why it was ended, if it was
    seconds: float | None = None  # on the host, from its start to its end
    problem: Problem | None = None  # why it was not started, or its end is not known


class Run(Struct, kw_only=True):
    """A command on hosts of a TPU."""

    id: str
    tpu: str
    zone: str
    command: list[str]
    #: "done": it has ended on each host, or is given up there.
    state: Literal["running", "done"] = "running"
    #: The highest of the hosts' codes, once it is done.
    code: int | None = None
    created: str
    hosts: list[HostRun]


class OutputPart(Struct, kw_only=True):
    """Something that one host has written."""

    host: int
    stream: Literal["stdout", "stderr"]
    data: bytes  # base64 in JSON


class RunOutput(Struct, kw_only=True):
    """What a run has written from an offset on, in the order in which it came."""

    run: Run
    #: The offset of the first part: greater than what was asked for if the oldest output is gone.
    start: int
    #: The offset to ask for next.
    next: int
    output: list[OutputPart]
    #: The run is done, and this is the last of its output.
    ended: bool


class ProfileTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """A trace of all hosts of a TPU at once, to be shown in TensorBoard (xprof)."""

    seconds: Annotated[
        float, option("Duration of the trace, at most two minutes.", unit="seconds")
    ] = 3.0
    hosts: Hosts = "all"
    #: The ids of the kernels to trace; []: all that use JAX.
    kernels: list[str] = []
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        option(
            "Also trace programs that are not kernels, such as jobs, which called "
            "jax.profiler.start_server(PORT)."
        ),
    ] = None
    logdir: Annotated[
        str,
        Meta(max_length=4096),
        option("A folder on the hosts.", metavar="DIR", default="~/.jupyter-tpu/traces"),
    ] = ""


class Trace(Struct, kw_only=True):
    """How one program of a host was traced."""

    host: int
    kernel: str = ""  # its id; "" for a program that is not a kernel, or none at all
    notebook: str = ""
    #: "idle": nothing there uses JAX. "failed": `problem` says why, and what was kept.
    state: Literal["done", "idle", "failed"]
    problem: Problem | None = None
    #: On the host where TensorBoard runs, or if it could not be brought there, on its own.
    path: str = ""
    bytes: int = 0
    #: Seconds since 1970, by the host's clock.
    began: float = 0.0
    ended: float = 0.0
    #: Its kernel ran no cell when the trace began, nor when it ended.
    kernel_idle: bool = False


class Profile(Struct, kw_only=True):
    """A trace of a TPU: TensorBoard's folder, the name of the run in it, and each host's part."""

    tpu: str
    zone: str
    emulated: bool
    logdir: str
    run: str
    host: int  # where TensorBoard runs
    traces: list[Trace] = []

    def not_traced(self) -> list[tuple[list[int], Problem]]:
        """Why hosts have no trace, or one of their programs failed: each reason with its hosts."""
        done = {trace.host for trace in self.traces if trace.state == "done"}
        by_problem: dict[tuple[str, str], tuple[list[int], Problem]] = {}
        for trace in self.traces:
            problem = trace.problem
            if problem is not None and (trace.state == "failed" or trace.host not in done):
                same, _ = by_problem.setdefault((problem.message, problem.hint), ([], problem))
                if trace.host not in same:
                    same.append(trace.host)
        return list(by_problem.values())


class MemoryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which kernels' memory to show."""

    #: Numbers such as "0,2-5"; None: all.
    hosts: str | None = None
    #: The id of a kernel; None: all that use JAX.
    kernel: str | None = None


class MemoryLine(Struct, kw_only=True):
    """A line of a program, and the memory that it, and what it called, has allocated."""

    #: "In[3]:2" of a notebook, or "train.py:42".
    line: str
    function: str
    file: str
    bytes: int
    count: int  # of arrays and compiled programs
    #: What it called, the largest first. Lines of libraries are left out.
    calls: list[MemoryLine] = []


class MemoryProfile(Struct, kw_only=True):
    """What fills the memory of JAX's devices in a program (pprof, as a tree)."""

    host: int = 0
    kernel: str = ""
    notebook: str = ""
    problem: Problem | None = None  # why there is none
    #: Bytes of arrays by device, and of other things by their kind ("executable").
    devices: dict[str, int] = {}
    others: dict[str, int] = {}
    bytes: int = 0
    lines: list[MemoryLine] = []


class MemoryProfiles(Struct, kw_only=True):
    """Memory profiles of the kernels of a TPU."""

    tpu: str
    zone: str
    emulated: bool
    profiles: list[MemoryProfile]


class StartRay(Struct, kw_only=True, forbid_unknown_fields=True):
    """A Ray cluster to start on all hosts of a TPU."""

    environment: Annotated[Text, option("The environment with Ray.", "--env", metavar="ENV")] = (
        "default"
    )
    install: Annotated[
        bool, option("Install Ray in the environment, on all hosts, if it is missing there.")
    ] = False


class RayHost(Struct, kw_only=True):
    """One host of a TPU as a node of its Ray cluster."""

    host: int
    address: str
    #: "missing": it has not joined, or has left.
    state: Literal["alive", "missing"]
    chips: int = 0  # that Ray may give to tasks
    processors: int = 0


class Ray(Struct, kw_only=True):
    """The Ray cluster of a TPU."""

    tpu: str
    zone: str
    #: "failed": it ended by itself; `problem` says how. "unknown": host 0 can't be asked.
    state: Literal["stopped", "starting", "running", "stopping", "failed", "unknown"]
    #: The id of the job that runs it, or did last; "" if there was none.
    job: str = ""
    environment: str = ""
    version: str = ""
    #: On the pod's network; `ray.init()` in a kernel of this TPU finds it without.
    address: str = ""
    #: The port of its dashboard on host 0, on the loopback address; 0 if it is not known.
    dashboard_port: int = 0
    hosts: list[RayHost] = []
    problem: Problem | None = None
