"""``jupyter tpu job`` and ``%tpu job``: commands on hosts that continue without link, server or
this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples, parameters, program
from ..terminal.operations import wait_with_notes
from ..terminal.parameters import command_argument, tpu_argument
from ..terminal.printing import json_option, list_options, note, print_json, print_list
from ..terminal.questions import confirm, yes_option
from ..terminal.session import FleetSession, open_session
from ..terminal.streams import explained, plain, verbatim
from ..terminal.tables import is_terminal
from .job_text import job_table, read_logs, remarks, variables
from .scripts import (
    as_text,
    only_tpu,
    pass_env_option,
    script_command,
    script_of,
    send_project,
    tpu_of_script_option,
)

if TYPE_CHECKING:
    from ..fleet.models import Job, JobLog

_id_argument = argument("id", metavar="JOB", help="The job's ID; `job list` shows it.")
_newest_argument = argument(
    "id",
    metavar="[JOB]",
    required=False,
    help="The job's ID; `job list` shows it.  [default: the newest job of the TPU]",
)


@click.group(
    "job",
    cls=Group,
    aliases={"log": "logs", "ps": "list", "remove": "delete", "rm": "delete", "run": "start"},
)
def job() -> None:
    """Run commands that continue without this computer, and read their output later.

    A job needs neither a connection nor a server. Its output and exit code stay on the hosts until
    the job is removed.
    """


@job.command(
    "start",
    epilog=examples(
        "jupyter tpu job start my-tpu --cwd project -- python train.py",
        "jupyter tpu job start my-tpu --worker 0 --name eval -- sh -c 'python eval.py | tail -5'",
        "jupyter tpu job start my-tpu --restart-with-tpu --pass-env WANDB_API_KEY -- ./train.sh",
        "jupyter tpu job start train.py -- --epochs 3",
    ),
)
@tpu_argument()
@command_argument
@tpu_of_script_option
@options_of("StartJob", "hosts", "cwd", "environment", "name")
@pass_env_option
@click.option("--env-file", metavar="FILE", help="A file with lines VARIABLE=VALUE for the job.")
@options_of("StartJob", "restart_with_tpu", "end_together")
@json_option
def start(
    name: str,
    command: tuple[str, ...],
    tpu: str | None,
    fields: dict[str, Any],
    passed: tuple[str, ...],
    env_file: str | None,
    as_json: bool,
) -> None:
    """Start a job on hosts of a TPU.

    A local SCRIPT.py in place of NAME is run with the environment's Python. Its project is
    first copied to all hosts, as by `jupyter tpu sync`. The project is the nearest folder with .git
    or pyproject.toml, or the script's own folder.
    """
    from ..fleet.models import StartJob

    script = script_of(name, command, tpu)
    if script is not None and fields.get("cwd"):
        raise click.UsageError("SCRIPT.py runs in its project's folder, without --cwd.")
    request = StartJob(
        command=as_text(list(command) or [name]),
        variables=variables(env_file, passed),
        **fields,
    )
    with open_session() as session:
        if script is not None:
            name = tpu or only_tpu(session)
            request.name = request.name or script.name
            request.command = as_text(script_command(script, command))
            request.cwd = send_project(
                session, name, script, lambda sending: wait_with_notes(session, sending)
            )
        started = session.call(session.fleet.jobs.start(name, request))
        followed = session.server is not None
    if as_json:
        return print_json(started)
    print(f"Started job {started.id} ({started.name}) on {started.tpu}")
    _print_remarks(started)
    if request.restart_with_tpu and not followed:
        note("It is started again with the TPU only while a Jupyter server is running.")
    note(f"Its output: {program()} job logs {name} {started.id} --follow")


@job.command("list")
@tpu_argument(required=False)
@list_options
def list_jobs(name: str | None) -> None:
    """List the jobs of a TPU, or of all TPUs."""
    with open_session() as session:
        jobs = session.fleet.jobs
        listed = session.call(jobs.all() if name is None else jobs.list(name))
    print_list(listed, lambda jobs: job_table(jobs, of_one_tpu=name is not None))


#: Which job, and what of its output is shown.
log_options = parameters(
    _newest_argument,
    click.option("--follow", "-f", is_flag=True, help="Continue until the job ends, or Ctrl-C."),
    click.option("--from", "first", type=int, metavar="N", help="Begin with line N."),
    click.option("--tail", type=int, metavar="N", help="Begin with the last N lines."),
    options_of("JobLogQuery", "search", "host", "attempt", into="query"),
    click.option("--numbers", "-n", is_flag=True, help="Print the number of each line."),
    json_option,
)


@job.command(
    "logs",
    epilog=examples(
        "jupyter tpu job logs my-tpu --follow",
        "jupyter tpu job logs my-tpu 1a2b3c4d --tail 100",
        "jupyter tpu job logs my-tpu 1a2b3c4d --search error --worker 3",
    ),
)
@tpu_argument()
@log_options
def logs(
    name: str,
    id: str | None,
    follow: bool,
    first: int | None,
    tail: int | None,
    query: dict[str, Any],
    numbers: bool,
    as_json: bool,
) -> None:
    """Print the output of a job, starting at any line."""
    from ..fleet.models import JobLogQuery

    if first is not None and tail is not None:
        raise InvalidInput("--from and --tail can't be used together.")
    if (first is not None and first < 1) or (tail is not None and tail < 1):
        raise InvalidInput("--from and --tail are 1 or more.")
    begin = first if first is not None else -tail if tail is not None else 1
    with open_session() as session:
        id = id or _newest(session, name)
        job_view = session.call(session.fleet.jobs.get(name, id))
        all_hosts = [host.host for host in job_view.attempts[-1].hosts]
        hosts = [query.pop("host")] if "host" in query else all_hosts
        queries = [JobLogQuery(host=host, start=begin, limit=5000, **query) for host in hosts]
        show = _Output(prefixed=len(hosts) > 1, numbers=numbers, begin=begin, follow=follow)
        shown = print_json if as_json else show.show
        session.call(
            read_logs(session.fleet, name, queries, id, follow=follow, show=shown, note=note)
        )


def follow_job(session: FleetSession, name: str, id: str) -> None:
    """Prints a job's output as it comes, until the job ends."""
    from ..fleet.models import JobLogQuery

    hosts = [
        host.host for host in session.call(session.fleet.jobs.get(name, id)).attempts[-1].hosts
    ]
    queries = [JobLogQuery(host=host, limit=5000) for host in hosts]
    show = _Output(prefixed=len(hosts) > 1, numbers=False, begin=1, follow=True)
    session.call(
        read_logs(session.fleet, name, queries, id, follow=True, show=show.show, note=note)
    )


