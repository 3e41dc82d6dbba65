"""A TPU that stops itself: the real agent and guard, and the emulator's metadata, IAM and API."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from cli_shell import COMMAND, Shell, state_of
from fleet_world import others
from local_host import LocalHost, host_of_its_own
from pod_fleet import open_pod
from ports import free_port
from refusals import raises
from test_serving_agent import SERVER, get, serve, until_state
from waiting import eventually, until

from jupyter_tpu.emulator.api.host_identity import HostIdentities
from jupyter_tpu.emulator.state_folder import EmulatorToken
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.models import Guard, GuardStop, SetGuard, StartJob
from jupyter_tpu.on_host.agent.guard import restart
from jupyter_tpu.on_host.agent.protocol import requests


@pytest.fixture(scope="module")
def node(emulator: Any) -> Iterator[dict[str, Any]]:
    with emulator.tpu("guard", "v5litepod-1", "us-west4-a") as made:
        yield made


@pytest.fixture
def variables(emulator: Any, node: dict[str, Any]) -> dict[str, str]:
    """What the hosts of the node have to call Google."""
    identities = HostIdentities(EmulatorToken(Path(emulator.state.token_file)))
    return identities.variables(node["id"], emulator.state.rest)


@pytest_asyncio.fixture
async def host(variables: dict[str, str]) -> AsyncIterator[LocalHost]:
    async with host_of_its_own(variables) as host:
        yield host


async def set_guard(host: LocalHost, node: dict[str, Any], **rule: Any) -> dict[str, Any]:
    request = {"action": "stop", "node": node["name"], "node_id": node["id"], "notice": 0, **rule}
    return (await (await host.agent()).request(requests.SetGuardRequest(**request)))["guard"]


async def report(host: LocalHost, accept: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the guard reports once that is accepted."""

    async def accepted() -> dict[str, Any] | None:
        guard = (await (await host.agent()).request(requests.GetGuardRequest()))["guard"]
        return guard if accept(guard) else None

    return await eventually(accepted, 120)


def guards(host: LocalHost) -> list[Any]:
    return [process for process in host.processes() if process.split()[-1] == "guard"]


async def test_a_host_that_may_not_stop_its_tpu_says_what_to_grant(host, node, faults):
    faults(kind="permission")
    guard = await set_guard(host, node, idle=3600)
    assert guard["host"] is False
    assert guard["refused"]["reason"] == "PERMISSION"
    assert "tpu.nodes.stop" in guard["refused"]["message"]
    assert "roles/tpu.admin" in guard["refused"]["hint"]


async def test_a_job_keeps_the_tpu_and_a_keep_puts_the_end_off(host, node):
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    await (await host.agent()).request(requests.StartJobRequest(id="j-1", argv=argv))
    end = time.time() + 3600
    guard = await set_guard(host, node, idle=60, until=end)
    assert guard["host"] is True, guard["refused"]
    assert "a job" in guard["busy"]
    assert guard["reason"] == "time", "the idle limit is not counted down"
    assert abs(guard["ends"] - end) < 30
    kept = (await (await host.agent()).request(requests.DelayGuardRequest(seconds=7200.0)))["guard"]
    assert abs(kept["ends"] - end - 3600) < 60
    await (await host.agent()).request(requests.RemoveGuardRequest())
    await eventually(lambda: not guards(host))


@pytest.mark.long
async def test_a_server_keeps_the_tpu_busy_by_its_requests_and_not_by_being_there(host, node):
    port = free_port()
    (host.home / "server.py").write_text(SERVER)
    started = await serve(host, "served-1", port=port)
    await until_state(host, "served-1", "healthy")
    await set_guard(host, node, idle=3600)
    quiet = await report(host, lambda guard: "requests to served" not in (guard["busy"] or []))
    assert "a job" not in quiet["busy"]
    assert started["state"] == "running"
    get(port, "/v1")
    asked = await report(host, lambda guard: "requests to served" in (guard["busy"] or []))
    assert "a job" not in asked["busy"]
    await (await host.agent()).request(requests.RemoveGuardRequest())


