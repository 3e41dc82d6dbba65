"""Commands on the hosts of a pod: over real SSH to emulated hosts, by the fleet and in a shell."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cli_shell import COMMAND, LIMIT, Terminal
from fleet_world import others
from pod_fleet import Pod, open_pod
from refusals import raises
from waiting import eventually, until

from jupyter_tpu.cli.root import run as main
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.files.sync import ProjectLocation, default_mirrors
from jupyter_tpu.fleet.core.host_numbers import host_numbers
from jupyter_tpu.fleet.jobs import host_run, runs
from jupyter_tpu.fleet.jobs.runs import KEPT_OUTPUT, RunService
from jupyter_tpu.fleet.models import RunInput
from jupyter_tpu.links import HostName
from jupyter_tpu.tokens import keep_back, pass_on

HOSTS = 4


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[str]:
    """The name of a pod."""
    with emulator.tpu("runs", "v5litepod-16") as node:
        yield node["name"].rpartition("/")[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(emulator: Any, tpu: str, tmp_path_factory: Any) -> AsyncIterator[Pod]:
    async with open_pod(emulator, tpu, tmp_path_factory.mktemp("runs")) as opened:
        yield opened


in_pod = pytest.mark.asyncio(loop_scope="module")


@in_pod
async def test_each_host_has_its_output_exit_code_and_time(pod):
    run = await pod.shell('hostname; echo "to stderr" >&2; exit "$(hostname | tail -c2)"')
    texts = await pod.output(run)
    names = [texts[host, "stdout"].decode().strip() for host in range(HOSTS)]
    assert [name.rpartition("-")[2] for name in names] == ["0", "1", "2", "3"]
    assert {texts[host, "stderr"] for host in range(HOSTS)} == {b"to stderr\n"}
    run = await pod.fleet.runs.get(pod.tpu, run.id)
    assert [(host.state, host.code) for host in run.hosts] == [("exited", n) for n in range(HOSTS)]
    assert all(host.seconds is not None for host in run.hosts)
    assert (run.state, run.code) == ("done", 3)
    assert run.id in [listed.id for listed in await pod.fleet.runs.list(pod.tpu)]


@in_pod
async def test_files_of_commands_are_as_readable_as_those_of_a_login(pod):
    texts = await pod.output(await pod.shell("touch made; stat -c %a made; rm made"))
    assert {texts[host, "stdout"] for host in range(HOSTS)} == {b"644\n"}


@in_pod
async def test_a_fault_of_our_own_on_a_host_is_no_success(pod):
    async def broken(stream: int, data: bytes) -> None:
        raise ValueError("broken")

    name = NodeName("emulated", "us-central1-a", pod.tpu)
    order = {"command": ["echo", "x"], "cwd": "", "limit": None, "input": False, "env": {}}
    run = host_run.FollowedRun(
        pod.fleet._core.connections, HostName(name, 1), "broken", order, broken, lambda: None
    )
    await run.wait()
    assert (run.state.state, run.state.code) == ("unknown", host_run.UNKNOWN_CODE)
    assert run.state.problem.message.startswith("jupyter-tpu failed (broken). The command may")


@in_pod
async def test_who_waits_for_output_hears_at_once_that_one_host_has_ended(pod, monkeypatch):
    monkeypatch.setattr(runs, "OUTPUT_SECONDS", 10 * LIMIT)
    script = 'test "$(hostname | tail -c2)" = 1 && read line || sleep 31340'
    run = await pod.shell(script, hosts="0-1", input=True)
    await eventually(lambda: all(host.state == "running" for host in run.hosts))
    waiting = asyncio.ensure_future(pod.fleet.runs.output(pod.tpu, run.id))
    await eventually(lambda: pod.fleet.runs._runs[run.id]._readers)
    await pod.fleet.runs.write(pod.tpu, run.id, RunInput(data=b"end\n"))
    async with asyncio.timeout(LIMIT):
        answer = await waiting
    assert [host.state for host in answer.run.hosts] == ["running", "exited"]
    assert answer.output == []
    await pod.fleet.runs.stop(pod.tpu, run.id)


@in_pod
async def test_commands_get_the_tokens_that_were_chosen(pod, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("OTHER_TOKEN", "other")
    pass_on("HF_TOKEN")
    try:
        run = await pod.shell('echo "$HF_TOKEN$OTHER_TOKEN"', hosts="1")
        assert await pod.stdout(run) == [b"hf_secret\n"]
    finally:
        keep_back("HF_TOKEN")


@in_pod
async def test_some_hosts_run_it_and_wrong_ones_are_refused(pod):
    run = await pod.start("true", hosts="0,2-3")
    assert [host.host for host in run.hosts] == [0, 2, 3]
    await pod.output(run)
    with pytest.raises(TPUError, match="has no host 4") as caught:
        await pod.start("true", hosts="1-4")
    assert caught.value.hint == "It has the hosts 0 to 3."
    with raises(Reason.NOT_FOUND, "environment none does not exist"):
        await pod.start("true", environment="none")


@in_pod
async def test_what_the_host_refuses_is_reported_for_that_host(pod):
    await pod.output(await pod.start("mkdir", "only-here", hosts="2"))
    run = await pod.start("pwd", cwd="only-here")
    texts = await pod.output(run)
    assert texts.keys() == {(2, "stdout")}
    states = ["not-started", "not-started", "exited", "not-started"]
    assert [host.state for host in run.hosts] == states
    assert run.hosts[0].problem.message == "The folder only-here does not exist on the host."
    assert run.code == 255


@in_pod
async def test_the_time_limit_ends_it_on_all_hosts(pod):
    run = await pod.shell("echo before; sleep 60; echo after", timeout=0.5)
    assert await pod.stdout(run) == [b"before\n"] * HOSTS
    assert {(host.state, host.code, host.cause) for host in run.hosts} == {
        ("exited", 124, "timeout")
    }
    assert run.code == 124


@in_pod
async def test_input_goes_to_all_hosts_as_it_is(pod):
    data = os.urandom(300_000)
    run = await pod.start("cat", input=True)
    await pod.fleet.runs.write(pod.tpu, run.id, RunInput(data=data[:1000]))
    writing = asyncio.ensure_future(
        pod.fleet.runs.write(pod.tpu, run.id, RunInput(data=data[1000:], end=True))
    )
    assert await pod.stdout(run) == [data] * HOSTS
    await writing


@in_pod
async def test_it_goes_on_while_the_link_is_cut_and_no_line_is_lost_or_doubled(pod):
    run = await pod.shell("for i in $(seq 300); do echo $i; sleep 0.01; done")
    await eventually(lambda: all(host.state == "running" for host in run.hosts))
    name = NodeName(pod.links.cloud.target.project or "", "us-central1-a", pod.tpu)
    cut = [link for host, link in pod.links._pool.links.items() if host.node.node == name.node]
    assert len(cut) == HOSTS
    for link in cut:
        link._driver.session.connection.abort()
    lines = b"".join(b"%d\n" % i for i in range(1, 301))
    assert await pod.stdout(run) == [lines] * HOSTS
    assert run.code == 0


def cut_links(pod: Pod) -> None:
    """Cuts the links to the hosts, which have no channel to the agent then."""
    name = NodeName(pod.links.cloud.target.project or "", "us-central1-a", pod.tpu)
    for number in range(HOSTS):
        session = pod.links.get(HostName(name, number))._driver.session
        if session is not None:
            session.connection.abort()


def asked_agent(pod: Pod, run: Any) -> list[bool]:
    """Whether the agent of each host had to do with a run."""
    return [host._daemon is not None for host in pod.fleet.runs._runs[run.id]._hosts]


@in_pod
@pytest.mark.parametrize("script", ["echo up; exit 3", "sleep 3; echo up; exit 3"])
async def test_without_a_channel_to_the_agent_a_command_asks_for_none(pod, script):
    cut_links(pod)
    run = await pod.shell(script)
    assert await pod.stdout(run) == [b"up\n"] * HOSTS
    assert {(host.state, host.code) for host in run.hosts} == {("exited", 3)}
    assert asked_agent(pod, run) == [False] * HOSTS


@in_pod
async def test_what_can_not_be_started_is_said_without_an_agent(pod):
    cut_links(pod)
    run = await pod.start("no-such-program")
    assert await pod.stdout(run) == [b""] * HOSTS
    assert run.code == 127
    assert "'no-such-program' does not exist" in run.hosts[1].problem.message
    assert asked_agent(pod, run) == [False] * HOSTS


@in_pod
@pytest.mark.parametrize("cut", [True, *others(False)])
async def test_of_a_long_command_without_an_agent_no_line_is_lost_or_doubled(pod, cut):
    cut_links(pod)
    run = await pod.shell("for i in $(seq 300); do echo $i; sleep 0.01; done")
    await eventually(lambda: all(host.state == "running" for host in run.hosts))
    if cut:
        cut_links(pod)
    lines = b"".join(b"%d\n" % i for i in range(1, 301))
    assert await pod.stdout(run) == [lines] * HOSTS
    assert run.code == 0
    assert asked_agent(pod, run) == [False] * HOSTS


@in_pod
async def test_stopping_ends_it_on_all_hosts(pod, emulator):
    run = await pod.shell("echo up; exec sleep 4242")
    await eventually(lambda: all(host.state == "running" for host in run.hosts))

    async def started() -> bool:
        answer = await pod.fleet.runs.output(pod.tpu, run.id)
        return len(answer.output) == HOSTS

    await eventually(started)
    run = await pod.fleet.runs.stop(pod.tpu, run.id)
    assert {(host.state, host.cause, host.signal) for host in run.hosts} == {
        ("exited", "stopped", "SIGINT")
    }
    assert run.code == 130


@in_pod
async def test_output_that_nobody_reads_makes_the_command_wait(pod):
    size = 3 * KEPT_OUTPUT
    run = await pod.shell(f"head -c {size} /dev/zero", hosts="1")
    active = pod.fleet.runs._runs[run.id]
    await eventually(lambda: active._size >= KEPT_OUTPUT)
    again = await pod.fleet.runs.output(pod.tpu, run.id)
    assert again.start == 0
    assert run.state == "running"
    (text,) = await pod.stdout(run)
    assert len(text) == size
    late = await pod.fleet.runs.output(pod.tpu, run.id)
    assert late.start > 0, "what was read and did not fit is gone, and the answer says so"


@in_pod
async def test_a_run_about_which_nobody_asks_is_stopped_if_that_was_ordered(pod):
    run = await pod.start("sleep", "600", hosts="0", stop_unwatched=0.3)
    await eventually(lambda: run.state == "done")
    assert run.hosts[0].cause == "stopped"


async def printed(pod: Pod, run: Any) -> list[int]:
    """The numbers in its first output."""

    async def output() -> Any:
        return (await pod.fleet.runs.output(pod.tpu, run.id)).output

    return [int(word) for word in (await eventually(output))[0].data.split()]


async def daemon_of(pod: Pod, worker: int) -> int:
    """The process of a host's agent."""
    name = NodeName("emulated", "us-central1-a", pod.tpu)
    return (await pod.links.get(HostName(name, worker)).agent()).hello["pid"]


