"""The agent on a host without SSH in between: deploying it, its daemon, its keepers."""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fleet_world import others
from local_host import LocalHost, fill_disk, umask_of
from other_pythons import python_of
from refusals import raises
from waiting import eventually

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.on_host.agent.daemon import keepers as daemon_keepers
from jupyter_tpu.on_host.agent.protocol import frames, requests
from jupyter_tpu.on_host.agent.protocol.declarations import ProtocolRequest
from jupyter_tpu.on_host.agent.protocol.events import (
    KEEPER,
    Message,
    Opened,
    Rejected,
)
from jupyter_tpu.on_host.agent.protocol.journal import Journal, State
from jupyter_tpu.on_host.agent.protocol.paths import keeper_socket
from jupyter_tpu.on_host.agent.protocol.processes import start_time
from jupyter_tpu.on_host.agent.protocol.pump import JournalDisconnected, Pump
from jupyter_tpu.on_host.packing import agent_bundle

ORDER = {"key": "a key", "secret": "a secret", "environment": "default"}


async def start(host: LocalHost, kernel_id: str = "k", **order) -> dict:
    agent = await host.agent()
    order = {"launch": "1", "python": sys.executable, **ORDER, **order}
    return await agent.request(requests.StartKernelRequest(id=kernel_id, **order))


async def kernel(host: LocalHost, state: str) -> dict:
    """The one kernel of the host, as soon as it is in *state*."""

    async def in_state() -> dict | None:
        agent = await host.agent()
        (it,) = (await agent.request(requests.ListKernelsRequest()))["kernels"]
        return it if it["state"] == state else None

    return await eventually(in_state)


# ---- deploying ----------------------------------------------------------------------------------


async def test_it_is_uploaded_once_and_then_found(host):
    agent = await host.agent()
    assert agent.hello["agent"] == agent_bundle().hash
    assert host.commands == 2
    first = host.uploaded
    assert len(agent_bundle().data) < first < len(agent_bundle().data) + 5000
    await agent.close()
    await host.agent()
    assert host.commands == 3
    assert host.uploaded - first < 1000


