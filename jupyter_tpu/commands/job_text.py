"""Jobs as command lines say them: what to start, a table, and a log that is followed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.field_options import read_text
from ..terminal.grammar import program
from ..terminal.tables import state_text, table

if TYPE_CHECKING:
    from ..fleet.api import FleetAPI
    from ..fleet.models import Job, JobLog, JobLogQuery

#: How long one question waits for new output; seconds.
OUTPUT_SECONDS = 20.0
#: The pause after a host could not be reached; seconds.
RETRY_SECONDS = 2.0
#: While these are why a log can't be read, it is asked for again.
_PASSING = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.CONFLICT, Reason.UNAVAILABLE)


def variables(env_file: str | None, names: Sequence[str]) -> dict[str, str]:
    """The variables of a file with lines NAME=VALUE, and those of this process with *names*.

    Raises INVALID. Values come in no other way: every user can read a command line.
    """
    parsed: dict[str, str] = {}
    if env_file is not None:
        lines = read_text(env_file).split("\n")
        for number, line in enumerate(map(str.strip, lines), 1):
            if not line or line.startswith("#"):
                continue
            name, separator, value = line.removeprefix("export ").partition("=")
            if not separator:
                raise InvalidInput(f"Line {number} of {env_file} is not NAME=VALUE.")
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            parsed[name.strip()] = value[1:-1] if quoted else value
    for name in names:
        if name not in os.environ:
            raise InvalidInput(f"The variable {name} is not set here.")
        parsed[name] = os.environ[name]
    return parsed


def job_table(jobs: Sequence[Job], *, of_one_tpu: bool) -> str:
    """The jobs, and below them what is to be known of single hosts."""
    if not jobs:
        return f"No jobs. Start one: {program()} job start NAME -- CMD"
    heads = ("ID", "TPU", "NAME", "STATE", "EXIT CODE", "HOSTS", "STARTED", "ATTEMPT", "COMMAND")
    rows = [
        (
            job.id,
            "" if of_one_tpu else job.tpu,
            job.name,
            state_text(job.state),
            "" if job.exit_code is None else str(job.exit_code),
            _host_list(job),
            job.created,
            str(job.attempts[-1].number) if job.restart_with_tpu else "",
            shlex.join(job.command),
        )
        for job in jobs
    ]
    return "\n".join([table(heads, rows), *(line for job in jobs for line in remarks(job))])


def remarks(job: Job) -> list[str]:
    """What is to be known of a job on its hosts, beyond its state."""
    lines = [f"{job.id}: {job.notice}"] if job.notice else []
    for host in job.attempts[-1].hosts:
        if job.stopped and host.state in ("stopping", "ended"):
            continue  # as someone wanted
        why = host.problem.message if host.problem is not None else host.paused or host.cause
        if why and (host.state != "ended" or host.exit_code):
            lines.append(f"{job.id}, host {host.host}: {host.state}. {why}")
    return lines


def _host_list(job: Job) -> str:
    from ..fleet.core.host_numbers import host_ranges

    return host_ranges([host.host for host in job.attempts[-1].hosts])


async def read_logs(
    fleet: FleetAPI,
    ref: str,
    queries: Sequence[JobLogQuery],
    id: str,
    *,
    follow: bool,
    show: Callable[[JobLog], None],
    note: Callable[[str], None],
) -> None:
    """Calls *show* with each part of a job's output, host by host or, to follow it, as it comes.

    Ends when there is no more, or to follow it, when the job has ended. While a host can't be
    reached it is asked again; *note* is told why.
    """
    import asyncio

    readings = [
        _read(fleet, ref, id, query, follow=follow, show=show, note=note) for query in queries
    ]
    if follow:
        await asyncio.gather(*readings)
    else:
        for reading in readings:
            await reading


async def _read(
    fleet: FleetAPI,
    ref: str,
    id: str,
    query: JobLogQuery,
    *,
    follow: bool,
    show: Callable[[JobLog], None],
    note: Callable[[str], None],
) -> None:
    import asyncio

    noted = ""
    while True:
        try:
            log = await fleet.jobs.log(ref, id, query)
        except TPUError as error:
            if not follow or error.reason not in _PASSING:
                raise
            if noted != error.message:
                noted = error.message
                note(f"host {query.host}: {error.message} Will be retried.")
            await asyncio.sleep(RETRY_SECONDS)
            continue
        noted = ""
        if query.start < 0:
            query.start = max(1, log.last + 1 + query.start)
        show(log)
        ended = log.complete if follow else log.next > log.last
        if ended:
            return
        query.start, query.wait = log.next, OUTPUT_SECONDS if follow else 0.0
        query.partial_out, query.partial_err = log.partial_out, log.partial_err
