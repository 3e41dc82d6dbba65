"""Jobs that hang or fail on a pod: real JAX on all hosts, over SSH."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pod_environment import pod_with_jax
from pod_fleet import Pod, open_pod
from waiting import eventually

from jupyter_tpu.fleet.models import Job, JobLogQuery, JobWhere, StartJob, StopJob

ZONE, HOSTS = "us-west4-a", 4
#: Seconds for anything: four JAX start on the processors of this machine.
LIMIT = 180
#: What joins all hosts, with the rest of each test's program.
JOIN = """
import os, sys, time
import jax
rank = int(os.environ["JUPYTER_TPU_HOST"])
addresses = os.environ["JUPYTER_TPU_ADDRESSES"].split(",")
jax.distributed.initialize(addresses[0] + ":8482", len(addresses), rank)
import numpy
from jax.experimental import multihost_utils

def gather():
    return multihost_utils.process_allgather(numpy.ones(2))

gather()
print("joined", flush=True)
"""


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[str]:
    with pod_with_jax(emulator, "hangs", ZONE, HOSTS) as name:
        yield name


@pytest_asyncio.fixture
async def pod(emulator: Any, tpu: str, tmp_path: Path) -> AsyncIterator[Pod]:
    async with open_pod(emulator, tpu, tmp_path) as pod:
        yield pod
        for job in await pod.fleet.jobs.list(tpu):
            await pod.fleet.jobs.stop(tpu, job.id, StopJob(patience=0))
            await until(pod, job, lambda job: job.over)


async def until(pod: Pod, job: Job, is_so: Callable[[Job], bool]) -> Job:
    """The job, once it is so."""
    jobs = pod.fleet.jobs
    await eventually(lambda: is_so_now(pod, job, is_so), LIMIT)
    return await jobs.get(pod.tpu, job.id)


async def is_so_now(pod: Pod, job: Job, is_so: Callable[[Job], bool]) -> bool:
    return is_so(await pod.fleet.jobs.get(pod.tpu, job.id))


async def begin(pod: Pod, code: str, **more: Any) -> Job:
    """A job on all hosts whose program is this code; returns when all have joined."""
    await pod.output(await pod.shell(f"cat > train.py <<'E'\n{JOIN}{code}\nE"))
    request = StartJob(command=["env/bin/python", "train.py"], **more)
    job = await pod.fleet.jobs.start(pod.tpu, request)
    await until(pod, job, lambda job: job.state != "starting")
    for host in range(HOSTS):
        await eventually(lambda host=host: has_joined(pod, job, host), LIMIT)
    return job


async def has_joined(pod: Pod, job: Job, host: int) -> bool:
    log = await pod.fleet.jobs.log(pod.tpu, job.id, JobLogQuery(host=host, search="joined"))
    return bool(log.lines)


async def explained(pod: Pod, job: Job, *words: str) -> JobWhere:
    """Where it stands, once that has these words."""
    answers: list[JobWhere] = []

    async def is_said() -> bool:
        answers.append(await pod.fleet.jobs.why(pod.tpu, job.id))
        return all(word in "\n".join(answers[-1].explanation) for word in words)

    try:
        await eventually(is_said, 30)
    except AssertionError:
        raise AssertionError(answers[-1]) from None
    return answers[-1]


async def test_the_host_that_does_something_else_is_named_at_its_line(pod):
    """Rank 3 is in an endless loop in C; the others wait for it in a collective."""
    code = """
def step():
    if rank == 3:
        __import__("re").match("(a+)+$", "a" * 60 + "b")
    gather()

step()
"""
    job = await begin(pod, code)
    where = await explained(pod, job, "Hosts 0-2", "Host 3 is at")
    text = "\n".join(where.explanation)
    assert 'Host 3 is at train.py, line 18: __import__("re").match(' in text
    assert "[running]" in text
    assert "Hosts 0-2 wait at train.py, line 11: return multihost_utils.process_allgather" in text
    assert "Look at this first: host 3." in text
    assert {process.source for host in where.hosts for process in host.processes} == {
        "faulthandler"
    }
    assert all(process.chips for host in where.hosts for process in host.processes)


async def test_a_host_that_fails_is_named_with_its_last_lines_and_the_others_are_ended(pod):
    code = """
