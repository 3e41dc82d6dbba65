"""Other users of the machine: what they have put in a dead server's place gets no token."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu.fleet.servers import running_servers

#: What a process of another user does: each prints a line, and stays until its input ends.
BECOME_NOBODY = "import os, socket, sys; os.setuid(65534)\n"
WAIT = "print('ready', flush=True); sys.stdin.read()"
LISTEN = (
    "listener = socket.create_server(('127.0.0.1', 0))\n"
    "print(listener.getsockname()[1], flush=True); sys.stdin.read()"
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who listens"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]


def write(folder: Path, port: int, pid: int) -> None:
    info = {"base_url": "/", "hostname": "127.0.0.1", "password": False, "secure": False}
    info |= {"pid": pid, "port": port, "sock": "", "token": "secret"}
    (folder / "jpserver-1.json").write_text(json.dumps(info))


@contextlib.contextmanager
def stranger(work: str) -> Iterator[tuple[int, str]]:
    """A process of another user, and the first line that it printed; ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", BECOME_NOBODY + work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process.pid, process.stdout.readline().strip()


def test_a_port_that_somebody_else_took_gets_no_token(tmp_path):
    """The server died, its pid lives again as a process of ours, and another user listens."""
    with stranger(LISTEN) as (_, port):
        write(tmp_path, int(port), os.getpid())
        assert running_servers(tmp_path) == []


def test_another_users_process_is_not_our_server(tmp_path):
    with socket.socket() as listener, stranger(WAIT) as (pid, _):
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        write(tmp_path, port, pid)
        assert running_servers(tmp_path) == []
        write(tmp_path, port, os.getpid())
        assert len(running_servers(tmp_path)) == 1
