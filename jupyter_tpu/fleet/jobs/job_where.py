"""Where a job stands: what its hosts answer, and the lines that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import to_builtins

from ...errors import TPUError
from ...on_host.agent.pod.host_names import number_ranges, sentence
from ...on_host.agent.pod.positions import Position, position_lines, position_of
from ...wording import age_text, printable
from ..core.records import JobRecord
from ..models import HostJob, JobFrame, JobOnHost, JobWhere, Problem, ProcessPlace
from .job_records import FINAL, LEAVING, TAIL_LINES, job_notice, to_restart

#: Lines of hosts that say something of their own.
MOST_LINES = 100
#: Characters of a path, of a line of code, and of why a job has ended.
PATH_CHARACTERS, TEXT_CHARACTERS, CAUSE_CHARACTERS = 300, 200, 1000
#: What a process does that has no frames of Python.
_STATES = {
    "running": "computes",
    "waiting": "waits",
    "blocked": "is blocked by a device or a disk",
    "stopped": "is stopped by a signal (SIGSTOP)",
    "traced": "is stopped by a debugger",
}
AT_END = (
    "Its program has ended, and waits for the other hosts in jax.distributed.shutdown, as JAX does "
    "at exit."
)
#: States of a process that are said also with its frames.
_ODD_STATES = {"running", "blocked", "stopped", "traced"}


def on_host(host: int, answer: Mapping[str, Any]) -> JobOnHost:
    """What a host's daemon answers; bounded, and without what a terminal would obey."""
    report = answer["status"]
    return JobOnHost(
        host=host,
        state=report["state"],
        exit_code=report["code"],
        cause=_cut(report["cause"], CAUSE_CHARACTERS),
        leaving_since=report.get("leaving_since", ""),
        silent=None if report["state"] in FINAL else answer["silent"],
        tail=[_cut(line, PATH_CHARACTERS) for line in report.get("tail", [])[:TAIL_LINES]],
        processes=[_process(process) for process in answer["processes"]],
        more=answer["more"],
        places={chip: _cut(place, TEXT_CHARACTERS) for chip, place in answer["places"]},
        queue=answer["queue"],
    )


def not_asked(host: HostJob, error: TPUError | None = None) -> JobOnHost:
    """What is known of a host that is not asked, or does not answer."""
    return JobOnHost(
        host=host.host,
        state=host.state,
        exit_code=host.exit_code,
        cause=host.cause,
        tail=host.tail,
        problem=Problem.of(error) if error is not None else host.problem,
    )


def job_where(record: JobRecord, hosts: list[JobOnHost]) -> JobWhere:
    """The answer of `JobsAPI.why`."""
    return JobWhere(
        job=record.id,
        tpu=record.tpu,
        zone=record.zone,
        attempt=record.attempts[-1].number,
        explanation=_explanation(record, hosts),
        hosts=hosts,
    )


def _process(process: Mapping[str, Any]) -> ProcessPlace:
    frames = [
        JobFrame(
            file=_cut(frame["file"], PATH_CHARACTERS),
            line=frame["line"],
            function=_cut(frame["function"], TEXT_CHARACTERS),
            text=_cut(frame["text"], TEXT_CHARACTERS),
        )
        for frame in process["frames"]
    ]
    texts = {name: _cut(process[name], TEXT_CHARACTERS) for name in ("command", "call", "problem")}
    return ProcessPlace(
        pid=process["pid"],
        chips=process["chips"],
        state=process["state"],
        source=process["source"],
        frames=frames,
        **texts,
    )


def _cut(text: str, characters: int) -> str:
    return printable(" ".join(text[: 4 * characters].split()))[:characters]


# ---- what a person reads


def _explanation(record: JobRecord, hosts: list[JobOnHost]) -> list[str]:
    lines = [notice] if (notice := job_notice(record)) else []
    if to_restart(record):
        lines.append("The job is started again when the TPU is ready.")
    positions: dict[Position, list[int]] = {}
    others: dict[str, list[int]] = {}
    for host in hosts:
        for position, text in _places(host):
            if position is not None:
                at = positions.setdefault(position, [])
                at += [host.host] * (host.host not in at)
            elif host.host not in others.setdefault(text, []):
                others[text].append(host.host)
    waiting = {host for position, at in positions.items() if position.waits for host in at}
    elsewhere = {host.host for host in hosts} - waiting
    lines += [f"{_hosts(at)}: {text}" for text, at in others.items()][:MOST_LINES]
    lines += position_lines(positions)[:MOST_LINES]
    if waiting and elsewhere:
        lines.append("An operation of JAX may wait until all hosts have begun it.")
        lines.append(f"Look at this first: {number_ranges('host', elsewhere)}.")
    return lines + _chip_lines(hosts)


def _places(host: JobOnHost) -> Iterable[tuple[Position | None, str]]:
    """Where its processes are; or a text about them or the host."""
    if host.problem is not None:
        yield None, f"{host.problem.message}"
    elif host.state in FINAL:
        last = f" Its last lines: {' / '.join(host.tail)}" if host.tail and host.exit_code else ""
        yield None, (host.cause or host.state) + last
    elif host.state == "unknown":
        yield None, host.cause
    elif not host.processes:
        yield None, "The job has no process here now."
    for process in host.processes:
        position = position_of(to_builtins(process.frames)) if process.frames else None
        if _is_at_end(process):
            yield None, LEAVING if host.leaving_since else AT_END
        elif position is not None and position.text:
            if process.state in _ODD_STATES:  # it waits for nobody
                text = f"{position.text} [{process.state}]"
                position = position._replace(text=text, waits=False)
            yield position, ""
        else:
            yield None, _without_frames(process)


def _is_at_end(process: ProcessPlace) -> bool:
    """Whether nothing of its program runs any more, and it waits for JAX on the other hosts."""
    frames = process.frames
    where = PurePosixPath("jax/_src/distributed.py").parts
    return len(frames) == 1 and PurePosixPath(frames[0].file).parts[-3:] == where


def _without_frames(process: ProcessPlace) -> str:
    does = _STATES.get(process.state, "does not say where it is")
    call = f" in {process.call}" if process.call and process.state in ("waiting", "blocked") else ""
    why = f" Its Python stack is not known: {process.problem}." if process.problem else ""
    return f"{process.command} {does}{call}.{why}"


def _chip_lines(hosts: list[JobOnHost]) -> list[str]:
    """What libtpu says: where chips are, and what waits for them."""
    by_place: dict[str, list[int]] = {}
    for host in hosts:
        for place in dict.fromkeys(host.places.values()):
            by_place.setdefault(place, []).append(host.host)
    lines = [f"{_hosts(at)}: its chips are at {place}." for place, at in by_place.items()]
    lines += [
        f"{_hosts([host.host])}: {host.queue} programs wait for its chips."
        for host in hosts
        if host.queue
    ]
    silent = [host.silent for host in hosts if host.silent is not None and host.silent >= 60]
    if silent and len(silent) == sum(host.silent is not None for host in hosts):
        lines.append(f"No host has printed anything for {age_text(min(silent))}.")
    return lines[:MOST_LINES]


def _hosts(hosts: Iterable[int]) -> str:
    return sentence(number_ranges("host", hosts))
