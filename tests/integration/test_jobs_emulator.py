"""Jobs on emulated hosts: a fleet that comes and goes, real SSH, a TPU that restarts, the CLI."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell
from refusals import raises
from test_tunnels_commands import JupyterServer
from test_tunnels_emulator import LIMIT, Server, name_of
from waiting import until

from jupyter_tpu.cli import main
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import Change, Job, JobLogQuery, StartJob, StopJob, StopTPU


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


async def test_a_job_starts_again_with_its_tpu_on_all_hosts_and_a_stop_is_the_end(
    server, tpu, emulator
):
    name = name_of(tpu)
    code = 'echo attempt "$SECRET"; sleep 1000'
    async with server as fleet:
        request = StartJob(
            command=["sh", "-c", code], variables={"SECRET": "kept"}, restart_with_tpu=True
        )
        job = await fleet.jobs.start(name, request)
        plain = await fleet.jobs.start(name, StartJob(command=["sleep", "1000"], hosts="1"))
        await when(fleet, job, lambda job: job.state == "running")
        jobs = r"2 jobs run on jobs\S* \((sh, sleep|sleep, sh)\)"
        with raises(Reason.JOBS_RUNNING, jobs):
            await fleet.stop(name, StopTPU(end_kernels=True))
        stop = await fleet.stop(name, StopTPU(end_jobs=True))
        assert (await fleet.operations.wait(stop.id)).state == "done"
        unknown = await when(fleet, plain, lambda job: job.state == "unknown")
        assert unknown.exit_code is None, "nobody knows whether it failed"
        emulator.wait(emulator.request("POST", f"/v2/{tpu['name']}:start"))
        again = await when(
            fleet, job, lambda job: len(job.attempts) == 2 and job.state == "running"
        )
        first = again.attempts[0]
        assert [(host.state, host.exit_code) for host in first.hosts] == [("lost", None)] * 2
        assert first.hosts[0].cause == "The host was restarted."
        lost = await when(fleet, plain, lambda job: job.state == "lost")
        assert len(lost.attempts) == 1
        log = await fleet.jobs.log(name, job.id, JobLogQuery(host=1, wait=20))
        assert log.lines[0].text == "attempt kept"
        assert await texts(fleet, job, host=1, attempt=1) == ["attempt kept"]
        stopping = await fleet.jobs.stop(name, job.id, StopJob(patience=5))
        assert stopping.state in ("stopping", "stopped")
        stopped = await when(fleet, job, lambda job: job.state == "stopped")
        assert [host.exit_code for host in stopped.attempts[1].hosts] == [-15, -15]
        for started in (job, plain):
            await fleet.jobs.remove(name, started.id)


# ---- commands beside a server --------------------------------------------------------------------


@pytest.fixture(scope="module")
def shell(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("jobs"), **emulator.environment)


@pytest.fixture(scope="module")
def jupyter(shell: Shell) -> Iterator[JupyterServer]:
    server = JupyterServer(shell)
    server.start()
    yield server
    server.end()


class Commands:
    """``jupyter tpu`` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *self._capsys.readouterr())

    def out(self, *words: str) -> str:
        code, out, errors = self.run(*words)
        assert code == 0, errors
        return out

    def complaint(self, *words: str) -> str:
        code, _, errors = self.run(*words)
        assert code in (1, 2)
        assert errors.count("\n") == 1, errors
        return errors

    def json(self, *words: str) -> Any:
        return json.loads(self.out(*words, "--json"))

    def job(self, tpu: str, id: str) -> Any:
        return next(job for job in self.json("job", "list", tpu) if job["id"] == id)


