"""Other users of the machine: what they have put in a dead server's place gets no token."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_tpu.fleet.servers import running_servers

NOBODY = 65534

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who listens"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]


def write(folder: Path, port: int, pid: int) -> None:
    info = {"base_url": "/", "hostname": "127.0.0.1", "password": False, "secure": False}
    info |= {"pid": pid, "port": port, "sock": "", "token": "secret"}
    (folder / "jpserver-1.json").write_text(json.dumps(info))


@contextlib.contextmanager
def stranger(work: Callable[[], str]) -> Iterator[tuple[int, str]]:
    """A process of another user, and what *work* gave in it; ends with the block."""
    said, say = os.pipe()
    hold, let_go = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        os.close(let_go)
        os.write(say, work().encode())
        os.read(hold, 1)  # until the other end is closed
        os._exit(0)
    try:
        yield child, os.read(said, 16).decode()
    finally:
        os.close(let_go)
        os.waitpid(child, 0)
        for end in (said, say, hold):
            os.close(end)


def listen() -> str:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener_kept.append(listener)
    return str(listener.getsockname()[1])


listener_kept: list[socket.socket] = []


def test_a_port_that_somebody_else_took_gets_no_token(tmp_path: Path) -> None:
    """The server died, its pid lives again as a process of ours, and another user listens."""
    with stranger(listen) as (_, port):
        write(tmp_path, int(port), os.getpid())
        assert running_servers(tmp_path) == []


def test_another_users_process_is_not_our_server(tmp_path: Path) -> None:
    with socket.socket() as listener, stranger(lambda: "ready") as (pid, _):
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        write(tmp_path, port, pid)
        assert running_servers(tmp_path) == []
        write(tmp_path, port, os.getpid())
        assert len(running_servers(tmp_path)) == 1
