"""Commands that run on hosts of a TPU, and end with the process that started them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .jobs import CommandEnvironment, Hosts, WorkingFolder
from .problems import Problem


class StartRun(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command to run on hosts of a TPU."""

    #: The program and its arguments, which no shell changes. `["sh", "-c", "…"]` for one.
    command: Annotated[list[str], Meta(min_length=1)]
    hosts: Hosts = "all"
    cwd: WorkingFolder = ""
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, option("Stop it after this time.", unit="seconds")
    ] = None
    #: "": none.
    environment: CommandEnvironment = None
    #: Whether input will be sent. Otherwise it is empty.
    input: bool = False
    #: Seconds after which it is stopped if no client asks about it any more; None: never.
    stop_unwatched: Annotated[float, Meta(gt=0)] | None = None


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