async def test_the_error_for_a_host_without_python_says_what_to_do(tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("sh", "cat"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    # An absolute path in the script is the machine's; an empty PATH alone does not hide it.
    bare = LocalHost(tmp_path, {"PATH": str(tmp_path / "bin")})

    async def run(argv, **options):
        argv = [part.replace("/usr/bin/python3", "/nowhere/python3") for part in argv]
        return await LocalHost.run(bare, argv, **options)

    bare.run = run
    with raises(Reason.NO_PYTHON, r"no Python 3\.8 or newer") as caught:
        await bare.agent()
    assert "apt-get install python3" in caught.value.hint


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can make a small disk")
async def test_a_full_disk_on_the_host_is_reported(tmp_path):
    full = LocalHost(tmp_path)
    small = tmp_path / ".jupyter-tpu"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(small)], check=True)
    try:
        with pytest.raises(TPUError, match="disk is full") as caught:
            await full.agent()
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert caught.value.reason is Reason.DISK_FULL


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can make a small disk")
@pytest.mark.parametrize("warm", [False, *others(True)])
async def test_a_start_on_a_full_disk_says_that_it_is_full(host, warm):
    run = host.home / ".jupyter-tpu/run"
    run.mkdir(mode=0o700, parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", str(run)], check=True)
    try:
        agent = await host.agent()
        if warm:
            environments = [{"python": sys.executable}]

            async def ready() -> bool:
                environments_kept = (
                    await agent.request(requests.KeepWarmRequest(environments=environments))
                )["warm"]
                return [environment["state"] for environment in environments_kept] == ["ready"]

            await eventually(ready)
        fill_disk(run / "filler")
        with raises(Reason.DISK_FULL, "disk is full"):
            await start(host)
        (run / "filler").unlink()
        await start(host)
        await agent.request(requests.PrepareDeleteRequest())
        await eventually(lambda: agent.closed and not host.processes())
    finally:
        subprocess.run(["umount", "-l", str(run)], check=True)


async def test_two_that_come_at_once_share_one_daemon(host):
    other = LocalHost(host.home)
    ours, theirs = await asyncio.gather(host.agent(), other.agent())
    assert ours.hello["pid"] == theirs.hello["pid"]
    await other.close()
    assert ours.hello["agent"] == agent_bundle().hash


async def test_a_daemon_that_is_about_to_end_is_followed_by_another(host):
    """It accepts nobody any more, and still holds its lock."""
    await (await host.agent()).close()
    run = host.home / ".jupyter-tpu" / "run"
    await eventually(lambda: not host.processes())
    (lock,) = run.glob("*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        coming = asyncio.create_task(host.agent())
        await eventually(lambda: [line for line in host.processes() if "daemon" in line])
        await eventually(lambda: not [line for line in host.processes() if "daemon" in line])
        assert not coming.done()
    assert (await coming).hello["agent"] == agent_bundle().hash


async def test_a_daemon_that_can_not_start_says_why(host):
    await (await host.agent()).close()
    await eventually(lambda: not host.processes())
    path = host.home / ".jupyter-tpu" / "run" / f"{agent_bundle().hash}.sock"
    path.mkdir()
    with pytest.raises(TPUError, match=r"could not be started on the host: .*directory") as caught:
        await host.agent()
    path.rmdir()
    assert caught.value.reason is Reason.INTERNAL


@pytest.mark.parametrize("version", ["3.8", "3.13"])
async def test_it_runs_on_the_hosts_own_python(host, version):
    python = python_of(version)
    (host.home / "bin").mkdir()
    (host.home / "bin" / "python3").symlink_to(python)
    host.environment["PATH"] = f"{host.home}/bin:{os.environ['PATH']}"
    agent = await host.agent()
    assert os.path.samefile(agent.hello["python"], python)
    # The keeper runs in the environment's Python, the daemon in this one.
    await start(host)
    await kernel(host, "idle")
    assert (await agent.request(requests.EndKernelRequest(id="k", now=True))) == {"ended": True}


# ---- the daemon ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["python moved", pytest.param("python broken", marks=pytest.mark.long), "file lost"]
)
async def test_an_agent_that_cannot_be_run_any_more_is_installed_again(host, damage):
    agent = await host.agent()
    folder = host.home / ".jupyter-tpu/agent" / agent.hello["agent"]
    assert folder.is_dir()
    os.kill(agent.hello["pid"], signal.SIGKILL)
    await eventually(lambda: agent.closed and not host.processes())
    if damage == "file lost":
        [lost] = folder.glob("*/agent/daemon/load.py")
        lost.unlink()
    elif damage == "python moved":
        (folder / "python").write_text("/nowhere/python3")
    else:
        (host.home / "python").write_text("#!/bin/sh\necho 'no libpython' >&2\nexit 127\n")
        (host.home / "python").chmod(0o755)
        (folder / "python").write_text(str(host.home / "python"))
    commands = host.commands
    assert await (await host.agent()).request(requests.ListKernelsRequest()) == {"kernels": []}
    assert host.commands == commands + 2
    assert Path((folder / "python").read_text()).is_file()
    assert (folder / "python").read_text() != str(host.home / "python")
    # From now on it is as quick as ever.
    again = await host.agent()
    os.kill(again.hello["pid"], signal.SIGKILL)
    await eventually(lambda: again.closed)
    await host.agent()
    assert host.commands == commands + 3


async def test_a_daemon_with_nothing_to_do_ends_by_itself(host):
    agent = await host.agent()
    pid = agent.hello["pid"]
    # Not through close(), which tells it: the line is simply gone.
    host.cut()
    await eventually(lambda: not Path(f"/proc/{pid}").exists() or not host.processes())
    assert sorted(path.suffix for path in (host.home / ".jupyter-tpu/run").iterdir()) == [
        ".lock",
        ".log",
    ]
    host.mend()
    assert (await host.agent()).hello["pid"] != pid


async def test_taking_leave_ends_it_at_once(host):
    host.environment["JUPYTER_TPU_AGENT_IDLE"] = "600"  # not because it has nothing to do
    agent = await host.agent()
    assert host.processes()
    await agent.close()
    await eventually(lambda: not host.processes())


async def test_it_answers_questions_it_does_not_understand(host):
    agent = await host.agent()
    for op, params in (
        ("dance", {}),
        ("start_kernel", {}),
        ("start_kernel", {"id": "k", "env": 7}),
        ("end_kernel", {"id": 7}),
        ("end_kernel", {"id": "k", "now": "no"}),
        ("end_kernel", {"id": "k", "soon": True}),
        ("end_kernel", {}),
    ):

        class Wrong(ProtocolRequest[requests.Ended], op=op): ...

        with raises(Reason.INVALID):
            await agent.request(Wrong(**params))
    for kind in (b"{]\n", b"[]\n", b'{"op": 7}\n', b"7\n"):
        agent._stream.write(kind)
    assert (await agent.request(requests.ListKernelsRequest())) == {"kernels": []}


async def test_a_line_without_end_only_loses_its_connection(host):
    agent = await host.agent()
    agent._stream.write(b"x" * (2 * frames.LONGEST_REQUEST + 1))
    with raises(Reason.UNREACHABLE):
        await agent.request(requests.GetTimeRequest())
    assert (await (await host.agent()).request(requests.ListKernelsRequest())) == {"kernels": []}


async def test_a_request_that_is_too_large_is_not_sent_and_the_largest_one_is_answered(host):
    agent = await host.agent()
    with raises(Reason.INVALID, r"has 16 MiB; 16 MiB are possible"):
        await agent.request(requests.GetKernelFateRequest(id="x" * frames.LONGEST_REQUEST))
    long = requests.GetKernelFateRequest(id="x" * (frames.LONGEST_REQUEST - 100))
    assert await agent.request(long) == {"known": False, "ending": None}


async def test_any_failure_in_the_daemon_answers_its_request(host):
    with raises(Reason.INTERNAL, "OverflowError"):
        await (await host.agent()).request(
            requests.GetStatusRequest(environments=[], load={"every": 10**400})
        )


async def test_requests_under_way_fail_at_once_when_the_line_is_cut(host):
    agent = await host.agent()
    request = asyncio.ensure_future(start(host, python=str(slow_python(host))))
    await eventually(lambda: (host.home / "python-started").exists())
    host.cut()
    with raises(Reason.UNREACHABLE):
        await asyncio.wait_for(request, 60)
    assert agent.closed
    (host.home / "python-may-go").touch()


def slow_python(host: LocalHost) -> Path:
    """An interpreter that takes its time, to have a request under way."""
    path = host.home / "slow-python"
    path.write_text(
        f"#!/bin/sh\ntouch {host.home}/python-started\n"
        f"until [ -e {host.home}/python-may-go ]; do sleep 0.1; done\nexit 1\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can be somebody else")
async def test_another_user_of_the_host_gets_no_answer(host):
    agent = await host.agent()
    await start(host)
    await kernel(host, "idle")
    run = Path(agent.hello["run"])
    sockets = [run / f"{agent.hello['agent']}.sock", Path(keeper_socket(str(run), "k"))]
    # Even if the folders were open.
    for path in (host.home, host.home / ".jupyter-tpu", run, sockets[1].parent):
        path.chmod(0o755)
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(10);"
        "s.connect(sys.argv[1]); s.sendall(bytes.fromhex(sys.argv[2])); print(len(s.recv(9)))"
    )
    hello = frames.encode(frames.Hello({"ask": "status"})).hex()
    for path in sockets:
        path.chmod(0o777)
        answers = []
        for user in (0, 65534):
            done = subprocess.run(
                ["/usr/bin/python3", "-c", script, str(path), hello],
                user=user,
                capture_output=True,
                text=True,
                check=False,
            )
            answers.append(done.stdout.strip() or "0")
        assert answers[0] == "9"
        assert answers[1] == "0"


