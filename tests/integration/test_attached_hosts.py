"""Machines that are reached by SSH alone: a real sshd, the real ssh, and no cloud that answers."""

import asyncio
import contextlib
import getpass
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from own_sshd import needs_sshd, new_key, path_with_ssh, running_sshd
from refusals import raises
from waiting import eventually, until

from jupyter_tpu.cloud import (
    AttachedMachines,
    CloudTPU,
    CloudWithAttached,
    NodeState,
    Target,
    attached_name,
)
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import AttachMachine, DetachMachine, StartJob, StartRun
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Links
from jupyter_tpu.links.lookup import Lookup
from jupyter_tpu.on_host.agent.protocol.processes import start_time
from jupyter_tpu.ssh import fingerprint, user_host

pytestmark = needs_sshd


class Box(NamedTuple):
    """A machine, and the user's OpenSSH that reaches it as "Box.lab" and "box-by-jump"."""

    home: Path
    config: Path
    known_hosts: Path
    port: int
    key: str

    @property
    def authorized(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"

    def trust(self, key: str) -> None:
        self.known_hosts.write_text(f"# comment\nnonsense\n[127.0.0.1]:{self.port} {key}\n")


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    authorized = home / ".ssh" / "authorized_keys"
    authorized.write_text(new_key(tmp_path / "user"))  # without an end of line
    environment = f"SetEnv HOME={home} JUPYTER_TPU_AGENT_IDLE=5"
    with running_sshd(tmp_path, authorized, environment) as (port, key):
        known = tmp_path / "known hosts of a user"
        config = tmp_path / "ssh_config"
        config.write_text(
            f"Host Box.lab\n  HostName 127.0.0.1\n  Port {port}\n"
            "Host box-by-jump\n  HostName 10.0.0.9\n  ProxyJump me@gate:2222\n"
            "Host box-by-command\n  HostName 10.0.0.9\n  ProxyCommand relay '100%%' %h %p %r\n"
            f"Host *\n  User {getpass.getuser()}\n  IdentityFile {tmp_path}/user\n"
            f'  IdentitiesOnly yes\n  UserKnownHostsFile /dev/null "{known}"\n'
        )
        monkeypatch.setenv("PATH", path_with_ssh(tmp_path / "bin", config))
        yield Box(home, config, known, port, key)
    _kill_processes_of(home)


def _kill_processes_of(home: Path) -> None:
    for pid in _processes_of(home):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes_of(home: Path) -> list[int]:
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            variables = Path("/proc", pid, "environ").read_bytes().split(b"\0")
            if f"HOME={home}".encode() in variables:
                pids.append(int(pid))
    return pids


@pytest.fixture
def twin(box: Box, tmp_path: Path) -> Iterator[Box]:
    """Another machine, which the same OpenSSH reaches as "Twin.lab"."""
    folder = tmp_path / "twin"
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    authorized = home / ".ssh" / "authorized_keys"
    authorized.write_text((tmp_path / "user.pub").read_text())
    environment = f"SetEnv HOME={home} JUPYTER_TPU_AGENT_IDLE=5"
    with running_sshd(folder, authorized, environment) as (port, key):
        more = f"Host Twin.lab\n  HostName 127.0.0.1\n  Port {port}\n"
        box.config.write_text(more + box.config.read_text())
        yield Box(home, box.config, box.known_hosts, port, key)
    _kill_processes_of(home)


@pytest.mark.parametrize("when", ["runs", "starts"])
async def test_a_command_of_the_users_configuration_ends_with_the_question(box, tmp_path, when):
    written = tmp_path / "pid"
    config = box.config.read_text()
    box.config.write_text(f'Match exec "echo $$ > {written}; sleep 1000; true"\n{config}')
    asking = asyncio.create_task(user_host.resolve("Box.lab"))

    def pid_of_command() -> str:
        return written.exists() and written.read_text().strip()

    if when == "runs":
        pid = int(await eventually(pid_of_command))
    else:  # it is cancelled before this loop knows that `ssh` was started
        for _ in range(2):
            await asyncio.sleep(0)
        pid = int(until(pid_of_command))
    assert start_time(pid)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await eventually(lambda: not start_time(pid))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who is not logged in at Google."""
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return tmp_path


@contextlib.asynccontextmanager
async def opened_fleet(folder: Path) -> AsyncIterator[Fleet]:
    links = Links(CloudWithAttached(CloudTPU(Target(project="p"))))
    fleet = await Fleet.open(links, KernelSpecs(folder / "kernels"))
    yield fleet
    await fleet.close()
    await links.close()
    await links.cloud.close()


@pytest_asyncio.fixture
async def fleet(folder: Path) -> AsyncIterator[Fleet]:
    async with opened_fleet(folder) as fleet:
        yield fleet


async def test_a_machine_is_attached_by_its_fingerprint_used_and_detached_without_a_cloud(
    box, fleet
):
    request = AttachMachine(ssh=["Box.lab"])
    check = await fleet.attached.check(request)
    (host,) = check.hosts
    assert (check.name, host.known, host.host_key) == ("box", False, fingerprint(box.key))
    with raises(Reason.HOST_KEY, "not in your known hosts"):
        await fleet.attached.attach(request)
    before = box.authorized.read_text()

    request.host_keys = [host.host_key]
    tpu = await fleet.attached.attach(request)
    assert (tpu.attached, tpu.zone, tpu.state) == (True, "attached", NodeState.READY)
    added = box.authorized.read_text().removeprefix(before).split()
    assert added[0] == "ssh-ed25519"
    assert not box.known_hosts.exists()  # the user's own
    again = await fleet.attached.attach(request)
    assert again.id == tpu.id
    with pytest.raises(TPUError, match=r"The name box is already used for Box\.lab"):
        await fleet.attached.attach(AttachMachine(ssh=["box-by-jump"], name="box"))
    assert box.authorized.read_text().split()[2:] == added  # once

    listed = await fleet.tpus()
    assert [tpu.name for tpu in listed.tpus] == ["box"]
    assert listed.problem is not None  # Google's
    assert tpu.cost.usd_per_hour == 0

    assert await home_folders(fleet, "box") == {0: f"{box.home}\n".encode()}

    # `ssh` is asked again for each connection.
    config = box.config.read_text()
    box.config.write_text(config.replace("HostName 127.0.0.1", "HostName moved"))
    target = await Lookup(CloudWithAttached(CloudTPU())).find(HostName(attached_name("box"), 0))
    assert (target.address.address, target.address.host_keys) == ("moved", (box.key,))
    box.config.write_text(config)

    for act in (fleet.start, fleet.stop, fleet.delete):
        with raises(Reason.CONFLICT, "is an attached machine") as caught:
            await act("box")
        assert "jupyter tpu detach box" in caught.value.hint

    await fleet.jobs.start("box", StartJob(command=["sleep", "4321"], name="long"))
    await eventually(lambda: sleeps(box))
    with raises(Reason.JOBS_RUNNING):
        await fleet.attached.detach("box")
    operation = await fleet.attached.detach("box", DetachMachine(end_jobs=True))
    operation = await fleet.operations.wait(operation.id)
    assert operation.state == "done", operation.problem
    assert not any("may still run" in line for line in operation.log), operation.log
    assert AttachedMachines().all() == []
    assert (await fleet.tpus()).tpus == []

    await eventually(lambda: not sleeps(box))


async def home_folders(fleet: Fleet, name: str) -> dict[int, bytes]:
    """What a command on each host prints."""
    run = await fleet.runs.start(name, StartRun(command=["sh", "-c", "echo $HOME"]))
    output: dict[int, bytes] = {}

    async def ended() -> bool:
        part = await fleet.runs.output(name, run.id)
        output.clear()
        for piece in part.output:
            output[piece.host] = output.get(piece.host, b"") + piece.data
        return part.ended

    await eventually(ended)
    return output


def sleeps(machine: Box) -> bool:
    lines = [Path("/proc", str(pid), "cmdline") for pid in _processes_of(machine.home)]
    return any(b"4321" in line.read_bytes() for line in lines if line.exists())


async def test_of_several_machines_the_one_that_fails_is_named_and_none_is_attached(
    box, fleet, tmp_path
):
    config = box.config.read_text()
    for alias, port in (("gone.lab", 1), ("copy.lab", box.port)):
        config = f"Host {alias}\n  HostName 127.0.0.1\n  Port {port}\n{config}"
    box.config.write_text(config)
    box.trust(box.key)
    for aliases, name, why in (
        (["Box.lab", "gone.lab"], "pair", r"gone.lab \(.*can't be reached.* The other host can be"),
        (["Box.lab", "copy.lab"], "pair", "Box.lab and copy.lab show the same host key"),
        (["Box.lab", "Box.lab"], "pair", "Box.lab is listed twice"),
        (["Box.lab", "copy.lab"], None, "Several machines need a name"),
    ):
        with pytest.raises(TPUError, match=why):
            await fleet.attached.attach(AttachMachine(ssh=aliases, name=name))
    box.trust(new_key(tmp_path / "other"))
    both = r"gone.lab \(.*can't be reached.* Box.lab shows .* has another key there"
    with pytest.raises(TPUError, match=both) as caught:
        await fleet.attached.attach(AttachMachine(ssh=["gone.lab", "Box.lab"], name="pair"))
    assert caught.value.reason is Reason.HOST_KEY  # that is more urgent
    assert AttachedMachines().all() == []
    assert len(box.authorized.read_text().split()) == 2  # without our key


async def test_the_users_known_hosts_decide_which_key_is_right(box, fleet, tmp_path):
    request = AttachMachine(ssh=["Box.lab"])
    box.trust(box.key)
    assert (await fleet.attached.check(request)).hosts[0].known
    request.host_keys = [fingerprint(new_key(tmp_path / "expected"))]
    with raises(Reason.HOST_KEY, "not the expected SHA256:"):
        await fleet.attached.attach(request)
    request.name = "UPPER"
    with pytest.raises(TPUError, match="The name is not allowed: it must be 1"):
        await fleet.attached.check(request)
    request.name = None
    box.trust(new_key(tmp_path / "other"))
    request.host_keys = [fingerprint(box.key)]  # even if somebody would trust it
    with raises(Reason.HOST_KEY, "has another key") as caught:
        await fleet.attached.attach(request)
    assert AttachedMachines().all() == []
    known = f"'[127.0.0.1]:{box.port}' -f '{box.known_hosts}'"
    assert f"with `ssh-keygen -R {known}`." in caught.value.hint


async def test_a_command_of_the_users_configuration_says_which_key_is_right(box, tmp_path):
    name, printed = f"[127.0.0.1]:{box.port}", tmp_path / "printed"
    box.config.write_text(f"{box.config.read_text()}  KnownHostsCommand /bin/cat {printed}\n")
    host = await user_host.resolve("Box.lab")
    for line, known in ((f"{name} {box.key}", True), (f"other {box.key}", False)):
        printed.write_text(f"{line}\n")
        assert await user_host.shown_key(host) == user_host.ShownKey(key=box.key, known=known)
    for line, why in (
        (f"{name} {new_key(tmp_path / 'other')}", "has another key there"),
        (f"@revoked {name} {box.key}", "is revoked there"),
    ):
        printed.write_text(f"{line}\n")
        with raises(Reason.HOST_KEY, why) as caught:
            await user_host.shown_key(host)
        assert caught.value.message.startswith(f"Box.lab shows the host key {fingerprint(box.key)}")
        if "another" in why:
            assert "correct what your KnownHostsCommand prints." in caught.value.hint
            assert "ssh-keygen" not in caught.value.hint


async def test_a_machine_whose_login_shell_ends_is_not_attached(box, fleet):
    (box.home / ".bashrc").write_text("echo Welcome; exit 0")
    box.trust(box.key)
    with raises(Reason.LOGIN_SHELL, r"login shell or ~/.bashrc of .* ended"):
        await fleet.attached.attach(AttachMachine(ssh=["Box.lab"]))


async def test_proxies_are_those_of_the_users_ssh(box):
    jump = await user_host.resolve("box-by-jump")
    assert jump.proxy_command[-4:] == ("-W", "[10.0.0.9]:22", "--", "ssh://me@gate:2222")
    command = await user_host.resolve("box-by-command")
    user = getpass.getuser()
    assert command.proxy_command == ("sh", "-c", f"exec relay '100%' 10.0.0.9 22 {user}")
    for wrong in ("-oProxyCommand=x", "a b", "a;b", "$(x)", ""):
        with raises(Reason.INVALID):
            await user_host.resolve(wrong)


@pytest.mark.long
async def test_one_that_cannot_be_reached_is_forgotten_and_what_may_go_on_is_reported(
    box, twin, folder
):
    box.trust(box.key)
    request = AttachMachine(
        ssh=["Twin.lab", "Box.lab"], name="pair", host_keys=[fingerprint(twin.key)]
    )
    async with opened_fleet(folder) as before:
        await before.attached.attach(request)
        job = await before.jobs.start("pair", StartJob(command=["sleep", "4321"], name="long"))
    box.config.write_text(box.config.read_text().replace(f"Port {box.port}", "Port 1"))
    async with opened_fleet(folder) as fleet:
        operation = await fleet.attached.detach("pair", DetachMachine(end_jobs=True))
        operation = await fleet.operations.wait(operation.id)
        assert operation.state == "done", operation.problem
        may_go_on = [line for line in operation.log if "may still run" in line]
        assert [line.partition(":")[0] for line in may_go_on] == [
            f"long ({job.id}) on host 1 may still run"
        ]
        await eventually(lambda: not sleeps(twin))
        assert (await fleet.tpus()).tpus == []