def _newest(session: FleetSession, name: str) -> str:
    jobs = session.call(session.fleet.jobs.list(name))
    if not jobs:
        raise TPUError(
            f"{name} has no job.",
            Reason.NOT_FOUND,
            f"Start one: {program()} job start {name} -- CMD",
        )
    newest = max(jobs, key=lambda job: job.created)
    note(f"Job {newest.id} ({newest.name}, {newest.state}):")
    return newest.id


class _Output:
    """Prints parts of a log: lines of stdout there, others to stderr."""

    def __init__(self, *, prefixed: bool, numbers: bool, begin: int, follow: bool) -> None:
        self._prefixed = prefixed
        self._numbers = numbers
        self._begin = begin
        self._live = follow and not prefixed and is_terminal(sys.stdout)
        self._follow = follow
        self._noted: set[int] = set()  # hosts whose missing lines were noted

    def show(self, log: JobLog) -> None:
        if log.oldest > max(self._begin, 1) and log.host not in self._noted and self._begin > 0:
            self._noted.add(log.host)
            note(
                f"… lines {self._begin} to {log.oldest - 1} of host {log.host} were dropped to "
                "limit the size of the output"
            )
        with explained(plain(sys.stdout)):
            self._write(log)
        sys.stdout.flush()
        sys.stderr.flush()

    def _write(self, log: JobLog) -> None:
        out, err = plain(sys.stdout), plain(sys.stderr)  # the job's own output
        if self._live:
            out.write("\r\x1b[K")
        for line in log.lines:
            start = f"[{log.host}] " if self._prefixed else ""
            start += f"{line.number:>6}  " if self._numbers else ""
            stream = out if line.stream == "out" else err
            stream.write(f"{start}{line.text}" + ("" if line.more else "\n"))
        if self._live:
            out.write((log.partial_out or log.partial_err)[-200:])
        elif log.next > log.last and (log.complete or not self._follow):
            for stream, rest in ((out, log.partial_out), (err, log.partial_err)):
                stream.write(f"{rest}\n" if rest else "")