# ---- kernels ------------------------------------------------------------------------------------


async def test_a_kernel_is_listed_from_its_start_to_its_end(host):
    started = await start(host, notebook="a.ipynb")
    running = await kernel(host, "idle")
    assert running["id"] == "k"
    assert running["pid"] == started["pid"]
    assert running["environment"] == "default"
    assert running["notebook"] == "a.ipynb"
    assert running["attached"] is False
    assert running["started"] <= running["last_activity"]
    agent = await host.agent()
    assert await agent.request(requests.EndKernelRequest(id="k")) == {"ended": True}
    assert (await agent.request(requests.ListKernelsRequest())) == {"kernels": []}
    assert await agent.request(requests.EndKernelRequest(id="k")) == {"ended": False}
    assert [line for line in host.processes() if not line.endswith((" daemon ", " forker "))] == []
    assert not list(Path(agent.hello["run"]).glob("k-*"))


async def test_neither_key_nor_secret_is_in_the_list_of_processes(host):
    started = await start(host, key="the-key-0815", secret="the-secret-4711")
    assert umask_of(started["pid"]) == umask_of("self")
    await kernel(host, "idle")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            shown = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        assert b"the-key-0815" not in shown
        assert b"the-secret-4711" not in shown
    assert Path(keeper_socket(str(host.home / ".jupyter-tpu/run"), "k")).stat().st_mode & 0o77 == 0