@pytest.fixture
def commands(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    for variable, value in shell.environment.items():
        monkeypatch.setenv(variable, value)
    return Commands(capsys)


def test_the_commands_start_list_follow_stop_and_remove(shell, jupyter, tpu, commands):
    name = name_of(tpu)
    script = shell.folder / "a project/quick.py"
    script.parent.mkdir()
    (script.parent / "part.py").write_text("import sys\nsys.exit(4)\n")
    script.write_text(
        "import sys\nprint('to', sys.argv[1])\nprint('to err', file=sys.stderr)\nimport part\n"
    )
    words = ["--name", "quick", "--worker", "1", "--tpu", name]
    done = shell.run("job", "start", *words, str(script), "--", "out")
    assert done.returncode == 0, done.stderr
    assert "Copied 2 files" in done.stderr
    assert "Started job" in done.stdout
    id = done.stdout.split()[2]
    followed = shell.run("job", "logs", name, id, "--follow")
    assert (followed.stdout, followed.stderr) == ("to out\n", "to err\n")
    (job,) = commands.json("job", "list")
    assert (job["state"], job["exit_code"], job["command"][0]) == ("failed", 4, "python3")
    row = commands.out("job", "list", name).splitlines()[1]
    assert row.split()[:4] == [id, "quick", "failed", "4"]
    assert jupyter.call("GET", f"tpus/{name}/jobs/{id}/log?from=-1&search=to")[1]["last"] == 2
    status, problem = jupyter.call("GET", f"tpus/{name}/jobs/{id}/log?limit=x")
    assert (status, problem["reason"]) == (400, "INVALID")
    other = json.loads(commands.out("job", "start", name, "--json", "--", "sleep", "1000"))["id"]
    assert "has not ended" in commands.complaint("job", "remove", name, other)
    until(lambda: "Hosts 0, 1: sleep 1000 waits" in commands.out("job", "why", name, other))
    where = commands.json("job", "why", name)
    assert [host["processes"][0]["command"] for host in where["hosts"]] == ["sleep 1000"] * 2
    _ends_are_confirmed(name, other, jupyter, commands)
    assert other in commands.out("job", "stop", name, other, "--yes")
    until(lambda: "stopped" in commands.out("job", "list", name))
    for job_id in (id, other):
        removed = f"Deleted job {job_id} and its output.\n"
        assert commands.out("job", "delete", name, job_id, "--yes") == removed
    assert "has no job" in commands.complaint("job", "logs", name, id)


def _ends_are_confirmed(name: str, id: str, jupyter: JupyterServer, commands: Commands) -> None:
    """A TPU with a job is stopped and deleted only if that is confirmed; a disconnect ends none."""
    for method, path in (("POST", f"tpus/{name}/stop"), ("DELETE", f"tpus/{name}")):
        for body in ({}, {"end_kernels": True}):
            status, problem = jupyter.call(method, path, body)
            assert (status, problem["reason"]) == (409, "JOBS_RUNNING")
            assert f"1 job runs on {name} (sleep)" in problem["message"]
    for act in ("stop", "delete", "disconnect"):
        status, ends = jupyter.call("GET", f"tpus/{name}/consequences?act={act}")
        assert (status, [job["id"] for job in ends["jobs"]]) == (200, [id])
        does = "does not end" if act == "disconnect" else "ends"
        assert ends["jobs_text"] == f"This {does} 1 job on {name}."
    for verb in ("stop", "delete"):
        complaint = commands.complaint(verb, name)
        assert f"This ends 1 job on {name}. Jobs: sleep ({id}, running)." in complaint
        assert "--yes" in complaint
    code, _, errors = commands.run("disconnect", name)
    assert (code, f"The job sleep ({id}) continues on {name}." in errors) == (0, True), errors


def test_a_killed_server_loses_no_line_and_no_exit_code(shell, jupyter, tpu, commands):
    name = name_of(tpu)
    code = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; [ $i -eq 50 ] && touch at-50"
    code += "; [ $i -lt 50 ] || [ -e killed ] || sleep 0.02; done; exit 9"
    words = ["job", "start", name, "--worker", "0", "--json", "--", "sh", "-c", code]
    id = json.loads(commands.out(*words))["id"]
    waits = "while [ ! -e at-50 ]; do sleep 0.05; done"
    shell.run("run", name, "--worker", "0", "--", "sh", "-c", waits)
    jupyter.end(signal.SIGKILL)
    shell.run("run", name, "--worker", "0", "--", "touch", "killed")  # without a server
    jupyter.start()
    try:
        until(lambda: commands.job(name, id)["exit_code"] == 9)
        out = commands.out("job", "logs", name, id)
        assert out.splitlines() == [str(number) for number in range(1, 301)]
    finally:
        commands.out("job", "remove", name, id, "--yes")


def test_each_option_of_the_commands_does_what_its_help_says(
    jupyter, tpu, commands, monkeypatch, tmp_path
):
    name, zone = name_of(tpu), "us-central2-b"
    file = tmp_path / "variables"
    file.write_text("# of the test\n\nexport FROM_FILE='a b'\n")
    monkeypatch.setenv("PASSED", "passed on")
    code = 'echo "$PWD $FROM_FILE $PASSED"; echo Second; echo third >&2; exec sleep 1000'
    options = [
        *("--zone", zone, "--worker", "0-1", "--cwd", "/usr/lib", "--env", "", "--name", "walk"),
        *("--pass-env", "PASSED", "--env-file", str(file), "--restart-with-tpu", "--json"),
    ]
    started = json.loads(commands.out("job", "start", name, *options, "--", "sh", "-c", code))
    id = started["id"]
    assert started["variables"] == ["FROM_FILE", "PASSED"]
    given = [started[key] for key in ("name", "cwd", "environment", "restart_with_tpu", "zone")]
    assert given == ["walk", "/usr/lib", "", True, zone]
    assert [host["host"] for host in started["attempts"][0]["hosts"]] == [0, 1]
    try:
        logs = ("job", "logs", name, id)
        until(lambda: commands.run(*logs, "--worker", "1")[2] == "third\n")
        until(lambda: "third" in commands.run(*logs, "--worker", "0")[2])
        line = "/usr/lib a b passed on"
        assert commands.run(*logs)[1].splitlines() == [
            *(f"[0] {line}", "[0] Second", f"[1] {line}", "[1] Second")
        ]
        one = (*logs, "--worker", "1")
        assert commands.run(*one, "--from", "2")[1:] == ("Second\n", "third\n")
        assert commands.run(*one, "--tail", "1")[1:] == ("", "third\n")
        assert commands.run(*one, "--search", "SECOND", "--numbers")[1] == "     2  Second\n"
        assert commands.run(*one, "--attempt", "1", "--tail", "2")[1] == "Second\n"
        assert "has no attempt 2" in commands.complaint(*one, "--attempt", "2")
        assert "can't be used together" in commands.complaint(*one, "--from", "1", "--tail", "1")
        assert "1 or more" in commands.complaint(*one, "--tail", "0")
        assert "has no host 5" in commands.complaint(*logs, "--worker", "5")
        parts = commands.json(*one, "--tail", "1")
        assert [line["text"] for line in parts["lines"]] == ["third"]
        stopped = commands.json("job", "stop", name, id, "--patience", "1", "--yes")
        assert stopped["stopped"]
        follow = commands.run(*one, "--follow")  # ends, since the job does
        assert follow[1].splitlines() == [line, "Second"]
        until(lambda: commands.job(name, id)["state"] == "stopped")
    finally:
        commands.run("job", "stop", name, id, "--patience", "0", "--yes")
        until(lambda: commands.run("job", "delete", name, id, "--yes")[0] == 0)
    assert "is not set here" in commands.complaint(
        "job", "start", name, "--pass-env", "NOBODY_HAS_THIS", "--", "true"
    )
    file.write_text("nothing\n")
    assert "is not NAME=VALUE" in commands.complaint(
        "job", "start", name, "--env-file", str(file), "--", "true"
    )
    assert commands.out("job", "list", name).startswith("No jobs. Start one: jupyter tpu job start")
