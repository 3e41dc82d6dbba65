"""Processes of the agent of which there is one per user: the daemon (of a version), the guard.

Each holds the lock of a file until it ends, and writes into it which process it is. So one that
hangs can be ended by those who need another.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Optional

from ..protocol import umask
from ..protocol.json_file import read_json
from ..protocol.paths import BARE
from ..protocol.process_env import without_allocator
from ..protocol.processes import is_alive, signal_process, start_time

#: A process begins its log anew above this size, bytes.
LONGEST_LOG = 1 << 20
#: Seconds in which the daemon ends when it is told to, whatever hangs: no other can start before.
DAEMON_END_SECONDS = 12.0
#: Seconds without a look after which another guard takes the place of one that hangs.
GUARD_SILENT_SECONDS = 600.0
#: Seconds for a killed process to be gone; one in a system call that hangs never is.
KILLED_SECONDS = 5.0


def start_process(sources: str, role: str, log_path: str) -> "subprocess.Popen[bytes]":
    """Starts one, in a session of its own. It adds to its log, which a living one may write to."""
    with open(log_path, "ab") as log:
        return subprocess.Popen(
            [sys.executable, *BARE, sources, role],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=without_allocator(os.environ),
            start_new_session=True,
            **umask.of_login(),
        )


def become_single(path: str, **fields: Any) -> bool:
    """Takes the lock of the file *path* for this process, until it ends; False if another has it.

    fields: what the file says of this process, besides ``pid`` and ``started``.
    """
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    pid = os.getpid()
    holder = json.dumps({**fields, "pid": pid, "started": start_time(pid)}).encode()
    with contextlib.suppress(OSError):  # the disk is full
        os.pwrite(lock, holder, 0)
        os.ftruncate(lock, len(holder))
    with contextlib.suppress(OSError):  # it is no file
        if os.fstat(2).st_size > LONGEST_LOG:
            os.ftruncate(2, 0)
    return True


def living_holder(path: str) -> Optional[Dict[str, Any]]:
    """What the file *path* says of the process with its lock, if that is alive."""
    holder = read_json(path) or {}
    return holder if "pid" in holder and is_alive(holder["pid"], holder["started"]) else None


def note_alive(path: str) -> None:
    """The process with the lock of the file *path* says that it still works."""
    with contextlib.suppress(OSError):
        os.utime(path)


def is_silent(path: str, seconds: float) -> bool:
    """Whether the process with the lock has not said for so many seconds that it works."""
    try:
        return time.time() - os.stat(path).st_mtime > seconds
    except OSError:
        return False


def end_holder(path: str, holder: Dict[str, Any]) -> bool:
    """Kills the process with the lock, if it is still *holder*; False if it does not end."""
    if _is_locked(path):  # else its process id may be somebody else's by now
        signal_process(holder["pid"], holder["started"], signal.SIGKILL)
    deadline = time.monotonic() + KILLED_SECONDS
    while is_alive(holder["pid"], holder["started"]):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _is_locked(path: str) -> bool:
    with open(path, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def last_line(path: str) -> str:
    """The last line of a log, where Python prints the error; "" if there is none."""
    try:
        with open(path, errors="replace") as log:
            lines = log.read()[-4000:].strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
