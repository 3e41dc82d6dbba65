"""Starting the daemon where it is needed: the roles ``up``, ``daemon``, ``guard``."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time

from ..protocol import umask
from ..protocol.paths import run_folder
from ..protocol.process_env import without_allocator
from .daemon import IDLE, Daemon
from .keepers import last_line

#: Seconds for the daemon to answer; on a host whose processors are all busy it needs many.
LIMIT = 40.0


def start_daemon() -> int:
    """Makes sure that the daemon runs; prints where, as JSON. Returns 0 if it does."""
    run, version = run_folder(), _version()
    path, log_path = os.path.join(run, version + ".sock"), os.path.join(run, version + ".log")
    deadline, daemon, pause = time.monotonic() + LIMIT, None, 0.0
    while not _answers(path):
        code = daemon.poll() if daemon is not None else 0
        if code or time.monotonic() > deadline:
            problem = last_line(log_path) or "no answer for %.0f s" % LIMIT
            print(json.dumps({"reason": "INTERNAL", "message": problem}))
            return 1
        if code == 0:  # another one is running, and may be about to end
            time.sleep(pause)
            pause = 0.25
            with open(log_path, "wb") as log:
                daemon = subprocess.Popen(
                    [sys.executable, _sources(), "daemon"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=without_allocator(os.environ),
                    start_new_session=True,
                    **umask.of_login(),
                )
        time.sleep(0.01)
    print(json.dumps({"socket": path, "run": run, "agent": version}))
    return 0


def run_daemon() -> int:
    """The daemon's main: one per user and version, by a lock that ends with the process."""
    run, version = run_folder(), _version()
    lock = os.open(os.path.join(run, version + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0  # another one is running
    path = os.path.join(run, version + ".sock")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)

    async def serve() -> None:
        idle = float(os.environ.get("JUPYTER_TPU_AGENT_IDLE", IDLE))
        await Daemon(run, version, _sources(), idle).run(path)

    asyncio.run(serve())
    return 0


def run_guard_process() -> int:
    """The guard's main."""
    from .guard_process import run_guard

    return run_guard(_sources())


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(path)
        except OSError:
            return False
    return True


def _sources() -> str:
    """The folder that Python runs as this agent."""
    return os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))


def _version() -> str:
    """The folder's name: the hash of its contents."""
    return os.path.basename(_sources())[:16]