async def test_a_request_that_is_repeated_starts_nothing_new(host):
    first = await start(host, launch="1")
    assert await start(host, launch="1") == first
    with raises(Reason.EXISTS, "already running"):
        await start(host, launch="2")


@pytest.mark.parametrize(
    ("python", "message"),
    [("/nowhere/python", "There is no Python at /nowhere/python"), ("bare", "zmq")],
)
async def test_an_environment_that_cannot_run_kernels_is_reported(host, python, message):
    if python == "bare":
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(host.home / "bare")], check=True
        )
        python = str(host.home / "bare/bin/python")
    with raises(Reason.ENVIRONMENT, message):
        await start(host, python=python)
    agent = await host.agent()
    assert (await agent.request(requests.ListKernelsRequest())) == {"kernels": []}
    assert not list(Path(agent.hello["run"]).glob("k-*"))


@pytest.mark.parametrize("daemon", ["the next daemon", *others("the same daemon")])
async def test_a_kernel_whose_keeper_is_killed_leaves_nothing(host, daemon):
    started = await start(host)
    await kernel(host, "idle")
    agent = await host.agent()
    if daemon == "the next daemon":
        os.kill(agent.hello["pid"], signal.SIGKILL)
        await eventually(lambda: agent.closed)
    os.kill(started["keeper"], signal.SIGKILL)
    await eventually(lambda: not start_time(started["keeper"]))
    agent = await host.agent()
    if daemon == "the next daemon":  # a daemon cleans up after its own children without a request
        assert (await agent.request(requests.ListKernelsRequest())) == {"kernels": []}
    await eventually(lambda: not start_time(started["pid"]))
    await eventually(lambda: not list(Path(agent.hello["run"]).glob("k-*")))
    assert (await agent.request(requests.ListKernelsRequest())) == {"kernels": []}


async def test_last_messages_of_too_many_dead_kernels_are_deleted_oldest_first_and_this_is_reported(
    host,
):
    agent = await host.agent()
    [source] = host.home.glob(".jupyter-tpu/agent/*/*/agent/daemon/keepers.py")
    text = source.read_text()
    source.write_text(text.replace("DEAD_KERNELS = 2 << 30, 32", "DEAD_KERNELS = 2 << 30, 1", 1))
    assert source.read_text() != text
    os.kill(agent.hello["pid"], signal.SIGKILL)  # the next daemon reads it
    await eventually(lambda: agent.closed)
    for name in ("first", "second"):
        started = await start(host, name)
        os.kill(started["pid"], signal.SIGKILL)
        await eventually(lambda pid=started["pid"]: not Path(f"/proc/{pid}").exists())
    agent = await host.agent()
    await start(host, "third")
    kernels = (await agent.request(requests.ListKernelsRequest()))["kernels"]
    assert sorted(kernel["id"] for kernel in kernels) == ["second", "third"]
    first = await agent.request(requests.GetKernelFateRequest(id="first"))
    assert first["known"] is False
    assert first["ending"]["end"] == "room"
    assert first["ending"]["cause"] == "The kernel was ended by signal 9 (SIGKILL)."
    second = await agent.request(requests.GetKernelFateRequest(id="second"))
    assert second == {"known": True, "ending": None}
    assert (await agent.request(requests.GetKernelFateRequest(id="none"))) == {
        "known": False,
        "ending": None,
    }