@in_pod
async def test_without_the_process_that_kept_a_command_its_end_is_not_known(pod):
    run = await pod.shell("echo $PPID; sleep 600", hosts="1")
    (keeper,) = await printed(pod, run)
    daemon = await daemon_of(pod, 1)
    await pod.output(await pod.start("kill", "-KILL", str(daemon), str(keeper), hosts="1"))
    await eventually(lambda: run.state == "done")
    (host,) = run.hosts
    assert (host.state, host.code) == ("unknown", 255)
    assert "process that kept the command" in host.problem.message


# ---- in a shell ----------------------------------------------------------------------------------


def unfolded(lines: str) -> dict[str, list[int]]:
    """The hosts of each text. A line of a host that was late is not folded with the others'."""
    hosts_of: dict[str, list[int]] = {}
    for line in lines.splitlines():
        hosts, text = line.removeprefix("[").split("] ", 1)
        hosts_of[text] = sorted([*hosts_of.get(text, ()), *host_numbers(hosts, 4, "pod")])
    return hosts_of


def test_in_a_shell_equal_lines_are_folded_and_the_exit_code_is_the_highest(shell, tpu):
    script = "echo meow; test $(hostname | tail -c2) -lt 2 || { echo odd >&2; exit 3; }"
    done = shell.run("run", tpu, "--", "sh", "-c", script)
    assert unfolded(done.stdout) == {"meow": [0, 1, 2, 3]}
    assert done.returncode == 3
    *odd, first, second = done.stderr.splitlines()
    assert unfolded("\n".join(odd)) == {"odd": [2, 3]}
    assert first.startswith("[0-1] exit code 0 (")
    assert second.startswith("[2-3] exit code 3 (")


