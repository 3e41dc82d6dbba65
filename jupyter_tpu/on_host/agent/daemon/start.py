"""Starting the daemon where it is needed: the roles ``up``, ``daemon``, ``guard``.

Each role loads what it needs itself: ``up`` runs at every reconnect, and only looks.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback

from ..protocol.light_asyncio import light_asyncio
from ..protocol.paths import agent_folder, run_folder
from .single_process import (
    DAEMON_END_SECONDS,
    become_single,
    end_holder,
    last_line,
    living_holder,
    start_process,
)

#: Seconds for the daemon to answer; on a host whose processors are all busy it needs many.
START_SECONDS = 40.0
#: Seconds for its hello, and those after which one that runs and does not say it is ended: longer
#: than an end takes.
HELLO_SECONDS, SILENT_SECONDS = 5.0, DAEMON_END_SECONDS + 3.0
#: The exit code of a daemon whose files, or Python's, are damaged.
DAMAGED = 4
_FILES = ".sock", ".log", ".lock"


def start_daemon() -> int:
    """Makes sure that the daemon runs; prints where, as JSON. Returns 0 if it does."""
    run, version = run_folder(), _version()
    path, log_path, lock_path = (os.path.join(run, version + end) for end in _FILES)
    deadline, daemon, pause = time.monotonic() + START_SECONDS, None, 0.0
    silent, patience = None, 0.0  # a daemon that runs and does not answer; until when it may
    while not _answers(path):
        code = daemon.poll() if daemon is not None else 0
        if code or time.monotonic() > deadline:
            problem = last_line(log_path) if code else "no answer for %.0f s" % START_SECONDS
            if code == DAMAGED:
                print(problem, file=sys.stderr)  # who asks for it installs it again
                return DAMAGED
            print(json.dumps({"reason": "INTERNAL", "message": problem or "exit code %s" % code}))
            return 1
        holder = living_holder(lock_path)
        if holder != silent:
            silent, patience = holder, time.monotonic() + SILENT_SECONDS
        elif holder is not None and time.monotonic() > patience:
            end_holder(lock_path, holder)
        if code == 0:  # another one is running, and may be about to end
            time.sleep(pause)
            pause = 0.25
            daemon = start_process(agent_folder(), "daemon", log_path)
        time.sleep(0.01)
    print(json.dumps({"socket": path, "run": run, "agent": version}))
    return 0


def run_daemon() -> int:
    """The daemon's main: one per user and version."""
    try:
        asyncio = light_asyncio()
        from .daemon import IDLE_SECONDS, Daemon
        from .keeper_starter import forked
    except Exception:
        traceback.print_exc()
        return DAMAGED
    starter = forked()  # before this has the lock
    run, version = run_folder(), _version()
    path, _, lock_path = (os.path.join(run, version + end) for end in _FILES)
    if not become_single(lock_path):
        return 0  # another one is running
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)

    async def serve() -> None:
        idle = float(os.environ.get("JUPYTER_TPU_AGENT_IDLE", IDLE_SECONDS))
        await Daemon(run, version, agent_folder(), idle, starter).run(path)

    asyncio.run(serve())
    return 0


def run_guard_process() -> int:
    """The guard's main."""
    from .guard_process import run_guard

    return run_guard(agent_folder())


def _answers(path: str) -> bool:
    """Whether a daemon says hello there: the system also accepts connections for one that hangs."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(HELLO_SECONDS)
        try:
            caller.connect(path)
            return bool(caller.recv(1))
        except OSError:
            return False


def _version() -> str:
    """The folder's name: the hash of its contents."""
    return os.path.basename(agent_folder())[:16]