async def test_an_agent_with_kernels_does_not_end_when_asked_to(host):
    await start(host)
    agent = await host.agent()
    assert await agent.request(requests.EndDaemonRequest()) == {"ended": False}
    assert [it["id"] for it in (await agent.request(requests.ListKernelsRequest()))["kernels"]] == [
        "k"
    ]


# ---- the keeper's clients -----------------------------------------------------------------------


async def attach(host: LocalHost, secret: str, **lease) -> tuple[Pump, asyncio.Task, list]:
    """A bare client of the journal protocol: its connection, which runs, and what it saw."""
    agent = await host.agent()
    reader, writer = await agent.open_keeper("k")
    journal, events = Journal(), []
    journal.connect({"lease": {"secret": secret, "holder": secret, **lease}})
    pump = Pump(journal, reader, writer, events.append)
    pump.journal = journal
    task = asyncio.ensure_future(pump.run())
    await eventually(lambda: events or task.done())
    return pump, task, events


async def broken(task: asyncio.Task) -> None:
    with pytest.raises(JournalDisconnected):
        await asyncio.wait_for(task, 60)


async def test_there_is_one_master_and_who_it_is_can_be_read(host):
    await start(host, secret="ours")
    _, ours, events = await attach(host, "ours")
    assert isinstance(events[0], Opened)
    assert events[0].fields["fence"] == 1
    pump, theirs, events = await attach(host, "theirs")
    (refused,) = [event for event in events if isinstance(event, Rejected)]
    assert refused.fields["reason"] == "CONFLICT"
    assert refused.fields["holder"] == "ours"
    assert pump.journal.state is State.REFUSED
    await broken(theirs)
    assert not ours.done()
    ours.cancel()


async def test_a_request_that_the_keeper_does_not_know_is_answered_and_nothing_else_happens(host):
    await start(host, secret="ours")
    pump, task, events = await attach(host, "ours")
    strange = ({"do": "dance"}, {"do": "signal"}, {"do": "signal", "signal": "9"})
    for fields in strange:
        pump.journal.send(KEEPER, [json.dumps(fields).encode()], urgent=True)
    pump.wake()

    def refusals() -> list[str]:
        sent = [event for event in events if isinstance(event, Message) and event.channel == KEEPER]
        said = [json.loads(event.parts[0]) for event in sent]
        return [event["why"] for event in said if event["event"] == "refused"]

    await eventually(lambda: len(refusals()) == len(strange))
    assert "'dance'" in refusals()[0]
    await kernel(host, "idle")
    assert not task.done()
    task.cancel()


async def test_a_keeper_that_does_not_answer_is_not_taken_for_dead(host, monkeypatch):
    await start(host)
    [folder] = host.home.glob("**/k-*")
    keepers = daemon_keepers.Keepers(str(folder.parent), "")
    [before] = await keepers.statuses()
    files = set(folder.iterdir())
    os.kill(before["keeper"], signal.SIGSTOP)
    try:
        monkeypatch.setattr(daemon_keepers, "ANSWER_SECONDS", 0.2)
        assert await keepers.statuses() == [before]
        assert await keepers.fate("k") == {"known": True, "ending": None}
        with pytest.raises(daemon_keepers.KeeperSilent):
            await keepers.status("k")
        # Another daemon, which has never heard of it, leaves it alone, too.
        assert await daemon_keepers.Keepers(keepers.run, "").statuses() == []
        assert set(folder.iterdir()) >= files
    finally:
        os.kill(before["keeper"], signal.SIGCONT)
    assert (await kernel(host, "idle"))["pid"] == before["pid"]


async def test_a_keeper_that_hangs_is_ended_by_force(host, monkeypatch):
    await start(host)
    [folder] = host.home.glob("**/k-*")
    keepers = daemon_keepers.Keepers(str(folder.parent), "")
    [before] = await keepers.statuses()
    os.kill(before["keeper"], signal.SIGSTOP)
    monkeypatch.setattr(daemon_keepers, "ANSWER_SECONDS", 0.2)
    for polite in ({"now": False}, {"now": True, "secret": "a secret"}):
        with pytest.raises(daemon_keepers.KeeperSilent):
            await keepers.end("k", **polite)
    assert await keepers.end("k", now=True)
    assert not start_time(before["keeper"])
    await eventually(lambda: not start_time(before["pid"]))
    assert not folder.exists()
