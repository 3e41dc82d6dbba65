"""What a job says of itself: its exit code, its notice, and where it stands on its hosts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.records import JobRecord
from jupyter_tpu.fleet.jobs.job_records import host_job, job_notice, lost_partner, view
from jupyter_tpu.fleet.jobs.job_where import job_where, not_asked, on_host
from jupyter_tpu.fleet.models import HostJob, JobAttempt, JobOnHost, StartJob
from jupyter_tpu.on_host.agent.protocol.requests import GetJobStacksRequest
from jupyter_tpu.ssh.agent_answers import checked_record


def record(*hosts: HostJob, **request: Any) -> JobRecord:
    return JobRecord(
        id="j1", project="p", zone="z", tpu="pod", created="", hosts=[one.host for one in hosts],
        request=StartJob(command=["python", "train.py"], **request),
        attempts=[JobAttempt(number=1, created="", hosts=list(hosts))],
    )  # fmt: skip


def running(host: int, **more: Any) -> HostJob:
    return HostJob(host=host, state="running", started="2026-01-01T00:00:00Z", **more)


def ended(host: int, code: int, at: str = "2026-01-01T00:01:00Z", **more: Any) -> HostJob:
    cause = f"The job exited with code {code}."
    return HostJob(host=host, state="ended", exit_code=code, ended=at, cause=cause, **more)


def report(**more: Any) -> dict[str, Any]:
    return {"id": "j1-1", "state": "running", "version": 1, "code": None, "cause": "", "paused": "",
            "pid": 7, "started": "", "ended": "", "restarted": False, **more}  # fmt: skip


def frame(file: str, line: int, function: str, text: str = "") -> dict[str, Any]:
    return {"file": file, "line": line, "function": function, "text": text}


WAITS = [
    frame("/home/me/train.py", 88, "step", "loss.block_until_ready()"),
    frame("/env/lib/python3.12/site-packages/jax/_src/array.py", 9, "block_until_ready"),
]
READS = [frame("/home/me/data.py", 31, "read", "file.read()")] * 2


def stacks(*frames: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    processes = [
        {"pid": 8 + number, "command": "python train.py", "chips": True, "state": "waiting",
         "call": "futex_wait", "source": "faulthandler" if one else "proc", "problem": "",
         "frames": one}
        for number, one in enumerate(frames)
    ]  # fmt: skip
    return {"status": report(), "silent": 1.0, "processes": processes, "more": 0, "places": [],
            "queue": None, **more}  # fmt: skip


def explained(*hosts: JobOnHost, **request: Any) -> list[str]:
    job = record(*(running(one.host) for one in hosts), **request)
    return job_where(job, list(hosts)).explanation


def test_hosts_at_one_line_are_one_and_the_odd_one_comes_first():
    hosts = [on_host(number, stacks(WAITS)) for number in range(7)]
    lines = explained(*hosts, on_host(7, stacks(READS)))
    assert lines[:2] == [
        "Host 7 is at data.py, line 31: file.read()",
        "Hosts 0-6 wait at train.py, line 88: loss.block_until_ready() (in block_until_ready)",
    ]
    assert lines[-1] == "Look at this first: host 7."


def test_several_processes_of_a_host_are_told_apart():
    both = stacks(WAITS, READS)
    assert [line.split(":")[0] for line in explained(on_host(0, both), on_host(1, both))] == [
        "Hosts 0, 1 are at data.py, line 31",
        "Hosts 0, 1 wait at train.py, line 88",
    ]


def test_what_libtpu_says_is_said_too():
    busy = stacks(WAITS, places=[(0, "all-reduce.7"), (1, "all-reduce.7")], queue=3)
    lines = explained(on_host(0, busy))
    assert "Host 0: its chips are at all-reduce.7." in lines
    assert "Host 0: 3 programs wait for its chips." in lines


def test_a_host_that_does_not_answer_and_one_that_has_ended_are_named():
    lost = not_asked(running(1), TPUError("The host can't be reached.", Reason.UNREACHABLE))
    over = not_asked(ended(2, 3, tail=["Traceback", "ValueError: no"]))
    lines = explained(on_host(0, stacks(WAITS)), lost, over)
    assert "Host 1: The host can't be reached." in lines
    last = "Host 2: The job exited with code 3. Its last lines: Traceback / ValueError: no"
    assert last in lines


def test_the_exit_code_is_that_of_the_first_host_that_failed():
    first, second = "2026-01-01T00:01:00.5Z", "2026-01-01T00:01:01.0Z"
    job = record(ended(0, -15, second), ended(1, 0, first), ended(2, 7, first))
    assert (view(job).exit_code, view(job).state) == (7, "failed")
    assert view(record(ended(0, 0), ended(1, 0))).exit_code == 0
    assert view(record(ended(0, 3), running(1))).exit_code is None


def test_an_exit_is_before_the_exception_that_its_closed_connections_caused():
    """A process's connections close some milliseconds before anybody can see that it has ended."""
    killed = ended(0, -15, "2026-01-01T00:01:03Z")
    caused = structs.replace(killed, host=1, leaving_since="2026-01-01T00:01:00.500Z")
    exited = ended(2, 5, "2026-01-01T00:01:00.512Z")
    assert view(record(killed, caused, exited)).exit_code == 5
    later = structs.replace(exited, ended="2026-01-01T00:01:01Z")
    assert view(record(killed, caused, later)).exit_code == -15


