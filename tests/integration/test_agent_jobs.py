"""Jobs on a host without SSH in between: the real agent, keepers and commands."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from local_host import LocalHost, fill_disk, umask_of
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.desired import DesiredState
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.core.records import JobRecord
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.jobs.job_follower import JobFollower
from jupyter_tpu.fleet.jobs.job_records import JobRecords, begin_attempt
from jupyter_tpu.fleet.models import HostJob, StartJob
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.agent.daemon import jobs as daemon_jobs
from jupyter_tpu.on_host.agent.daemon.jobs import HostJobs
from jupyter_tpu.on_host.agent.daemon.keeper_starter import KeeperStarter
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.on_host.agent.protocol.declarations import ProtocolRequest
from jupyter_tpu.on_host.agent.protocol.processes import start_time


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Below /tmp itself: the paths of sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="j-"))
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture
async def host(home: Path) -> AsyncIterator[LocalHost]:
    local = LocalHost(home)
    yield local
    local.mend()
    await (await local.agent()).request(requests.PrepareDeleteRequest())
    await local.close()
    await eventually(lambda: not local.processes())


async def start(host: LocalHost, job: str, code: str, **more: Any) -> dict[str, Any]:
    """A job that runs Python code."""
    argv = [sys.executable, "-c", code]
    return await (await host.agent()).request(requests.StartJobRequest(id=job, argv=argv, **more))


async def status(host: LocalHost, job: str) -> dict[str, Any]:
    jobs = (await (await host.agent()).request(requests.ListJobsRequest()))["jobs"]
    return next(status for status in jobs if status["id"] == job)


async def ended(host: LocalHost, job: str) -> dict[str, Any]:
    log = await read(host, job)
    while log["status"]["state"] not in ("ended", "lost"):
        log = await read(host, job, 1 << 40, seconds=30, partial=log["partial"])
    return log["status"]


async def read(host: LocalHost, job: str, start: int = 1, **more: Any) -> dict[str, Any]:
    return await (await host.agent()).request(
        requests.ReadJobLogRequest(id=job, start=start, **more)
    )


async def poll(
    host: LocalHost, jobs: list[str], version: str = "", seconds: float = 30
) -> dict[str, Any]:
    status = requests.GetStatusRequest(environments=[], jobs=jobs, version=version, seconds=seconds)
    return await (await host.agent()).request(status)


async def first_line(host: LocalHost, job: str) -> str:
    """The first line, as soon as it is complete."""
    log = await read(host, job)
    while not log["lines"]:
        log = await read(host, job, seconds=20, partial=log["partial"])
    return texts(log)[0]


def texts(answer: dict[str, Any]) -> list[str]:
    return [line[3] for line in answer["lines"]]


async def test_its_output_is_numbered_by_stream_and_its_exit_code_stays(host):
    code = "import sys; print('one'); print('two', file=sys.stderr); print('end', end='')"
    started = await start(host, "basic", f"{code}; sys.exit(7)")
    assert started["state"] in ("running", "ended")
    end = await ended(host, "basic")
    assert (end["state"], end["code"]) == ("ended", 7)
    assert "code 7" in end["cause"]
    assert end["started"] <= end["ended"]
    log = await read(host, "basic")
    assert sorted(texts(log)) == ["end", "one", "two"]
    assert {line[3]: line[2] for line in log["lines"]}["two"] == "err"
    assert [line[0] for line in log["lines"]] == [1, 2, 3]
    # From any point, from the end, and by a search in any case.
    assert len(texts(await read(host, "basic", 3))) == 1
    assert texts(await read(host, "basic", -1)) == texts(log)[-1:]
    assert texts(await read(host, "basic", 1, search="TWO")) == ["two"]
    assert (await read(host, "basic", 4))["lines"] == []


async def test_who_polls_hears_of_a_change_at_once_and_no_news_are_a_few_bytes(host):
    jobs = ["polled", "none"]
    before = await poll(host, jobs)
    assert (before["kernels"], before["warm"], before["jobs"]) == ([], [], {})
    waiting = asyncio.create_task(poll(host, jobs, before["version"]))
    await start(host, "polled", "print('a line', flush=True); import time; time.sleep(1000)")
    running = await waiting
    assert running["jobs"]["polled"]["state"] == "running"
    await first_line(host, "polled")
    received = host.downloaded
    # What a job prints is not for those who poll.
    assert await poll(host, jobs, running["version"], 0) == {"version": running["version"]}
    assert host.downloaded - received < 100
    # Another request of the same client ends the first one.
    older, newer = (
        asyncio.create_task(poll(host, jobs, running["version"], 600)) for _ in range(2)
    )
    assert await older == {"version": running["version"]}
    assert not newer.done()
    await (await host.agent()).request(requests.StopJobRequest(id="polled", patience=10))
    news = await newer
    while news["jobs"]["polled"]["state"] != "ended":
        news = await poll(host, jobs, news["version"])
    assert news["jobs"].keys() == {"polled"}


async def test_a_repeated_start_starts_nothing(host):
    code = "import os; open('count', 'a').write('x'); os._exit(0)"
    await asyncio.gather(start(host, "once", code), start(host, "once", code))
    await ended(host, "once")
    await start(host, "once", code)
    assert (host.home / "count").read_text() == "x"


async def test_daemons_of_several_versions_start_a_job_once(host, monkeypatch):
    monkeypatch.setenv("HOME", str(host.home))
    await host.agent()  # its sources are there
    argv = ["sh", "-c", "printf x >> versions"]
    starters = [KeeperStarter() for _ in range(3)]
    await asyncio.gather(
        *(HostJobs(each).start("same", argv, str(host.home), {}, None) for each in starters)
    )
    for starter in starters:
        starter.close()
    await ended(host, "same")
    assert (host.home / "versions").read_text() == "x"


async def test_it_goes_on_when_the_line_is_cut_and_the_daemon_killed(host):
    code = (
        "import pathlib, time\n"
        "for i in range(300):\n"
        "    print(i)\n"
        "    if i == 100:\n"
        "        while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "print('bye'); raise SystemExit(3)"
    )
    await start(host, "long", code)
    log = await read(host, "long")
    while log["last"] < 101:
        log = await read(host, "long", log["last"] + 1, seconds=20, partial=log["partial"])
    before = texts(await read(host, "long"))
    agent = await host.agent()
    daemon = agent.hello["pid"]
    host.cut()
    os.kill(daemon, signal.SIGKILL)
    (host.home / "go").touch()
    await eventually(lambda: agent.closed)
    host.mend()
    end = await ended(host, "long")
    assert (await host.agent()).hello["pid"] != daemon
    assert end["code"] == 3
    after = texts(await read(host, "long", len(before) + 1))
    assert before + after == [*map(str, range(300)), "bye"]


async def test_progress_is_folded_and_what_has_no_line_end_yet_is_shown(host):
    code = (
        "import pathlib, time\n"
        "for i in range(1000): print(f'\\r{i} of 1000', end='')\n"
        "while not pathlib.Path('on').exists(): time.sleep(0.01)\n"
        "print('\\rdone       ')"
    )
    await start(host, "bar", code)
    partial = {"out": "", "err": ""}
    while partial["out"] != "999 of 1000":
        log = await read(host, "bar", 1, seconds=20, partial=partial)
        partial = log["partial"]
        assert log["last"] == 0
        assert "\r" not in partial["out"]
    (host.home / "on").touch()
    await ended(host, "bar")
    assert texts(await read(host, "bar")) == ["done       "]


async def test_a_long_log_in_any_language_comes_in_answers_that_the_channel_takes(host):
    """5,000 lines of 700 Japanese characters are 21 MB of JSON."""
    code = "for n in range(5000): print('%04d' % n + 'あ' * 700)\nprint('い' * 30_000, end='')"
    await start(host, "japanese", f"{code}\nimport time; time.sleep(600)")
    numbers, partial, at = [], {"out": "", "err": ""}, 1
    while len(numbers) < 5000 or len(partial["out"]) < 30_000:
        log = await read(host, "japanese", at, limit=5000, seconds=20, partial=partial)
        numbers += [int(text[:4]) for text in texts(log)]
        at, partial = log["next"], log["partial"]
    assert numbers == list(range(5000))
    # One who has all of it waits, and is told of the end.
    waiting = asyncio.create_task(read(host, "japanese", at, seconds=60, partial=partial))
    await (await host.agent()).request(requests.StopJobRequest(id="japanese", patience=10))
    assert texts(await waiting) == ["い" * 30_000]


async def test_a_stop_ends_the_command_and_what_it_started_at_last_by_force(host):
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('no'))\n"
        "other = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print(other.pid, flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    await start(host, "stubborn", code)
    other = int(await first_line(host, "stubborn"))
    agent = await host.agent()
    stopping = await agent.request(requests.StopJobRequest(id="stubborn", patience=0.5))
    assert stopping["state"] == "stopping"
    assert await agent.request(requests.RemoveJobRequest(id="stubborn")) == {"removed": False}
    end = await ended(host, "stubborn")
    assert (end["state"], end["code"]) == ("ended", -signal.SIGKILL)
    assert not start_time(other)
    assert texts(await read(host, "stubborn"))[1:] == ["no"]
    assert await agent.request(requests.RemoveJobRequest(id="stubborn")) == {"removed": True}
    with pytest.raises(TPUError, match="does not exist"):
        await read(host, "stubborn")


async def test_a_job_whose_keeper_hangs_is_stopped_by_force(host, monkeypatch):
    before = await start(host, "hangs", "import time; time.sleep(600)")
    os.kill(before["keeper"], signal.SIGSTOP)
    monkeypatch.setenv("HOME", str(host.home))
    monkeypatch.setattr(daemon_jobs, "ANSWER_SECONDS", 0.2)
    stopped = await daemon_jobs.HostJobs(KeeperStarter()).stop("hangs", 10.0)
    assert (stopped["state"], "killed" in stopped["cause"]) == ("lost", True)
    await eventually(lambda: not start_time(before["keeper"]) and not start_time(before["pid"]))


async def test_its_variables_are_in_no_command_line_and_its_environment_is_clean(host):
    code = "import os; print(os.environ['TOKEN'], os.environ['PYTHONUNBUFFERED'])"
    code += "; print(*[line for line in open('/proc/self/status') if line.startswith('Umask')])"
    await start(host, "secret", f"{code}; input()", env={"TOKEN": "s3cr3t"})
    assert await first_line(host, "secret") == "s3cr3t 1"
    assert not [line for line in host.processes() if "s3cr3t" in line]
    assert (await ended(host, "secret"))["code"] == 1  # there is nothing to read
    assert texts(await read(host, "secret"))[1].strip() == umask_of("self")


async def test_a_command_of_many_arguments_runs_and_one_that_is_too_long_says_so(host):
    agent = await host.agent()
    code = "import sys; print(len(sys.argv), len(sys.argv[-1]))"
    words = [sys.executable, "-c", code, *["x" * 150] * 10_000]
    await agent.request(requests.StartJobRequest(id="many", argv=words))
    assert (await ended(host, "many"))["code"] == 0
    assert texts(await read(host, "many")) == ["10001 150"]
    await agent.request(requests.StartJobRequest(id="too-long", argv=[*words, "x" * (1 << 20)]))
    assert "Argument list too long" in (await ended(host, "too-long"))["cause"]


async def test_commands_and_folders_that_do_not_exist_are_named(host):
    agent = await host.agent()
    await agent.request(requests.StartJobRequest(id="none", argv=["no-such-command"]))
    end = await ended(host, "none")
    assert (end["code"], end["cause"]) == (127, "The command no-such-command was not found.")
    with raises(Reason.NO_FOLDER, "The folder nowhere does not exist"):
        await agent.request(requests.StartJobRequest(id="lost", argv=["true"], cwd="nowhere"))


async def test_a_killed_keeper_is_no_success_of_its_job(host):
    now = await start(host, "orphan", "import time; time.sleep(1000)")
    os.kill(now["keeper"], signal.SIGKILL)
    end = await ended(host, "orphan")
    assert (end["state"], end["code"]) == ("lost", None)
    assert "was killed" in end["cause"]
    await eventually(lambda: not Path(f"/proc/{now['pid']}").exists())


async def test_above_its_limit_the_oldest_lines_are_missing_and_counted(host):
    code = "for i in range(20_000): print(i, 'x' * 100)"
    await start(host, "flood", code, limit=1 << 20)
    assert (await ended(host, "flood"))["code"] == 0
    log = await read(host, "flood", 1, limit=5000)
    assert 10_000 < log["oldest"] == log["lines"][0][0]
    assert log["last"] == 20_000
    numbers = []
    while log["lines"]:
        numbers += [line[0] for line in log["lines"]]
        log = await read(host, "flood", log["next"], limit=5000)
    assert numbers == list(range(numbers[0], 20_001)), "numbers have no hole after the oldest"


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can make a small disk")
async def test_a_start_on_a_full_disk_says_that_it_is_full_and_leaves_nothing(host):
    await (await host.agent()).request(requests.ListJobsRequest())
    jobs = host.home / ".jupyter-tpu/jobs"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", jobs], check=True)
    try:
        fill_disk(jobs / "filler")
        with raises(Reason.DISK_FULL, "disk is full"):
            await start(host, "full", "import time; time.sleep(600)")
        assert (await (await host.agent()).request(requests.ListJobsRequest()))["jobs"] == []
        await eventually(lambda: not [line for line in host.processes() if "job" in line])
    finally:
        subprocess.run(["umount", "-l", jobs], check=True)


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can make a small disk")
async def test_on_a_full_disk_the_command_is_paused_until_there_is_room(host):
    small = host.home / ".jupyter-tpu" / "jobs"
    small.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], check=True)
    try:
        (small / "ballast").write_bytes(b"x" * 1_500_000)
        await start(host, "full", "for i in range(30_000): print(i, 'y' * 100)", limit=64 << 20)
        news = await poll(host, ["full"])
        while not news["jobs"]["full"]["paused"]:
            news = await poll(host, ["full"], news["version"])
            assert news["jobs"]["full"]["state"] == "running"
        assert "No space left" in news["jobs"]["full"]["paused"]
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        end = await ended(host, "full")
        assert (end["code"], end["last"]) == (0, 30_000)
        log = await read(host, "full", limit=5000)
        assert log["oldest"] == 1
    finally:
        await (await host.agent()).request(requests.StopJobRequest(id="full", patience=0))
        await ended(host, "full")
        subprocess.run(["umount", "-l", str(small)], check=True)


class Answers:
    """The answers of a host's real agent; those in *errors* replace the next ones, after it has
    done what it was asked for.
    """

    def __init__(self, host: LocalHost) -> None:
        self._host = host
        self.errors: dict[str, TPUError] = {}

    async def request_host(
        self, _host: object, request: ProtocolRequest[Any], _timeout: float
    ) -> Any:
        answer = await (await self._host.agent()).request(request)
        if request.op in self.errors:
            raise self.errors.pop(request.op)
        return answer


async def test_a_job_is_failed_only_if_the_host_has_not_got_it(host, tmp_path):
    store = await Store.open(tmp_path / "fleet.sqlite", "google")
    records, answers = JobRecords(store, lambda _id: None), Answers(host)
    desired = DesiredState(store, lambda _name: None)
    none: Any = SimpleNamespace()
    follower = JobFollower(records, answers, desired, ObservedState(), none, none)

    async def started(id: str, code: str, **more: Any) -> HostJob:
        request = StartJob(command=[sys.executable, "-c", code], **more)
        name = NodeName("p", "us-west4-a", "my-tpu")
        record = JobRecord(id=id, project=name.project, zone=name.zone, tpu=name.node,
                           created="", hosts=[0], request=request)  # fmt: skip
        begin_attempt(record)
        records.add(record)
        return await asked(id)

    async def asked(id: str) -> HostJob:
        record = records.get(id)
        await follower.ask_hosts([record])
        return record.attempts[-1].hosts[0]

    broken = TPUError("Something broke.", Reason.INTERNAL)
    try:
        answers.errors = {"start_job": broken}
        has_it = await started("has", "import time; time.sleep(1000)")
        assert (has_it.state, has_it.problem) == ("running", None)
        assert has_it.pid
        # The host's answer to the second question is lost as well.
        answers.errors = {"start_job": broken, "job_status": TPUError("Cut.", Reason.UNREACHABLE)}
        code = "import time; open('starts', 'a').write('x'); time.sleep(1000)"
        unclear = await started("unclear", code)
        assert (unclear.state, unclear.problem) == ("unknown", None)
        assert "not known whether the host has the job" in unclear.cause
        assert (await asked("unclear")).state == "running"
        starts = host.home / "starts"
        await eventually(lambda: starts.exists() and starts.stat().st_size)
        assert starts.read_text() == "x"
        failed = await started("failed", "", cwd="nowhere")
        assert failed.state == "failed"
        assert failed.problem.reason is Reason.NO_FOLDER
        too_large = await started("too-large", "x" * (17 << 20))
        assert too_large.state == "failed"
        assert "17 MiB" in too_large.problem.message
        # Nothing is known of a host that can't be asked; one that has not got the job, has lost it.
        place, report = HostName(NodeName("p", "us-west4-a", "my-tpu"), 0), follower.report
        follower.unreachable(place, ["has-1"], TPUError("Gone.", Reason.NOT_FOUND))
        assert (has_it.state, has_it.cause) == ("unknown", "Gone.")
        running = await status(host, "has-1")
        report(place, ["has-1"], {"has-1": running})
        assert has_it.state == "running"
        report(place, ["has-1"], {"has-1": {**running, "version": 0, "state": "stopping"}})
        assert has_it.state == "running", "an older report counts nothing"
        report(place, ["has-1"], {"has-1": {"version": 9}})
        assert "Internal error" in has_it.cause
        report(place, ["has-1"], {})
        assert has_it.state == "lost"
        # The host could not write its last states down.
        unwritten = {**await status(host, "unclear-1"), "version": 0, "state": "lost"}
        report(place, ["unclear-1"], {"unclear-1": unwritten})
        assert (await asked("unclear")).state == "lost"
    finally:
        await store.close()
