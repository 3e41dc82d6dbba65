"""What keeps a host from being idle: real terminals, tmux, mosh, nohup, servers; Ray by titles."""

import contextlib
import os
import pty
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ports import free_port
from waiting import until

from jupyter_tpu.on_host.agent.guard.processes import (
    Servers,
    Table,
    background_programs,
    commands,
    ray_tasks,
    read_processes,
    servers,
    terminals,
)

ME = pwd.getpwuid(os.getuid()).pw_name

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class Programs:
    """Programs of a test: they, and what they start, have a mark in their environment."""

    def __init__(self) -> None:
        self._mark = f"GUARD_TEST={uuid.uuid4().hex}"
        name, _, value = self._mark.partition("=")
        self.environment = {**os.environ, name: value, "TERM": "xterm", "LC_ALL": "C.UTF-8"}

    def start(self, *words: str) -> int:
        """Without a terminal, in a session of its own, as what a closed connection has left."""
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            words, env=self.environment, start_new_session=True, stdin=quiet, stdout=quiet,
            stderr=quiet,
        ).pid  # fmt: skip

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            start_new_session=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout

    def table(self) -> Table:
        def marked(pid: int) -> bool:
            try:
                return self._mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                return False

        return {pid: one for pid, one in read_processes().items() if marked(pid)}

    def servers(self, ours: tuple[int, ...] = ()) -> Servers:
        return servers(self.table(), ours)

    def end(self) -> None:
        while table := self.table():
            for pid in table:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in table:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


@pytest.fixture
def programs() -> Iterator[Programs]:
    programs = Programs()
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run by nohup
    yield programs
    signal.signal(signal.SIGHUP, before)
    programs.end()


def shown(look: Callable[[], list[str]], *expected: str) -> None:
    until(lambda: look() == list(expected), 30, lambda: str(look()))


def test_a_terminal_is_work_whoever_opened_it(programs):
    """VS Code and containers open one without sshd's name, and so does mosh."""
    assert terminals(programs.table()) == []
    pid, end = pty.fork()
    if not pid:
        os.execve("/bin/bash", ["bash", "--norc", "-i"], programs.environment)
    shown(lambda: terminals(programs.table()), f"a terminal of {ME}")
    assert terminals(programs.table(), ours=[pid]) == [], "a kernel's `!command` is the kernel's"
    os.kill(pid, signal.SIGKILL)
    os.close(end)
    shown(lambda: terminals(programs.table()))


@pytest.mark.skipif(not shutil.which("mosh-server"), reason="needs mosh")
def test_a_shell_of_mosh_is_a_terminal(programs):
    programs.run("mosh-server", "new", "-i", "127.0.0.1", "--", "/bin/sh")
    shown(lambda: terminals(programs.table()), f"a terminal of {ME}")


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
def test_tmux_is_work_while_a_program_runs_in_it_and_not_at_its_prompt(programs, tmp_path):
    tmux = "tmux", "-S", str(tmp_path / "t"), "-f", "/dev/null"
    programs.run(*tmux, "new-session", "-d", "-s", "s", "bash --norc")
    until(lambda: any(one.has_terminal for one in programs.table().values()), 30)
    look = lambda: terminals(programs.table())  # noqa: E731
    assert look() == []
    programs.run(*tmux, "send-keys", "-t", "s", "sleep 300", "Enter")
    shown(look, f"a program in tmux of {ME}")
    programs.run(*tmux, "send-keys", "-t", "s", "C-c", "")
    shown(look)
    script = tmp_path / "train.sh"
    script.write_text("read nothing\n")
    programs.run(*tmux, "send-keys", "-t", "s", f"bash {shlex.quote(str(script))}", "Enter")
    shown(look, f"a program in tmux of {ME}")


SERVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
kept = []
while True:
    kept.append(listener.accept())
"""
CLIENT = """
import socket, sys, time
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
time.sleep(300)
"""


def test_nohup_is_work_while_it_runs_but_not_a_server_that_waits(programs):
    look = lambda: background_programs(  # noqa: E731
        programs.table(), listening=programs.servers().listening
    )
    port = free_port()
    server = programs.start("nohup", sys.executable, "-c", SERVER, str(port))
    until(lambda: server in programs.servers().listening, 30)
    shown(look)
    programs.start("sleep", "300")  # whoever started it has not said that it is to go on
    shown(look)
    pid = programs.start("nohup", "sh", "-c", "sleep 300; true")
    shown(look, f"a program of {ME} (nohup)")
    listening = programs.servers().listening
    assert background_programs(programs.table(), [pid], listening) == [], "it is the agent's"
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    shown(look)


def test_a_server_is_work_while_somebody_from_elsewhere_is_connected(programs, tmp_path):
    port = free_port()
    server = programs.start(sys.executable, "-c", SERVER, str(port))
    until(lambda: server in programs.servers().listening, 30)
    assert programs.servers().ports == set()
    # A program of the host itself, such as a worker of Ray with its driver.
    inside = programs.start(sys.executable, "-c", CLIENT, str(port))
    until(lambda: _established(port), 30)
    assert programs.servers().ports == set()
    os.kill(inside, signal.SIGKILL)
    os.waitpid(inside, 0)
    # What comes through SSH is sshd's: its sockets can't be read, and root sees its name.
    sshd = tmp_path / "sshd"
    sshd.symlink_to(sys.executable)
    through = programs.start(str(sshd), "-c", CLIENT, str(port))
    until(lambda: programs.servers().ports == {port}, 30)
    assert programs.servers(ours=(server,)).ports == set()
    os.kill(through, signal.SIGKILL)
    os.waitpid(through, 0)
    until(lambda: programs.servers().ports == set(), 30)
    with socket.create_connection(("127.0.0.1", port)):  # this process is not in the table
        until(lambda: programs.servers().ports == {port}, 30)


def _established(port: int) -> bool:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(f":{port:04X}" in line.split()[1] and line.split()[3] == "01" for line in lines)


@pytest.mark.parametrize(
    ("title", "busy"),
    [
        ("ray::train_step", True),
        ("ray::Trainer.fit", True),
        ("ray::IDLE", False),
        ("ray::IDLE_SpillWorker", False),
        ("ray::ServeController", False),
        ("/opt/env/lib/ray/core/src/ray/raylet/raylet", False),
    ],
)
def test_ray_is_work_while_it_runs_a_task(programs, title, busy):
    programs.start("nohup", "bash", "-c", f"exec -a {shlex.quote(title)} sleep 300")
    until(lambda: [one for one in programs.table().values() if one.name == "sleep"], 30)
    assert ray_tasks(programs.table()) == (["a task or actor of Ray"] if busy else [])
    assert background_programs(programs.table()) == [], "Ray's processes wait in the background"


def test_a_command_of_run_is_work_until_it_ends(programs, tmp_path):
    """A keeper is known by its socket, and is not asked: that would keep an abandoned one alive."""
    keeper = "import socket, subprocess, sys; line = socket.socket(socket.AF_UNIX); "
    keeper += "line.bind(sys.argv[1]); line.listen(); "
    keeper += "subprocess.run(['sleep', sys.argv[2]]); line.accept()"
    path = tmp_path / "run-1a.sock"
    look = lambda: commands(programs.table(), programs.servers().sockets)  # noqa: E731
    pid = programs.start(sys.executable, "-c", keeper, str(path), "300")
    shown(look, "a command")
    (child,) = [one.pid for one in programs.table().values() if one.parent == pid]
    os.kill(child, signal.SIGKILL)
    shown(look)
