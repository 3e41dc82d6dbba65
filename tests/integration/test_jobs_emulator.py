"""Jobs on emulated hosts: a fleet that comes and goes, real SSH, a TPU that restarts, the CLI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell
from test_tunnels_commands import JupyterServer
from test_tunnels_emulator import LIMIT, Server, name_of
from waiting import until

from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import Change, Job, JobLogQuery, StartJob, StopJob
from jupyter_tpu.tokens import pass_on

#: Prints its host, waits for a file, prints 200 lines, and ends with its host's number.
STORY = """
echo on $JUPYTER_TPU_HOST
while [ ! -e go ]; do sleep 0.05; done
seq 200
exit $((JUPYTER_TPU_HOST * 3))
"""


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[dict[str, Any]]:
    """A pod of two hosts."""
    with emulator.tpu("jobs", "v4-16", "us-central2-b") as node:
        yield node


@pytest.fixture
def server(emulator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    return Server(emulator.state_file, tmp_path)


async def when(fleet: Fleet, job: Job, is_so: Callable[[Job], bool]) -> Job:
    """The job, once it is so."""
    news = asyncio.Event()
    seen: list[Job] = [await fleet.jobs.get(job.tpu, job.id)]

    def changed(change: Change) -> None:
        if change.job is not None and change.job.id == job.id:
            seen.append(change.job)
            news.set()

    unsubscribe = fleet.subscribe(changed)
    try:
        while not is_so(seen[-1]):
            await asyncio.wait_for(news.wait(), LIMIT)
            news.clear()
    finally:
        unsubscribe()
    return seen[-1]


async def texts(fleet: Fleet, job: Job, **query: Any) -> list[str]:
    log = await fleet.jobs.log(job.tpu, job.id, JobLogQuery(**query))
    return [line.text for line in log.lines]


@pytest.mark.asyncio
async def test_a_job_goes_on_without_the_server_and_keeps_every_line_and_exit_code(
    server: Server, tpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = name_of(tpu)
    variables = {"TOKEN": "s3cret"}
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
    pass_on("HF_TOKEN")
    async with server as fleet:
        request = StartJob(command=["sh", "-c", STORY], name="story", variables=variables)
        job = await fleet.jobs.start(name, request)
        assert (job.state, job.exit_code, job.variables) == ("running", None, ["TOKEN"])
        assert "s3cret" not in str(job)
        with pytest.raises(TPUError) as caught:
            await fleet.jobs.remove(name, job.id)
        assert caught.value.reason is Reason.CONFLICT
    # There is no server now. Its state has no secret of a job that has been started.
    files = [*server._folder.glob("fleet.sqlite*")]
    assert not [each for each in files if each.is_file() and b"s3cret" in each.read_bytes()]
    async with server as fleet:
        goes = StartJob(command=["sh", "-c", 'echo "with $HF_TOKEN"; touch go'])
        helper = await fleet.jobs.start(name, goes)
        ended = await when(fleet, job, lambda job: job.state == "failed")
        assert [each.exit_code for each in ended.attempts[0].hosts] == [0, 3]
        assert ended.exit_code == 3
        for host in (0, 1):
            lines = await texts(fleet, job, host=host)
            assert lines == [f"on {host}", *map(str, range(1, 201))]
        assert await texts(fleet, job, host=1, start=-2) == ["199", "200"]
        assert await texts(fleet, job, host=1, search="ON 1") == ["on 1"]
        helped = await when(fleet, helper, lambda job: job.state == "ended")
        assert helped.exit_code == 0
        assert await texts(fleet, helper) == ["with hf_s3cret"]
        for each in (job, helper):
            await fleet.jobs.remove(name, each.id)
        assert await fleet.jobs.all() == []
        await _what_can_not_be(fleet, name)


async def _what_can_not_be(fleet: Fleet, name: str) -> None:
    with pytest.raises(InvalidInput, match="has no host 2"):
        await fleet.jobs.start(name, StartJob(command=["true"], hosts="0,2"))
    with pytest.raises(InvalidInput, match="NUL"):
        await fleet.jobs.start(name, StartJob(command=["echo", "a\0b"]))
    with pytest.raises(TPUError, match="has no environment other"):
        await fleet.jobs.start(name, StartJob(command=["true"], environment="other"))
    with pytest.raises(TPUError, match="The folder nowhere does not exist"):
        await fleet.jobs.start(name, StartJob(command=["true"], cwd="nowhere"))
    with pytest.raises(TPUError, match="has no job none"):
        await fleet.jobs.get(name, "none")
    assert await fleet.jobs.all() == []


@pytest.mark.asyncio
async def test_a_job_starts_again_with_its_tpu_on_all_hosts_and_a_stop_is_the_end(
    server: Server, tpu: dict[str, Any], emulator: Any
) -> None:
    name = name_of(tpu)
    code = 'echo attempt "$SECRET"; sleep 1000'
    async with server as fleet:
        request = StartJob(
            command=["sh", "-c", code], variables={"SECRET": "kept"}, restart_with_tpu=True
        )
        job = await fleet.jobs.start(name, request)
        plain = await fleet.jobs.start(name, StartJob(command=["sleep", "1000"], hosts="1"))
        await when(fleet, job, lambda job: job.state == "running")
        emulator.wait(emulator.request("POST", f"/v2/{tpu['name']}:stop"))
        unknown = await when(fleet, plain, lambda job: job.state == "unknown")
        assert unknown.exit_code is None, "nobody knows whether it failed"
        emulator.wait(emulator.request("POST", f"/v2/{tpu['name']}:start"))
        again = await when(
            fleet, job, lambda job: len(job.attempts) == 2 and job.state == "running"
        )
        first = again.attempts[0]
        assert [(each.state, each.exit_code) for each in first.hosts] == [("lost", None)] * 2
        assert first.hosts[0].cause == "The host was restarted."
        lost = await when(fleet, plain, lambda job: job.state == "lost")
        assert len(lost.attempts) == 1
        log = await fleet.jobs.log(name, job.id, JobLogQuery(host=1, wait=20))
        assert log.lines[0].text == "attempt kept"
        assert await texts(fleet, job, host=1, attempt=1) == ["attempt kept"]
        stopping = await fleet.jobs.stop(name, job.id, StopJob(patience=5))
        assert stopping.state in ("stopping", "stopped")
        stopped = await when(fleet, job, lambda job: job.state == "stopped")
        assert [each.exit_code for each in stopped.attempts[1].hosts] == [-15, -15]
        for each in (job, plain):
            await fleet.jobs.remove(name, each.id)


def test_the_commands_start_list_follow_stop_and_remove(
    emulator: Any, tmp_path: Path, tpu: dict[str, Any]
) -> None:
    shell, name = Shell(tmp_path, **emulator.environment), name_of(tpu)
    server = JupyterServer(shell)
    server.start()
    try:
        code = "import sys; print('to out'); print('to err', file=sys.stderr); sys.exit(4)"
        words = ["--name", "quick", "--worker", "1", "--", "python3", "-c", code]
        done = shell.run("job", "start", name, *words)
        assert done.returncode == 0, done.stderr
        assert "Started job" in done.stdout
        id = done.stdout.split()[2]
        followed = shell.run("job", "logs", name, id, "--follow")
        assert (followed.stdout, followed.stderr) == ("to out\n", "to err\n")
        (job,) = json.loads(shell.out("job", "list", "--json"))
        assert (job["state"], job["exit_code"], job["command"][0]) == ("failed", 4, "python3")
        row = shell.out("job", "list", name).splitlines()[1]
        assert row.split()[:4] == [id, "quick", "failed", "4"]
        assert server.call("GET", f"tpus/{name}/jobs/{id}/log?from=-1&search=to")[1]["last"] == 2
        status, problem = server.call("GET", f"tpus/{name}/jobs/{id}/log?limit=x")
        assert (status, problem["reason"]) == (400, "INVALID")
        long = shell.run("job", "start", name, "--json", "--", "sleep", "1000")
        other = json.loads(long.stdout)["id"]
        assert "has not ended" in shell.complaint("job", "remove", name, other)
        assert other in shell.out("job", "stop", name, other)
        until(lambda: "stopped" in shell.out("job", "list", name))
        assert shell.out("job", "remove", name, id) == f"Removed job {id} and its output\n"
        assert "has no job" in shell.complaint("job", "logs", name, id)
    finally:
        server.end()