def test_one_host_has_no_numbers_and_its_bytes_are_exact(shell, tpu):
    data = bytes(range(256)) * 400
    done = subprocess.run(
        [*COMMAND, "run", tpu, "--worker", "1", "--", "cat"],
        input=data,
        capture_output=True,
        env=shell.environment,
        timeout=LIMIT,
    )
    assert done.stdout == data
    assert (done.returncode, done.stderr) == (0, b"")


@in_pod
@pytest.mark.long
async def test_a_run_on_all_hosts_begins_with_what_was_just_saved_in_a_notebooks_project(
    pod, tmp_path, monkeypatch
):
    monkeypatch.setattr("jupyter_tpu.files.sync.mirrors.HOLD_SECONDS", 120)
    folder = tmp_path / "pod project"
    folder.mkdir()
    (folder / "part.py").write_text("WORD = 'old'\n")
    host = pod.links.get(HostName(NodeName("emulated", "us-central1-a", pod.tpu), 0))
    await pod.stdout(await pod.start("true"))  # all hosts are known
    mirror, _ = default_mirrors().acquire(host, ProjectLocation(folder))  # as its kernel does
    try:
        for word in ("first", "changed"):
            (folder / "part.py").write_text(f"WORD = {word!r}\n")
            command = "python3", "-c", "from part import WORD; print(WORD)"
            run = await pod.start(*command, cwd=mirror.remote)
            assert await pod.stdout(run) == [f"{word}\n".encode()] * HOSTS
    finally:
        await default_mirrors().release(mirror)