@job.command(
    "export",
    epilog=examples(
        "jupyter tpu job export my-pod 1a2b3c4d --to skypilot",
        "jupyter tpu job export my-pod 1a2b3c4d --to gcluster --folder ~/train --output job.sh",
    ),
)
@tpu_argument()
@_id_argument
@click.option(
    "--to", required=True, type=click.Choice(["skypilot", "gcluster", "kinetic"]), help="The tool."
)
@click.option("--folder", metavar="DIR", default=".", help="The project on this computer.")
@click.option(
    "--output", metavar="FILE", help="Where to write it; - prints it only.  [default: JOB.ENDING]"
)
@yes_option("Overwrite the file without asking.")
def export(name: str, id: str, to: Any, folder: str, output: str | None, yes: bool) -> None:
    """Write a file with which another tool runs the same job.

    It has the command, the exact packages of the environment, and all hosts of a TPU of the same
    type, but no secrets. The tool's own parser reads the file, if the tool is installed here.
    """
    from ..fleet.models.core import known_type
    from .job_export import check, export_job

    project = Path(folder).expanduser().resolve()
    if not project.is_dir():
        raise InvalidInput(f"The folder {project} does not exist.")
    with open_session() as session:
        job_view = session.call(session.fleet.jobs.get(name, id))
        tpu = session.call(session.fleet.tpu(name))
        kind = known_type(tpu.type)
        if kind is None:
            raise InvalidInput(f"{tpu.name} is not a TPU of a type that {to} could create.")
        lock = None
        if job_view.environment:
            try:
                lock = session.call(session.fleet.environments.get_lock(name, job_view.environment))
            except TPUError as error:
                if error.reason is not Reason.CONFLICT or tpu.state != "READY":
                    raise
                note(error.message)  # it was found there, and is not ours to lock
    exported = export_job(job_view, lock, kind, to, str(project), tier=tpu.tier)
    print(verbatim(exported.content), end="")
    if output != "-":
        path = Path(output or exported.file_name)
        if path.exists() and not yes:
            confirm(f"Overwrite {path}?", "Add --yes to overwrite it, or name another --output.")
        path.write_text(exported.content, encoding="utf-8")
        note(f"Wrote {path}")
        note(check(to, path))
    for line in exported.notes:
        note(line)


@job.command(
    "why", epilog=examples("jupyter tpu job why my-pod", "jupyter tpu job why my-pod 1a2b3c4d")
)
@tpu_argument()
@_newest_argument
@json_option
def why(name: str, id: str | None, as_json: bool) -> None:
    """Show where a job is on each host, for example if it hangs.

    It asks each process of the job that holds chips for its Python stack. Hosts at the same line
    are shown together. The program continues meanwhile, and needs no change.
    """
    with open_session() as session:
        id = id or _newest(session, name)
        where = session.call(session.fleet.jobs.why(name, id))
    if as_json:
        return print_json(where)
    for line in where.explanation:
        print(line)


@job.command("stop")
@tpu_argument()
@_id_argument
@options_of("StopJob", "patience")
@yes_option("Stop it without asking.")
@json_option
def stop(name: str, id: str, fields: dict[str, Any], yes: bool, as_json: bool) -> None:
    """Stop a job, and all that it started."""
    from ..fleet.models import StopJob

    with open_session() as session:
        if not yes:
            job = session.call(session.fleet.jobs.get(name, id))
            if not job.over:
                confirm(
                    f"Stop the job {job.name} ({job.id}, {job.state}) on {job.tpu}?",
                    "Add --yes to stop it without asking.",
                )
        stopped = session.call(session.fleet.jobs.stop(name, id, StopJob(**fields)))
    if as_json:
        return print_json(stopped)
    print(f"Job {stopped.id}: {stopped.state}")
    _print_remarks(stopped)


@job.command("delete")
@tpu_argument()
@_id_argument
@yes_option("Delete it without asking.")
def delete(name: str, id: str, yes: bool) -> None:
    """Delete a job that has ended, and its output."""
    with open_session() as session:
        if not yes:
            job = session.call(session.fleet.jobs.get(name, id))
            if job.over:  # else it is refused
                confirm(
                    f"Delete the job {job.name} ({job.id}) and its output on {job.tpu}?",
                    "Add --yes to delete it without asking.",
                )
        session.call(session.fleet.jobs.remove(name, id))
    print(f"Deleted job {id} and its output.")


def _print_remarks(job: Job) -> None:
    for line in remarks(job):
        note(line)