@pytest.mark.parametrize(
    "state", [{"state": "lost"}, {"state": "failed"}, {"state": "ended", "exit_code": 1}]
)
def test_a_failure_on_one_host_ends_the_others_unless_that_is_not_wanted(state):
    hosts = HostJob(host=0, **state), running(1)
    assert lost_partner(record(*hosts))
    assert not lost_partner(record(*hosts, end_together=False))
    assert not lost_partner(record(ended(0, 0), running(1))), "it has done its part"


def test_the_notice_names_the_host_that_failed_and_its_last_lines():
    job = record(running(0), ended(1, 5, tail=["out of data"]), running(2))
    assert job_notice(job) == (
        "The job has failed on host 1. The job exited with code 5. It is being stopped on the "
        "hosts 0,2. Its last lines: out of data"
    )
    job.stopped = True
    assert not job_notice(job), "somebody wanted it"


def test_the_notice_names_who_is_silent():
    silent = {"silent_since": "2026-01-01T12:31:20.123Z", "usual_gap": 2.5}
    assert job_notice(record(running(0), running(1, **silent), ended(2, 0))) == (
        "No output from host 1 since 2026-01-01T12:31:20Z. The usual time between two outputs was "
        "2.5 s. Already ended with exit code 0: host 2."
    )
    assert not job_notice(record(running(0), running(1)))
    assert not job_notice(record(ended(0, 0), ended(1, 1, **silent)))


def test_an_older_keeper_says_less():
    job = host_job(0, report())
    assert (job.silent_since, job.tail) == ("", [])


texts = st.text(max_size=400)
frames = st.lists(
    st.fixed_dictionaries(
        {"file": texts, "line": st.integers(0, 1 << 62), "function": texts, "text": texts}
    ),
    max_size=5,
)


@given(st.lists(st.tuples(frames, frames), min_size=1, max_size=4), texts, texts)
def test_whatever_hosts_say_is_bounded_and_nothing_in_it_is_obeyed(answers, call, command):
    hosts = []
    for number, both in enumerate(answers):
        said = stacks(*both, places=[(0, command)], queue=1)
        said["processes"][0].update(problem=call, command=command)
        said["status"].update(tail=[command] * 50, cause=call)
        checked = checked_record(said, GetJobStacksRequest.answer, "job_stacks")
        hosts.append(on_host(number, checked))
    for line in explained(*hosts):
        assert len(line) < 8000
        assert not set(line) & {chr(code) for code in (*range(10), *range(11, 32), 127)}
