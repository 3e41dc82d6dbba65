"""Jobs and runs whose processes are another user's, as those that sudo starts: with real users."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

import jupyter_tpu
from jupyter_tpu.on_host.agent.protocol.processes import start_time

#: A Python that every user of this machine may run.
PYTHON = "/usr/bin/python3"

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or None in map(shutil.which, ("setpriv", PYTHON)),
    reason="SKIPPED: only root is two users",
)

USER = 54321
#: What sudo does here: it runs a command as root, by its interpreter, which belongs to root.
SUDO = """\
#!{python} -I
import os, sys
os.setuid(0)
words = [word for word in sys.argv[1:] if word != "-n"]
os.execvp(words[0], words)
"""
RUN = """
import asyncio, json, sys
from jupyter_tpu.on_host.agent.daemon import keeper_starter, runs
from jupyter_tpu.on_host.agent.protocol import paths, requests, run_client
shorter = "keeper_starter.run_keeper.GRACE_SECONDS = 0.3; keeper_starter.fork_keepers()"
keeper_starter.PROGRAM = keeper_starter.PROGRAM.replace(
    "keeper_starter.fork_keepers()", shorter
)

async def run():
    agent = runs.Runs(keeper_starter.KeeperStarter())
    order = requests.StartRunRequest(id="r", command=json.loads(sys.argv[1]), cwd="/", limit=0.5)
    ended, start = (await agent._run(order))["ended"], 0
    path = paths.run_socket(paths.run_folder(), "r")
    if ended is None:
        streams = await asyncio.open_unix_connection(path)
        keeper = run_client.RunClient(run_client.SocketStream(*streams))
        await keeper.begin()
        while ended is None:
            _, size, ended = await keeper.read(start)
            start += size
        await keeper.forget()
    print(json.dumps(ended))

asyncio.run(run())
"""


class User:
    """Another user of this machine, whose sudo may ask for a password."""

    def __init__(self, home: Path, sudo: Path) -> None:
        self.home = home
        self._sudo = sudo
        self.jobs = home / ".jupyter-tpu/jobs"

    def command(self, *words: str, may_kill: bool = True) -> list[str]:
        """Runs *words* as this user. The commands of a test always find a sudo that works."""
        path = f"{self._sudo.parent}:{os.environ['PATH']}" if may_kill else os.environ["PATH"]
        variables = [f"HOME={self.home}", f"PATH={path}", f"PYTHONPATH={self.home}"]
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                "env", *variables, *words]  # fmt: skip

    def as_root(self, *words: str) -> list[str]:
        return [str(self._sudo), *words]


@pytest.fixture
def user() -> Iterator[User]:
    home = Path(tempfile.mkdtemp(prefix="s-"))
    (home / "jupyter_tpu/on_host").mkdir(parents=True)
    for package in ("jupyter_tpu", "jupyter_tpu/on_host"):
        (home / package / "__init__.py").touch()
    agent = Path(jupyter_tpu.__file__).parent / "on_host/agent"
    shutil.copytree(agent, home / "jupyter_tpu/on_host/agent")
    for name in (".jupyter-tpu", ".jupyter-tpu/jobs", ".jupyter-tpu/jobs/j-1", ".jupyter-tpu/run"):
        (home / name).mkdir(mode=0o700)
    python, sudo = home / "root-python", home / "bin/sudo"
    shutil.copy(Path(PYTHON).resolve(), python)
    sudo.parent.mkdir()
    sudo.write_text(SUDO.format(python=python))
    sudo.chmod(0o755)
    for path in (home, *home.rglob("*")):
        os.chown(path, USER, USER)
    os.chown(python, 0, 0)
    python.chmod(0o4755)
    works = User(home, sudo)
    if subprocess.run(works.command("sudo", "true"), capture_output=True).returncode:
        shutil.rmtree(home)
        pytest.skip("SKIPPED: this file system has no programs that run as root")
    yield works
    shutil.rmtree(home)


@contextlib.contextmanager
def job(user: User, argv: list[str], may_kill: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """The keeper of a job of this user, until it has ended."""
    program = "from jupyter_tpu.on_host.agent.keeper.job_keeper import run_job_keeper as run; run()"
    keeper = subprocess.Popen(
        user.command(PYTHON, "-c", program, may_kill=may_kill),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    spec = {"id": "1", "folder": str(user.jobs / "j-1"), "argv": argv, "cwd": "/", "limit": None,
            "env": dict(os.environ)}  # fmt: skip
    keeper.stdin.write(json.dumps(spec).encode() + b"\n")
    keeper.stdin.close()
    assert json.loads(keeper.stdout.readline())["keeper"] == keeper.pid
    yield keeper
    keeper.stdout.close()
    assert keeper.wait(60) == 0


def state(user: User) -> dict[str, Any]:
    return json.loads((user.jobs / "j-1/state.json").read_text())


def roots(seconds: int) -> list[int]:
    """The processes of root that sleep for so many seconds."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            process = Path("/proc", pid)
            line = (process / "cmdline").read_bytes()
            if line == b"sleep\0%d\0" % seconds and process.stat().st_uid == 0:
                pids.append(int(pid))
    return pids


def test_a_job_of_root_stops_when_it_is_told_to(user):
    with job(user, user.as_root("sleep", "54321")) as keeper:
        until(lambda: roots(54321))
        keeper.send_signal(signal.SIGTERM)
    assert state(user)["state"] == "ended"
    assert not roots(54321)


def test_what_root_left_of_a_job_is_ended_with_it(user):
    left = f"{user.as_root('sleep', '54322')[0]} sleep 54322 & exit 3"
    with job(user, ["sh", "-c", left]):
        pass
    assert (state(user)["state"], state(user)["code"]) == ("ended", 3)
    assert not roots(54322)


def test_where_sudo_asks_for_a_password_a_job_says_how_to_end_it(user):
    with job(user, user.as_root("sleep", "54323"), may_kill=False) as keeper:
        [pid] = until(lambda: roots(54323))
        keeper.send_signal(signal.SIGTERM)
        until(lambda: f"sudo kill {pid}" in state(user)["cause"])
        assert state(user)["state"] == "stopping"
        os.kill(pid, signal.SIGTERM)
    assert state(user)["state"] == "ended"
    assert "sudo" not in state(user)["cause"]


def test_where_sudo_asks_for_a_password_a_job_ends_without_what_it_left(user):
    with job(user, ["sh", "-c", f"{user.as_root()[0]} sleep 54324 & exit 3"], may_kill=False):
        pass
    assert (state(user)["state"], state(user)["code"]) == ("ended", 3)
    for pid in roots(54324):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("may_kill", "seconds"), [(True, 54325), (False, 54326)])
def test_a_run_of_root_ends_at_its_time_limit(user, may_kill, seconds):
    words = user.as_root("sleep", str(seconds))
    command = user.command(PYTHON, "-c", RUN, json.dumps(words), may_kill=may_kill)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
    ended = json.loads(done.stdout)
    assert ended["cause"] == "timeout"
    left = roots(seconds)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if may_kill:
        assert not left
    else:
        assert any(f"process {pid}." in ended["message"] for pid in left)
    until(lambda: not any(map(start_time, left)))
