"""Jobs: commands on hosts that continue without link, server or this machine."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ...options import option
from .problems import Problem

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


class StopJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """How to stop a job."""

    patience: Annotated[
        float, Meta(ge=0, le=3600), option("Time from SIGTERM to SIGKILL.", unit="seconds")
    ] = 10.0


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
    #: Why it could not be started there.
    problem: Problem | None = None


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
    created: str = ""
    #: Of the last attempt on all its hosts. "ended": with exit code 0 on each; "failed": with
    #: another one, or not started; "waiting": until the TPU is ready, to be started again.
    state: Literal[
        "starting", "running", "stopping", "ended", "failed", "stopped", "lost", "unknown",
        "waiting",
    ]  # fmt: skip
    #: The first one that is not 0; None while it is not known on all hosts.
    exit_code: int | None = None
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

    host: int | None = None  # None: the first host of the job
    #: The number of the first line; a negative one counts from the end.
    start: int = field(default=1, name="from")
    limit: Annotated[int, Meta(ge=1, le=5000)] = 1000
    search: str = ""
    #: Seconds to wait for a line.
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0
    attempt: int | None = None
    #: What the caller has of `JobLog.partial_out` and `partial_err`: another ends the waiting.
    partial_out: str = ""
    partial_err: str = ""
