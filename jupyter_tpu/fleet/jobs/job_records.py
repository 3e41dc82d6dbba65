"""The jobs that are known: what was asked for, and what their hosts last reported.

Several processes may follow the same jobs. So a change is a function of the record: it is applied
to what this process knows and, when it is saved, to what the file has then. No process overwrites
what another one has noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from ...on_host.agent.pod.host_names import number_ranges
from ...wording import printable
from ..core.host_numbers import host_ranges
from ..core.records import JobRecord
from ..core.store import Store
from ..models import HostJob, HostServing, Job, JobAttempt, JobLine, JobLog
from ..models.core import timestamp

#: So many attempts of a job are kept.
KEPT_ATTEMPTS = 20
#: Lines that are told with the end of a job, and characters of each.
TAIL_LINES, TAIL_CHARACTERS = 5, 300
#: Characters of what is said of a server.
SERVING_CHARACTERS = 1000
#: So many seconds after its connections have closed a host may note that a program has ended. Until
#: then a program on another host can fail for want of them, and note an earlier time.
NOTED_LATE = 0.2
#: States that a host has reported for good: an older report changes nothing any more.
_REPORTED_ENDS = ("ended", "lost")


class JobRecords:
    """The records of one fleet, kept in the store.

    changed(id) is called when something about a job may have changed.
    """

    def __init__(self, store: Store, changed: Callable[[str], None]) -> None:
        self._store = store
        self._changed = changed
        self._records = {record.id: record for record in store.snapshot.jobs}

    def all(self) -> list[JobRecord]:
        """The oldest first."""
        return sorted(self._records.values(), key=lambda record: (record.created, record.id))

    def get(self, id: str) -> JobRecord | None:
        return self._records.get(id)

    def host_job(self, id: str, host: int) -> HostJob | None:
        """What is known of the current attempt on one host."""
        record = self._records.get(id)
        return _host_job(record, record.attempts[-1].number, host) if record is not None else None

    def add(self, record: JobRecord) -> None:
        self._records[record.id] = record
        self._store.save_job(record)
        self._changed(record.id)

    def change(self, id: str, change: Callable[[JobRecord], None]) -> None:
        """Changes a job here, and as it is stored. *change* is called once for each, on two
        threads; it must find what it needs in the record.
        """
        if (record := self._records.get(id)) is not None:
            change(record)
            self._store.change_job(id, change)
            self._changed(id)

    def drop(self, id: str) -> None:
        self._records.pop(id, None)
        self._store.drop_job(id)
        self._changed(id)

    async def flush(self) -> None:
        """Returns when all changes are on disk; see `Store.flush`."""
        await self._store.flush()

    def update(self, id: str, attempt: int, host: int, **fields: Any) -> bool:
        """Changes what is known of a job on a host; False if nothing was new."""
        record = self._records.get(id)
        host_job = _host_job(record, attempt, host) if record is not None else None
        if host_job is None or not _is_news(host_job, fields):
            return False

        def change(record: JobRecord) -> None:
            host_job = _host_job(record, attempt, host)
            if host_job is None or not _is_news(host_job, fields):
                return
            for name, value in fields.items():
                setattr(host_job, name, value)
            if not _needs_variables(record):
                hidden = dict.fromkeys(record.request.variables, "")
                record.request = structs.replace(record.request, variables=hidden)

        self.change(id, change)
        return True

    def begin_attempt(self, id: str, after: int) -> None:
        """The job is to be started again on all its hosts, unless another process has noted that
        *after* the same attempt.
        """

        def change(record: JobRecord) -> None:
            if record.attempts[-1].number == after:
                begin_attempt(record)

        self.change(id, change)

    def reload(self, records: Iterable[JobRecord]) -> None:
        """Takes over what other processes have written."""
        stored = {record.id: record for record in records}
        for id in self._records.keys() | stored.keys():
            if self._records.get(id) != stored.get(id):
                self._changed(id)
        self._records = stored


def begin_attempt(record: JobRecord) -> None:
    """The job is to be started (again) on all its hosts."""
    number = record.attempts[-1].number + 1 if record.attempts else 1
    hosts = [HostJob(host=host) for host in record.hosts]
    attempt = JobAttempt(number=number, created=timestamp("seconds"), hosts=hosts)
    record.attempts = [*record.attempts, attempt][-KEPT_ATTEMPTS:]
    record.preempted = False


def _host_job(record: JobRecord, attempt: int, host: int) -> HostJob | None:
    """What is known of an attempt on a host, if that is the current one."""
    current = record.attempts[-1]
    hosts = (host_job for host_job in current.hosts if host_job.host == host)
    return next(hosts, None) if current.number == attempt else None


def _is_news(host_job: HostJob, fields: dict[str, Any]) -> bool:
    if (
        host_job.state in _REPORTED_ENDS
        and fields.get("state", host_job.state) not in _REPORTED_ENDS
    ):
        return False  # another process has heard of its end
    return any(getattr(host_job, name) != value for name, value in fields.items())


def _needs_variables(record: JobRecord) -> bool:
    """Whether it may have to be started with their values, which may be secret."""
    hosts = record.attempts[-1].hosts
    unstarted = any(not host.started and host.state not in FINAL for host in hosts)
    return unstarted or record.request.restart_with_tpu


#: States of a job on a host in which nothing changes any more.
FINAL = ("ended", "failed", "lost")
#: Said of a host whose process waits at the end of its program, as JAX lets it.
LEAVING = (
    "Its program ended with an exception, and waits for the other hosts in "
    "jax.distributed.shutdown."
)
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
        serving=record.serving,
        end_together=request.end_together,
        created=record.created,
        state=_state(record),
        exit_code=_exit_code(hosts),
        notice=job_notice(record),
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


def _exit_code(hosts: Sequence[HostJob]) -> int | None:
    if any(host.exit_code is None for host in hosts):
        return None
    return (_failed(hosts) or hosts)[0].exit_code


def _failed(hosts: Iterable[HostJob]) -> list[HostJob]:
    """Those on which it has ended badly, or its program has, the first of them first."""
    failed = [host for host in hosts if host.leaving_since or _is_failure(host)]
    return sorted(failed, key=lambda host: (_failed_at(host), host.host))


def _failed_at(host: HostJob) -> float:
    try:
        at = datetime.fromisoformat(host.leaving_since or host.ended).timestamp()
    except (ValueError, OverflowError):  # not known, as of one that is lost
        return 0.0
    # The time of an exception is the program's own, that of an exit the keeper's.
    return at if host.leaving_since else at - NOTED_LATE


def _is_failure(host: HostJob) -> bool:
    return host.state in FINAL and host.exit_code != 0


def lost_partner(record: JobRecord) -> bool:
    """Whether it has failed on a host, and is to end on the others."""
    return record.request.end_together and (
        bool(_failed(record.attempts[-1].hosts)) or _failed_at_start(record)
    )


def group_restarts(record: JobRecord) -> int:
    """How often a server is to be restarted on each of its hosts: as often as on any of them."""
    if record.serving is None or not record.serving.restart_together:
        return 0
    hosts = record.attempts[-1].hosts
    return max((host.serving.restarts for host in hosts if host.serving is not None), default=0)


def _failed_at_start(record: JobRecord) -> bool:
    """Whether a server has exited on a host before it was ever healthy: it would again."""
    first = record.attempts[-1].hosts[0].serving
    return first is not None and not first.was_healthy and group_restarts(record) > 0


def job_notice(record: JobRecord) -> str:
    """What seems wrong with a job that runs: see `Job.notice`."""
    hosts = record.attempts[-1].hosts
    left = [host.host for host in hosts if host.state not in FINAL]
    if not left or record.stopped or to_restart(record):
        return ""
    others = host_ranges(left)
    if failed := _failed(hosts):
        first = failed[0]
        why = first.problem.message if first.problem is not None else first.cause
        sentences = [f"The job has failed on host {first.host}."]
        sentences.append(why if first.state in FINAL else LEAVING)
        if record.request.end_together:
            sentences.append(f"It is being stopped on the hosts {others}.")
        else:
            sentences.append(f"It still runs on the hosts {others}.")
        if first.tail:
            sentences.append(f"Its last lines: {' / '.join(first.tail)}")
        return " ".join(sentences)
    silent = [host for host in hosts if host.silent_since and host.state == "running"]
    if not silent:
        return ""
    first = min(silent, key=lambda host: host.silent_since)
    sentences = [
        f"No output from {_hosts(silent)} since {first.silent_since[:19]}Z.",
        f"The usual time between two outputs was {first.usual_gap:g} s.",
    ]
    if ended := [host for host in hosts if host.state in FINAL]:
        sentences.append(f"Already ended with exit code 0: {_hosts(ended)}.")
    return " ".join(sentences)


def _hosts(hosts: Iterable[HostJob]) -> str:
    return number_ranges("host", [host.host for host in hosts])


def host_job(host: int, report: Mapping[str, Any]) -> HostJob:
    """What a host's daemon reports."""
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
        serving=_host_serving(report.get("serving")),
        leaving_since=report.get("leaving_since", ""),
        silent_since=report.get("silent_since", ""),
        usual_gap=report.get("usual_gap", 0.0),
        tail=[printable(line)[:TAIL_CHARACTERS] for line in report.get("tail", [])[:TAIL_LINES]],
    )


def _host_serving(report: Mapping[str, Any] | None) -> HostServing | None:
    if report is None:
        return None
    texts: dict[str, Any] = {
        name: printable(report[name])[:SERVING_CHARACTERS] for name in ("problem", "exposed")
    }
    names = ("state", "since", "restarts", "requests", "tokens", "waiting")
    fields: dict[str, Any] = {name: report[name] for name in names}
    return HostServing(**fields, **texts, was_healthy=report.get("was_healthy", True))


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
