"""Servers of models: jobs whose health is checked, with a port here that leads to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .core import Problem
from .jobs import (
    CommandEnvironment,
    HostJob,
    HostServing,
    Job,
    ServingSettings,
    Text,
    VariableName,
    WorkingFolder,
)

PortNumber = Annotated[int, Meta(ge=1, le=65535)]
URLPath = Annotated[str, Meta(pattern=r"^(/[!-~]{0,1000})?$", description="a path such as /health")]

#: The port of vLLM and of Ray Serve, if no other is chosen.
USUAL_PORT = 8000


class StartModelServer(Struct, kw_only=True, forbid_unknown_fields=True):
    """A server of a model to start on a TPU: a command, vLLM, or a Ray Serve application."""

    #: The program and its arguments; with `vllm`, more arguments for it.
    command: Annotated[list[str], Meta(max_length=10_000)] = []
    vllm: Annotated[
        Text,
        Meta(max_length=1000),
        option("Serve this model with vLLM. Further arguments are vLLM's.", metavar="MODEL"),
    ] = ""
    ray: Annotated[
        str,
        Meta(pattern=r"^([\w.]+:\w+)?$", description="a name such as module:app"),
        option("Run this application with Ray Serve, such as module:app.", metavar="APP"),
    ] = ""
    port: Annotated[
        PortNumber | None,
        option(
            "The port it listens on, on the host's loopback address. The command gets it as the "
            "variable PORT.",
            metavar="P",
            default=f"{USUAL_PORT} with --vllm and --ray",
        ),
    ] = None
    health: Annotated[
        URLPath,
        option(
            "It is healthy when this path answers with status 2xx or 3xx.",
            metavar="PATH",
            default="/health of vLLM, /-/healthz of Ray; else any answer to / below 500",
        ),
    ] = ""
    metrics: Annotated[
        URLPath | None,
        option(
            "Path of its Prometheus metrics (requests, tokens, queue); '' for none.",
            metavar="PATH",
            default="/metrics, if it is there",
        ),
    ] = None
    name: Annotated[
        Text,
        Meta(max_length=80),
        option("A name for it.", metavar="TEXT", default="the program's name, or the model's"),
    ] = ""
    hosts: Annotated[
        str,
        option(
            "Hosts: all, 0, or 0,2-5. The local port is forwarded to the first of them.",
            "--worker",
            default="all; 0 with --vllm and --ray",
        ),
    ] = ""
    cwd: WorkingFolder = ""
    environment: CommandEnvironment = None
    #: More environment variables. They are never shown.
    variables: dict[VariableName, str] = {}
    local_port: Annotated[
        PortNumber | None,
        option(
            "The local port that is forwarded to it.",
            metavar="N",
            default="the same number if it is free, else any",
        ),
    ] = None
    #: Whether a local port is forwarded to it.
    tunnel: bool = True
    unhealthy_limit: Annotated[
        float,
        Meta(ge=0, le=86400),
        option(
            "Restart it after it has not answered for so long; 0: never.", unit="seconds", rare=True
        ),
    ] = 60.0
    restart_together: Annotated[
        bool,
        option(
            "When it ends on one of several hosts, restart it on all of them, or on that host "
            "alone.",
            "--restart-together/--no-restart-together",
            rare=True,
        ),
    ] = True
    restart_with_tpu: Annotated[
        bool,
        option("Start it again after the TPU is restarted, or created again after a preemption."),
    ] = False
    start_on_request: Annotated[
        bool,
        option(
            "While the TPU is stopped, a request to the local port starts it. Needs a running "
            "Jupyter server, and --max-price or your consent outside of grants."
        ),
    ] = False
    hold_limit: Annotated[
        float,
        Meta(ge=0, le=3600),
        option(
            "How long a request waits for the TPU's start before it is answered with 503.",
            unit="seconds",
            rare=True,
        ),
    ] = 300.0
    max_price: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        option(
            "Requests start the TPU only if it costs at most so many USD an hour.", metavar="USD"
        ),
    ] = None
    #: Whether the user agrees to what the TPU costs when a request starts it.
    confirm_price: bool = False
    #: Set by the server: "agent" if it was asked with the coding agents' token.
    who: str = ""


class ModelServer(Struct, kw_only=True):
    """A server of a model on a TPU."""

    #: That of its job, which has its log.
    id: str
    tpu: str
    zone: str
    name: str
    command: list[str]
    environment: str = ""
    host: int  # the first of its hosts, to which its port leads
    hosts: list[int]
    port: int  # on the host
    #: "restarting": it has exited, and is started again. "waiting": for the TPU, with which it is
    #: started again. "unknown": the host can't be asked. "failed": it has exited for good.
    state: Literal[
        "starting", "healthy", "unhealthy", "restarting", "waiting", "stopping", "stopped",
        "failed", "unknown",
    ]  # fmt: skip
    since: str = ""
    #: Its URL on this computer; "" if no port is forwarded to it.
    url: str = ""
    #: The id of the tunnel.
    tunnel: str = ""
    #: A second, lately; None if the server does not say it.
    requests: float | None = None
    tokens: float | None = None
    #: Requests that wait in its queue.
    waiting: int | None = None
    restarts: int = 0
    #: What is wrong with it, or why it exited last.
    cause: str = ""
    problem: Problem | None = None
    start_on_request: bool = False
    restart_with_tpu: bool = False


_STATES = {
    "ended": "failed", "failed": "failed", "lost": "failed", "stopped": "stopped",
    "stopping": "stopping", "waiting": "waiting", "unknown": "unknown", "starting": "starting",
}  # fmt: skip


def model_server(job: Job) -> ModelServer:
    """The server that a job is, without what its tunnel says."""
    settings = job.serving or ServingSettings(port=0)
    hosts = job.attempts[-1].hosts
    first = hosts[0]
    report = first.serving
    others = [(host, host.serving) for host in hosts[1:] if host.serving is not None]
    state = _STATES.get(job.state, report.state if report is not None else "starting")
    server = ModelServer(
        id=job.id,
        tpu=job.tpu,
        zone=job.zone,
        name=job.name,
        command=job.command,
        environment=job.environment,
        host=first.host,
        hosts=[host.host for host in hosts],
        port=settings.port,
        state=state,  # type: ignore[arg-type]
        since=first.started,
        problem=first.problem,
        start_on_request=settings.start_on_request,
        restart_with_tpu=job.restart_with_tpu,
    )
    if report is not None:
        server.restarts = max([report.restarts, *(other.restarts for _, other in others)])
        if job.state == "running":
            server.since, server.cause = report.since, report.problem
            server.requests, server.tokens = report.requests, report.tokens
            server.waiting = report.waiting
            if report.exposed:
                server.problem = exposed_problem(report.exposed, settings.port)
            _add_other_hosts(server, others)
    if job.state != "running" and not job.stopped:
        server.cause = _why_not_running(job, hosts)
    return server


def _add_other_hosts(server: ModelServer, others: Sequence[tuple[HostJob, HostServing]]) -> None:
    """A server is not healthy while it is being started again on another host."""
    for host, report in others:
        if report.state == "restarting":
            if server.state == "healthy":
                server.state, server.since = "restarting", report.since
            server.cause = f"Host {host.host}: {report.problem}"
            return


def _why_not_running(job: Job, hosts: Sequence[HostJob]) -> str:
    """By the host that failed first, or that can't be asked, with its last lines."""
    failed = sorted(
        (host for host in hosts if host.exit_code),
        key=lambda host: (host.serving is None or not host.serving.restarts, host.ended),
    )
    unknown = [host for host in hosts if host.state == "unknown"]
    host = (failed or unknown or hosts)[0]
    where = f"Host {host.host}: " if len(hosts) > 1 and host.cause else ""
    last = f" Its last lines: {' / '.join(host.tail)}" if job.over and host.tail else ""
    return (where + host.cause + last).strip()


def exposed_problem(address: str, port: int) -> Problem:
    """The server listens where other machines can reach it."""
    from ...errors import Reason

    return Problem(
        message=f"It listens on {address}, so other machines in the TPU's network can reach port "
        f"{port}.",
        reason=Reason.PERMISSION,
        hint="Let it listen on 127.0.0.1 only, with --host 127.0.0.1 for example.",
    )
