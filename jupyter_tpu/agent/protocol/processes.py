"""Which process a stored process id means: ids are used again, start times are not."""

from __future__ import annotations

import contextlib
import os


def start_time(pid: int) -> str:
    """When a living process was started, in the system's ticks since its boot.

    "" if there is none (a zombie counts as ended), "?" if this system can't say.
    """
    if not os.path.isdir("/proc/self"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, 0)
            return "?"
        return ""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == b"Z" else fields[19].decode()


def is_alive(pid: int, started: str) -> bool:
    """Whether the process that started at *started* still runs."""
    return bool(started) and start_time(pid) == started


def signal_process(pid: int, started: str, number: int) -> bool:
    """Sends a signal, if the process that started at *started* still runs; False if it does not."""
    if not is_alive(pid, started):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