def test_json_has_all_of_each_host(shell, tpu):
    command = ["sh", "-c", "cat; exit 5"]
    done = shell.run("run", tpu, "--worker", "0,3", "--json", "--", *command, input="in")
    answer = json.loads(done.stdout)
    assert done.returncode == answer["code"] == 5
    assert [(host["host"], host["stdout"], host["code"]) for host in answer["hosts"]] == [
        (0, "in", 5),
        (3, "in", 5),
    ]


def test_a_local_script_is_sent_to_the_hosts_and_runs_there_with_its_arguments(
    shell, tpu, emulator
):
    project = shell.folder / "my project"
    (project / ".git").mkdir(parents=True)
    (project / "code").mkdir()
    (project / "part.py").write_text("WORD = 'imported'\n")
    script = project / "code/my train.py"
    script.write_text(
        "import os, sys\nsys.path.insert(0, '')\nfrom part import WORD\n"
        "print(sys.argv[1:], WORD, os.path.basename(os.getcwd()))\n"
    )
    command = ["run", "--tpu", tpu, "--worker", "0-1", "--no-stdin"]

    def lines_of(done):
        """Lines without their hosts: those of a busy machine may come too late to be folded."""
        return {line.partition("] ")[2] for line in done.stdout.splitlines()}

    done = shell.run(*command, str(script), "--epochs", "3", "a 'b'")
    assert lines_of(done) == {"""['--epochs', '3', "a 'b'"] imported my project"""}, done.stderr
    assert done.returncode == 0

    # A project of the same name has a folder of its own.
    other = shell.folder / "elsewhere/my project"
    other.mkdir(parents=True)
    (other / "main.py").write_text("import os\nprint(sorted(os.listdir()))\n")
    done = shell.run(*command, str(other / "main.py"))
    assert lines_of(done) == {"['main.py']"}, done.stderr

    # One host has changed a file that was changed here, too: it is named, and nothing is run.
    home = Path(emulator.hosts(tpu)[3]["folder"], "home", "tpu")
    (home / "my project/part.py").write_text("WORD = 'theirs'\n")
    (project / "part.py").write_text("WORD = 'ours'\n")
    done = shell.run(*command, str(script))
    assert (done.stdout, done.returncode) == ("", 1)
    assert "part.py   changed on both sides (host 3)" in done.stderr
    assert "1 file was not copied, because both sides have changed." in done.stderr
    assert "does not exist" in shell.complaint("run", "--tpu", tpu, str(shell.folder / "none.py"))