if rank == 2:
    print("out of data", flush=True)
    os._exit(5)
gather()
time.sleep(600)
"""
    job = await begin(pod, code)
    ended = await until(pod, job, lambda job: job.over)
    assert (ended.state, ended.exit_code) == ("failed", 5)
    [failed] = [host for host in ended.attempts[-1].hosts if host.exit_code == 5]
    assert failed.host == 2
    assert "out of data" in failed.tail
    where = await explained(pod, job, "Host 2: The job exited with code 5.", "out of data")
    assert where.hosts[2].exit_code == 5


@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_an_exception_on_one_host_is_a_failure_though_jax_waits_at_exit(pod, together):
    """Its process would wait for the others for minutes, and they for it."""
    code = """
if rank == 1:
    raise ValueError("no data")
gather()
"""
    job = await begin(pod, code, end_together=together)
    if together:
        ended = await until(pod, job, lambda job: job.over)
        assert ended.state == "failed"
        assert ended.exit_code == ended.attempts[-1].hosts[1].exit_code
        assert ended.attempts[-1].hosts[1].leaving_since
        return
    failed = await until(pod, job, lambda job: bool(job.notice))
    assert "The job has failed on host 1. Its program ended with an exception" in failed.notice
    assert failed.notice.endswith("ValueError: no data")
    where = await explained(pod, job, "Host 1: Its program ended with an exception", "wait at")
    assert "Hosts 0, 2, 3 wait at train.py" in "\n".join(where.explanation)


@pytest.mark.long
async def test_a_rank_that_leaves_without_an_error_is_named(pod):
    job = await begin(
        pod,
        """
if rank == 1:
    sys.exit(3)
gather()
""",
    )
    await explained(pod, job, "Host 1: Its program has ended, and waits for the other hosts")


@pytest.mark.long
async def test_what_jax_says_of_a_rank_that_was_suspended_is_explained(pod):
    """With heartbeats of 10 s instead of 100 s."""
    code = (
        JOIN.replace("rank)", "rank, heartbeat_timeout_seconds=10)", 1)
        + """
if rank == 3:
    os.kill(os.getpid(), 19)
gather()
"""
    )
    await pod.output(await pod.shell(f"cat > beats.py <<'E'\n{code}\nE"))
    request = StartJob(command=["env/bin/python", "beats.py"], end_together=False)
    job = await pod.fleet.jobs.start(pod.tpu, request)
    ended = await until(
        pod, job, lambda job: all(host.state == "ended" for host in job.attempts[-1].hosts[:3])
    )
    causes = [host.cause for host in ended.attempts[-1].hosts[:3]]
    assert all("process 3 of jax.distributed sent no heart" in cause for cause in causes), causes
    where = await explained(pod, job, "Host 3: env/bin/python beats.py is stopped by a signal")
    assert where.hosts[3].processes[0].state == "stopped"


@pytest.mark.long
async def test_without_that_the_others_go_on_and_the_notice_says_so(pod):
    code = """
if rank == 1:
    print("\\x1b[31mno\\x1b[0m \\x1b]0;title\\x07", flush=True)
    os._exit(3)
time.sleep(600)
"""
    job = await begin(pod, code, end_together=False)
    running = await until(pod, job, lambda job: bool(job.notice))
    assert running.state == "running"
    assert "The job has failed on host 1. The job exited with code 3." in running.notice
    assert "It still runs on the hosts 0,2-3." in running.notice
    assert "\x1b" not in running.notice
    await explained(pod, job, "Hosts 0, 2, 3 are at train.py, line 19: time.sleep(600)")


async def test_two_jobs_on_one_pod_have_answers_of_their_own(pod):
    first = await pod.fleet.jobs.start(pod.tpu, StartJob(command=["sleep", "600"]))
    second = await pod.fleet.jobs.start(pod.tpu, StartJob(command=["sleep", "700"], hosts="1"))
    await until(pod, second, lambda job: job.state == "running")
    await explained(pod, first, "Hosts 0-3: sleep 600 waits")
    where = await explained(pod, second, "Host 1: sleep 700 waits")
    assert [host.host for host in where.hosts] == [1]