async def test_a_guard_that_was_killed_is_started_again(host, node):
    await set_guard(host, node, until=time.time() + 3600)
    await report(host, lambda guard: guard["ends"] is not None)
    host.cut()
    await eventually(lambda: len(host.processes()) == 1)  # the daemon had nothing to do, and ended
    host.mend()
    lock = host.home / ".jupyter-tpu/guard/lock"
    pid = json.loads(lock.read_text())["pid"]
    os.kill(pid, signal.SIGKILL)

    def another() -> bool:
        with contextlib.suppress(json.JSONDecodeError):  # it is being written
            return json.loads(lock.read_text())["pid"] != pid
        return False

    await report(host, lambda _: guards(host) and another())


def cron_lines(
    host: LocalHost, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The table of cron after the guard of that *agent* has written its lines."""
    table, program = tmp_path / "table", tmp_path / "crontab"
    table.write_bytes(b"# m h\fdom \xe4\n0 8 * * * true\n")
    program.write_text(f"#!/bin/sh\ncase $1 in -l) cat {table};; -) cat > {table};; esac\n")
    program.chmod(0o755)
    user = SimpleNamespace(pw_dir=str(host.home))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        patch.setenv("HOME", str(host.home))
        patch.setattr(restart.pwd, "getpwuid", lambda _: user)
        for _ in range(2):
            assert restart.enable(str(host.home / ".jupyter-tpu/agent" / agent)) == ""
        lines = table.read_bytes().split(b"\n")
        assert restart.disable() == ""
        assert table.read_bytes() == b"# m h\fdom \xe4\n0 8 * * * true\n"
    assert lines[:2] == [b"# m h\fdom \xe4", b"0 8 * * * true"]
    return [line.decode() for line in lines[2:-1]]


async def test_cron_starts_a_guard_again_that_was_killed_or_hangs(
    host, node, tmp_path, monkeypatch
):
    await set_guard(host, node, until=time.time() + 3600)
    await report(host, lambda guard: guard["ends"] is not None)
    agent = (await host.agent()).hello["agent"]
    at_boot, again = cron_lines(host, agent, tmp_path, monkeypatch)
    assert (at_boot.split()[0], again.split()[0]) == ("@reboot", "*/5")
    command = again.removeprefix("*/5 * * * * ")
    host.cut()
    await eventually(lambda: len(host.processes()) == 1)  # the daemon had nothing to do, and ended
    lock = host.home / ".jupyter-tpu/guard/lock"

    def pid() -> int:
        with contextlib.suppress(json.JSONDecodeError):  # it is being written
            return json.loads(lock.read_text())["pid"]
        return 0

    first = pid()
    await host.run(["sh", "-c", command])
    assert pid() == first, "one that runs is left alone"
    os.kill(first, signal.SIGKILL)
    await host.run(["sh", "-c", f"{command.partition('#')[0]} &"])
    await eventually(lambda: guards(host) and pid() not in (0, first))
    second = pid()
    os.kill(second, signal.SIGSTOP)
    os.utime(lock, (time.time() - 3600, time.time() - 3600))
    await host.run(["sh", "-c", f"{command.partition('#')[0]} &"])
    await eventually(lambda: pid() not in (0, second))
    assert len(guards(host)) == 1
    host.mend()
    assert (await report(host, lambda guard: guard["ends"] is not None))["phase"] == "watching"


@pytest.mark.parametrize(
    ("action", "due"), [("stop", False), ("delete", True), *others(("delete", False))]
)
async def test_what_was_refused_is_due_again_after_a_restart_of_the_host(
    host, node, emulator, action, due
):
    """due: the host was restarted before Google's answer was noted."""
    await set_guard(host, {**node, "id": "7"}, until=time.time(), action=action)
    await report(host, lambda guard: guard["problem"] is not None)
    host.cut()
    await eventually(lambda: len(host.processes()) == 1)
    folder = host.home / ".jupyter-tpu/guard"
    pid = json.loads((folder / "lock").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not host.processes())
    noted = json.loads((folder / "report.json").read_text())
    (folder / "report.json").write_text(json.dumps({**noted, "boot": "before", "asked": due}))
    host.mend()
    again = await report(host, lambda guard: guard["problem"] is not None)
    assert (again["phase"], again["problem"]["reason"]) == ("due", "CONFLICT")
    assert emulator.request("GET", f"/v2/{node['name']}")["state"] == "READY", "it is another TPU"


async def test_a_guard_survives_whatever_answers_in_googles_place(node):
    answers = iter((b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]", b""))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(next(answers, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = ":".join(map(str, server.sockets[0].getsockname()))
    home = Path(tempfile.mkdtemp(prefix="g-"))
    host = LocalHost(home, {"GCE_METADATA_HOST": address})
    guard = await set_guard(host, node, until=time.time())
    assert guard["refused"]["reason"] == "UNREACHABLE"
    guard = await report(host, lambda guard: guard["problem"] is not None)
    assert (guard["phase"], guard["problem"]["reason"]) == ("due", "UNREACHABLE")
    folder = home / ".jupyter-tpu/guard"
    pid = json.loads((folder / "lock").read_text())["pid"]
    rule = (folder / "rule.json").read_text()
    (folder / "rule.json").write_text(json.dumps({**json.loads(rule), "number": 2, "notice": "x"}))
    await eventually(lambda: "ValueError" in (folder / "log").read_text())
    (folder / "rule.json").write_text(rule)
    await (await host.agent()).request(requests.DelayGuardRequest(seconds=60))
    guard = await report(host, lambda guard: guard["phase"] == "watching")
    assert json.loads((folder / "lock").read_text())["pid"] == pid
    await (await host.agent()).request(requests.PrepareDeleteRequest())
    await host.close()
    await eventually(lambda: not host.processes())
    server.close()
    shutil.rmtree(home)


async def test_the_token_of_a_host_is_for_its_own_tpu(host, node, emulator):
    identities = HostIdentities(EmulatorToken(Path(emulator.state.token_file)))
    token = identities.access_token(node["id"])
    assert emulator.request("GET", f"/v2/{node['name']}", token=token)["id"] == node["id"]
    for method, path in (
        ("GET", f"/v2/{node['name']}-other"),
        ("POST", f"/v2/{node['name']}:start"),
        ("GET", "/emulator/v1/hosts"),
    ):
        with pytest.raises(Exception, match="401"):
            emulator.request(method, path, token=token)
    with pytest.raises(Exception, match="401"):
        emulator.request("GET", f"/v2/{node['name']}", token=token[:-1] + "x")


async def test_another_host_of_a_pod_publishes_what_it_does_and_does_not_act(host, node, emulator):
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    await (await host.agent()).request(requests.StartJobRequest(id="j-2", argv=argv))
    guard = await set_guard(host, node, hosts=2, worker=1)
    assert "a job" in guard["busy"]
    assert (guard["ends"], guard["problem"]) == (None, None)
    answer = emulator.request(
        "POST", f"/v2/{node['name']}:getGuestAttributes", {"queryPath": "jupyter-tpu/guard"}
    )
    [item] = answer["guestAttributes"][0]["queryValue"]["items"]
    assert "a job" in json.loads(item["value"])["busy"]


async def test_a_pod_whose_host_0_may_not_hear_the_others_has_no_idle_limit(host, node, faults):
    faults(kind="permission")
    with raises(Reason.PERMISSION, r"tpu\.nodes\.getGuestAttributes") as refused:
        await set_guard(host, node, action="delete", idle=600, hosts=2)
    assert "roles/tpu.admin" in refused.value.hint
    assert not guards(host)


async def test_the_tpu_stops_without_any_client(host, node, emulator):
    await set_guard(host, node, until=time.time() + 3)
    host.cut()
    try:

        def state() -> str:
            return emulator.request("GET", f"/v2/{node['name']}")["state"]

        await eventually(lambda: state() == "STOPPED", 60)
    finally:
        host.mend()
    ended = await report(host, lambda guard: guard["phase"] == "ending")
    assert ended["problem"] is None


def test_a_tpu_whose_create_command_was_closed_says_that_it_has_no_guard(emulator, tmp_path):
    name = "guard-closed"
    shell = Shell(tmp_path, **emulator.environment)
    arguments = (
        "create",
        name,
        "--type",
        "v5litepod-1",
        "--zone",
        "us-west4-a",
        "--max-idle",
        "2h",
    )
    command = subprocess.Popen([*COMMAND, *arguments], env=shell.environment)
    try:
        until(lambda: state_of(emulator, name) != "")
        command.kill()
        command.wait()
        until(lambda: state_of(emulator, name) == "READY")
        for listed in (shell.out("list"), shell.out("describe", name)):
            assert f"{name} has no guard yet. The command that should set it has ended." in listed
            assert f"jupyter tpu guard set {name}" in listed
        done = shell.run("guard", "set", name, "--max-idle", "3h")
        assert done.returncode == 0, done.stderr
        assert "no guard yet" not in shell.out("list")
    finally:
        shell.run("delete", name, "--yes")


@pytest.mark.long
async def test_a_server_stops_a_tpu_that_may_not_stop_itself_and_only_once(
    emulator, create_tpu, tmp_path
):
    account = {"scope": ["https://www.googleapis.com/auth/devstorage.read_only"]}
    node = create_tpu(type="v5litepod-1", zone="us-west4-a", serviceAccount=account)
    tpu = node["name"].rpartition("/")[2]
    async with open_pod(emulator, tpu, tmp_path) as pod:
        # The hosts of jobs are asked all the time, as those of connected TPUs are.
        await pod.fleet.jobs.start(tpu, StartJob(command=["sleep", "600"]))
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
        guard = await pod.fleet.guards.set(tpu, SetGuard(until=soon, notice=0))
        assert guard.actor == "server"
        assert "insufficient authentication scopes" in guard.problem.message
        assert "cloud-platform" in guard.problem.hint
        await eventually(lambda: state_of(emulator, tpu) == "STOPPED", 60)

        async def stop() -> GuardStop | None:
            return (await pod.fleet.tpu(tpu)).guard_stop

        assert (await eventually(stop)).reason == "time"
        for operation in await pod.fleet.operations.list():
            assert (await pod.fleet.operations.wait(operation.id)).state == "done"
        await pod.fleet.operations.wait((await pod.fleet.start(tpu)).id)

        async def looked() -> Guard | None:
            guard = await pod.fleet.guards.get(tpu)
            return guard if guard.busy is not None else None

        guard = await eventually(looked, 60)
        assert (guard.phase, guard.ends) == ("watching", "")
        assert state_of(emulator, tpu) == "READY"


@pytest.mark.long
async def test_a_pod_deletes_itself_when_all_its_hosts_are_idle_and_not_before(
    emulator, create_tpu, tmp_path
):
    node = create_tpu(type="v4-16", zone="us-central2-b")
    tpu = node["name"].rpartition("/")[2]
    async with open_pod(emulator, tpu, tmp_path) as pod:
        job = await pod.fleet.jobs.start(tpu, StartJob(command=["sleep", "600"], hosts="1"))
        guard = await pod.fleet.guards.set(tpu, SetGuard(action="delete", idle=60, notice=0))
        assert (guard.actor, guard.problem) == ("host", None)

        async def heard() -> bool:
            return (await pod.fleet.guards.get(tpu)).busy == ["a job on host 1"]

        await eventually(heard, 120)
        await pod.fleet.jobs.stop(tpu, job.id)

        async def counting() -> Guard | None:
            guard = await pod.fleet.guards.get(tpu)
            return guard if guard.reason == "idle" else None

        assert (await eventually(counting, 120)).busy == []
    await eventually(lambda: state_of(emulator, tpu) == "", 300)


@pytest.mark.long
async def test_a_guard_is_there_after_a_restart_of_its_host_before_anybody_connects(
    emulator, create_tpu, faults, tmp_path
):
    tpu = create_tpu(type="v5litepod-1", zone="us-west4-a")["name"].rpartition("/")[2]

    def running(before: int = 0) -> int:
        """The first process of the host, if it is another one and a guard runs."""
        [host] = emulator.hosts(tpu)
        guard = any(process["cmdline"][-1] == "guard" for process in host["processes"])
        return host["init_pid"] if guard and host["init_pid"] != before else 0

    async with open_pod(emulator, tpu, tmp_path) as pod:
        await pod.output(await pod.shell("echo '0 8 * * * true' | crontab -"))
        guard = await pod.fleet.guards.set(tpu, SetGuard(until="2099-01-01T00:00:00Z"))
        assert guard.no_restart == ""
        before = running()
        assert before
    await asyncio.to_thread(faults, kind="reboot", node=tpu)
    await eventually(lambda: running(before), 60)
    async with open_pod(emulator, tpu, tmp_path) as pod:
        guard = await pod.fleet.guards.get(tpu)
        assert (guard.reason, guard.no_restart) == ("time", "")
        await pod.fleet.guards.remove(tpu)
        await eventually(lambda: not running())
        [table] = await pod.stdout(await pod.shell("crontab -l"))
        assert table == b"0 8 * * * true\n", "only its own line is gone"
