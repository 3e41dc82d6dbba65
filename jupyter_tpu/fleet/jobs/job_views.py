"""How a job is shown: from its record, and from what its hosts report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.records import JobRecord
from ..models import HostJob, Job, JobLine, JobLog
from ..models.core import timestamp

#: States of a job on a host in which nothing changes any more.
FINAL = ("ended", "failed", "lost")
#: A job has the first of these states that it has on a host.
_ORDER = ("starting", "unknown", "stopping", "running", "lost", "failed")


def is_final(record: JobRecord) -> bool:
    """Whether nothing happens to it any more."""
    hosts = record.attempts[-1].hosts
    return all(host.state in FINAL for host in hosts) and not to_restart(record)


def to_restart(record: JobRecord) -> bool:
    """Whether the job was ended by its TPU's restart and should run again."""
    tpu = record.request.restart_with_tpu and not record.stopped
    return tpu and any(host.restarted for host in record.attempts[-1].hosts)


def view(record: JobRecord) -> Job:
    """The job as faces show it."""
    request, hosts = record.request, record.attempts[-1].hosts
    codes = [host.exit_code for host in hosts]
    final = is_final(record)
    return Job(
        id=record.id,
        tpu=record.tpu,
        zone=record.zone,
        name=request.name or request.command[0].rpartition("/")[2],
        command=request.command,
        cwd=request.cwd,
        environment=request.environment or "",
        variables=sorted(request.variables),
        restart_with_tpu=request.restart_with_tpu,
        created=record.created,
        state=_state(record),
        exit_code=None if None in codes else next(filter(None, codes), 0),
        stopped=record.stopped,
        ended=max(host.ended for host in hosts) if final else "",
        attempts=record.attempts,
    )


def _state(record: JobRecord) -> Any:
    if to_restart(record):
        return "waiting"
    hosts = record.attempts[-1].hosts
    states = {host.state for host in hosts}
    state = next((candidate for candidate in _ORDER if candidate in states), "ended")
    if state in ("ended", "failed", "lost") and record.stopped:
        return "stopped"
    return "failed" if state == "ended" and any(host.exit_code for host in hosts) else state


def host_job(host: int, report: Mapping[str, Any]) -> HostJob:
    """What a host's agent reports."""
    return HostJob(
        host=host,
        state=report["state"],
        exit_code=report["code"],
        cause=report["cause"],
        paused=report["paused"],
        pid=report["pid"],
        started=report["started"],
        ended=report["ended"],
        restarted=report["restarted"],
    )


def job_log(host: int, attempt: int, answer: Mapping[str, Any]) -> JobLog:
    """The answer of a host's agent."""
    status = answer["status"]
    lines = [
        JobLine(
            number=number,
            time=timestamp(at=milliseconds / 1000),
            stream=stream,
            text=text,
            more=bool(more),
        )
        for number, milliseconds, stream, text, more in answer["lines"]
    ]
    return JobLog(
        host=host,
        attempt=attempt,
        lines=lines,
        oldest=answer["oldest"],
        next=answer["next"],
        last=answer["last"],
        partial_out=answer["partial"]["out"],
        partial_err=answer["partial"]["err"],
        complete=status["state"] in FINAL and answer["next"] > answer["last"],
    )
