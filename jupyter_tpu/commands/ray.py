"""``jupyter tpu ray`` and ``%tpu ray``: Ray on all hosts of a TPU, and scripts that use it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples, program
from ..terminal.operations import wait_with_notes
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, note, print_json
from ..terminal.questions import can_ask, confirm, yes_option
from ..terminal.session import FleetSession, fleet_call, open_session
from ..terminal.tables import problem_text, table
from .app import browser_option, show_app
from .job_text import variables
from .scripts import (
    as_text,
    only_tpu,
    pass_env_option,
    script_command,
    send_project,
    tpu_of_script_option,
)

if TYPE_CHECKING:
    from ..fleet.api import FleetAPI
    from ..fleet.models import Job, Ray


#: In which a host reports the end of a job whose output is complete; seconds.
REPORT_SECONDS = 30.0


@click.group("ray", cls=Group, aliases={"up": "start", "down": "stop"})
def ray() -> None:
    """Run Ray on all hosts of a TPU.

    Host 0 is the head of the cluster, and the other hosts join it over the TPU's own network. The
    cluster continues without this computer, until it is stopped or the TPU is deleted. `ray.init()`
    in a kernel of this TPU finds it.
    """


@ray.command(
    "start",
    epilog=examples("jupyter tpu ray start my-pod", "jupyter tpu ray start my-pod --install"),
)
@tpu_argument()
@options_of("StartRay")
@json_option
def start(name: str, fields: dict[str, Any], as_json: bool) -> None:
    """Start Ray on all hosts.

    A cluster that runs is kept, and a start that was interrupted is completed.
    """
    from ..fleet.models import StartRay

    request = StartRay(**fields)
    with open_session() as session:
        try:
            _start(session, name, request)
        except TPUError as error:
            missing = error.reason is Reason.ENVIRONMENT and "--install" in error.hint
            if request.install or not missing or not can_ask():
                raise
            question = f"{error.message} Install Ray on all hosts (about 600 MB each)?"
            confirm(question, error.hint)
            request.install = True
            _start(session, name, request)
        cluster = session.call(session.fleet.ray.get(name))
    if as_json:
        return print_json(cluster)
    print(ray_text(cluster))
    note("In a kernel of this TPU: import ray; ray.init()")
    note(f"Its dashboard: jupyter tpu ray dashboard {name}")


def _start(session: FleetSession, name: str, request: Any) -> None:
    wait_with_notes(session, session.call(session.fleet.ray.start(name, request)))


@ray.command("status")
@tpu_argument()
@json_option
def status(name: str, as_json: bool) -> None:
    """Show the cluster, host by host."""
    cluster = fleet_call(lambda fleet: fleet.ray.get(name))
    if as_json:
        return print_json(cluster)
    print(ray_text(cluster))


def ray_text(cluster: Ray) -> str:
    """The cluster: its state, and a row for each host."""
    lines = [f"Ray on {cluster.tpu}: {cluster.state}"]
    if cluster.address:
        lines[0] += f", Ray {cluster.version} at {cluster.address} (job {cluster.job})"
    if cluster.problem is not None:
        lines.append(problem_text(cluster.problem))
    if cluster.hosts:
        rows = [
            (str(host.host), host.state, host.address, str(host.chips), str(host.processors))
            for host in cluster.hosts
        ]
        lines.append(table(("HOST", "STATE", "ADDRESS", "TPU", "CPU"), rows))
    elif cluster.state == "stopped":
        lines.append(f"Start it: {program()} ray start {cluster.tpu}")
    return "\n".join(lines)


@ray.command(
    "submit",
    epilog=examples(
        "jupyter tpu ray submit train.py -- --epochs 3",
        "jupyter tpu ray submit train.py --tpu my-pod --detach",
    ),
)
@argument(
    "script", metavar="SCRIPT.py", type=click.Path(path_type=Path), help="A local Python file."
)
@argument(
    "args",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- ARGS...]",
    help="Arguments of the script.",
)
@tpu_of_script_option
@options_of("StartJob", "name")
@pass_env_option
@click.option("--detach", "-d", is_flag=True, help="Return at once; the job continues.")
@json_option
def submit(
    script: Path,
    args: tuple[str, ...],
    tpu: str | None,
    fields: dict[str, Any],
    passed: tuple[str, ...],
    detach: bool,
    as_json: bool,
) -> None:
    """Run a script with Ray; follow its output.

    It runs on host 0, and ray.init() in it finds the cluster. Its project is first copied to all
    hosts, as by `jupyter tpu sync`. It runs as a job: after Ctrl-C it continues. The exit code is
    the script's.
    """
    from ..fleet.models import StartJob

    with open_session() as session:
        name = tpu or only_tpu(session)
        cluster = session.call(session.fleet.ray.get(name))
        if cluster.state != "running":
            raise TPUError(
                f"Ray does not run on {cluster.tpu}: it is {cluster.state}.",
                Reason.CONFLICT,
                f"Start it: {program()} ray start {cluster.tpu}",
            )
        folder = send_project(
            session, name, script, lambda sending: wait_with_notes(session, sending)
        )
        request = StartJob(
            command=as_text(script_command(script, args)),
            hosts="0",
            cwd=folder,
            environment=cluster.environment,
            variables={
                **variables(None, passed),
                "RAY_ADDRESS": cluster.address,
                "RAY_AUTH_MODE": "token",
            },
            name=fields.get("name") or script.name,
        )
        job = session.call(session.fleet.jobs.start(name, request))
        if detach or as_json:
            if as_json:
                return print_json(job)
            return print(f"Started job {job.id} ({job.name}) on {job.tpu}")
        note(f"Started job {job.id} ({job.name}) on {job.tpu}")
        code = _follow(session, name, job.id)
    if code:
        raise click.exceptions.Exit(code)


def _follow(session: FleetSession, name: str, id: str) -> int:
    """Shows a job's output until it ends; its exit code."""
    from .job import follow_job

    try:
        follow_job(session, name, id)
    except KeyboardInterrupt:
        note(f"The job continues. Its output: {program()} job logs {name} {id} --follow")
        raise
    ended = session.call(_ended_job(session.fleet, name, id))
    if ended.exit_code is None:
        raise TPUError(
            f"The job {id} is {ended.state}; its exit code is not known.",
            Reason.UNAVAILABLE,
            f"See {program()} job list {name}.",
        )
    # A signal, as a shell says it.
    return ended.exit_code if ended.exit_code >= 0 else 128 - ended.exit_code