def test_ctrl_c_stops_it_everywhere(shell, tpu, emulator):
    process = subprocess.Popen(
        [*COMMAND, "run", tpu, "--", "sh", "-c", "echo up; exec sleep 31337"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.environment,
    )
    assert process.stdout is not None
    seen = 0
    while seen < HOSTS:  # folded, or host by host
        line = process.stdout.readline()
        assert line.endswith(" up\n"), line
        seen += len(range_of(line))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert errors.splitlines()[0] == "Stopping the command on 4 hosts."
    assert "[0-3] stopped (killed by SIGINT)" in errors
    until(lambda: not _running("sleep", "31337"))


def test_ctrl_c_in_the_moment_of_the_start_stops_it(shell, tpu, monkeypatch, capsys):
    """As an exception it would come before anybody knows which run to stop."""
    begin = RunService.start

    async def interrupted(*arguments):
        run = await begin(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return run

    monkeypatch.setattr(RunService, "start", interrupted)
    for variable, value in shell.environment.items():
        monkeypatch.setenv(variable, value)
    assert main(["run", tpu, "--worker", "0", "--no-stdin", "--", "sleep", "31338"]) >= 128
    assert capsys.readouterr().err.startswith("Stopping the command.\n")
    assert not _running("sleep", "31338")


def test_ctrl_c_stops_it_while_nobody_reads_what_it_prints(shell, tpu):
    terminal = Terminal(shell, "run", tpu, "--worker", "0", "--", "sh", "-c", "yes 31339; sleep 1")
    terminal.expect("31339")
    until(lambda: _running("yes", "31339"))
    terminal.type("\x03")
    until(lambda: not _running("yes", "31339"))
    assert terminal.end() == 130


def range_of(line: str) -> list[int]:
    numbers: list[int] = []
    for part in line[1 : line.index("]")].split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _running(*command: str) -> bool:
    """Whether this is running; hosts are containers of this machine."""
    cmdline = b"".join(word.encode() + b"\0" for word in command)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cmdline").read_bytes() == cmdline:
                return True
    return False


@in_pod
async def test_a_host_that_dies_in_the_middle_is_named_and_the_others_finish(
    pod, emulator, monkeypatch
):
    """The last one here: the pod has lost a host then."""
    monkeypatch.setattr(host_run, "ABANDONED_SECONDS", 2.0)
    run = await pod.shell("echo up; read line; echo $line", input=True)

    async def started() -> bool:
        return len((await pod.fleet.runs.output(pod.tpu, run.id)).output) == HOSTS

    await eventually(started)
    (last,) = [host for host in emulator.hosts(pod.tpu) if host["worker"] == HOSTS - 1]
    os.kill(last["init_pid"], signal.SIGKILL)
    await eventually(lambda: not Path(f"/proc/{last['init_pid']}").exists())
    writing = asyncio.ensure_future(
        pod.fleet.runs.write(pod.tpu, run.id, RunInput(data=b"done\n", end=True))
    )
    assert (await pod.stdout(run))[:3] == [b"up\ndone\n"] * 3
    await writing
    assert [host.state for host in run.hosts] == ["exited"] * 3 + ["unknown"]
    assert run.hosts[3].problem is not None
    assert run.code == 255