async def _ended_job(fleet: FleetAPI, name: str, id: str) -> Job:
    """The job, once its end is reported, which is a moment after its last line."""
    import asyncio

    job = await fleet.jobs.get(name, id)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REPORT_SECONDS):
            while not job.over:
                await asyncio.sleep(0.2)
                job = await fleet.jobs.get(name, id)
    return job


@ray.command("stop")
@tpu_argument()
@yes_option("Stop it without asking.")
@json_option
def stop(name: str, yes: bool, as_json: bool) -> None:
    """Stop Ray, and what runs on it."""
    with open_session() as session:
        cluster = session.call(session.fleet.ray.get(name))
        if not yes and cluster.state in ("starting", "running", "unknown"):
            confirm(
                f"Stop Ray on {cluster.tpu}? Its tasks and actors end.",
                "Add --yes to stop it without asking.",
            )
        stopped = session.call(session.fleet.ray.stop(name))
    if as_json:
        return print_json(stopped)
    print(f"Ray on {stopped.tpu}: {stopped.state}")


@ray.command("dashboard", epilog=examples("jupyter tpu ray dashboard my-pod"))
@tpu_argument()
@browser_option
@json_option
def dashboard(name: str, no_browser: bool, as_json: bool) -> None:
    """Open Ray's dashboard.

    It has an origin of its own, as all web apps of hosts, and needs no token there.
    """
    with open_session() as session:
        opened = session.call(session.fleet.ray.open_dashboard(name))
        if as_json:
            print_json(opened)
        show_app(session, opened, no_browser=no_browser, quiet=as_json)
