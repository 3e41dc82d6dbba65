"""Which process a stored process id means: ids are used again, start times are not.

And where a process comes from: since when it runs, and in which container.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import time
from typing import Any, Dict, Optional, Tuple

#: A process of a container has the container's id in the name of its control group:
#: "/docker/ID", "/system.slice/docker-ID.scope", "/machine.slice/libpod-ID.scope".
_CONTAINER = re.compile(
    r"(docker|libpod|nerdctl|containerd|crio|kubepods)\S*?([0-9a-f]{12})[0-9a-f]{52}"
)
_RUNTIMES = {"docker": "docker", "libpod": "podman", "nerdctl": "nerdctl"}


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
    except PermissionError:  # /proc shows only one's own
        return "?"
    except OSError:
        return ""
    return "" if fields[0] == b"Z" else fields[19].decode()


def is_alive(pid: int, started: str) -> bool:
    """Whether the process that started at *started* still runs."""
    return bool(started) and start_time(pid) == started


def signal_process(pid: int, started: str, number: int) -> bool:
    """Sends a signal, if the process that started at *started* still runs; False if it does not, or
    is another user's.
    """
    if not is_alive(pid, started):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def origin(pid: int, root: str = "/") -> Dict[str, Any]:
    """Where a living process comes from.

    ``age``: seconds for which it has been running; ``since``: when it was started, in seconds since
    1970; both None if not known. ``container``: the beginning of its id, "?" if only that there is
    one is known, "" for a process of the host itself. ``stop``: the command that stops the
    container, "" if not known.
    """
    age = _age(start_time(pid))
    process = os.path.join(root, "proc", str(pid))
    container, stop = _container(process)
    return {
        "age": age,
        "since": None if age is None else time.time() - age,
        "container": container,
        "stop": stop,
    }


def _age(start: str) -> Optional[float]:
    with contextlib.suppress(OSError, ValueError), open("/proc/uptime") as file:
        # Both count from the boot, so that a clock that was set changes nothing.
        return max(0.0, float(file.read().split()[0]) - int(start) / os.sysconf("SC_CLK_TCK"))
    return None


def _container(process: str) -> Tuple[str, str]:
    with contextlib.suppress(OSError), open(
        os.path.join(process, "cgroup"), encoding="utf-8", errors="replace"
    ) as file:
        groups = file.read()
        match = _CONTAINER.search(groups)
        if match:
            runtime = _RUNTIMES.get(match.group(1), "")
            stop = "%s stop %s" % (runtime, match.group(2)) if runtime else ""
            return match.group(2), stop and _as_owner(groups) + stop
    with contextlib.suppress(OSError), open(
        os.path.join(process, "status"), encoding="utf-8", errors="replace"
    ) as file:
        # Its ids from the outer to the inner PID namespace.
        ids = file.read().partition("\nNSpid:")[2].partition("\n")[0].split()
        return "?" if len(ids) > 1 else "", ""
    return "", ""


def _as_owner(groups: str) -> str:
    """What runs a command as the owner of a container: root, or a user without root's rights."""
    match = re.search(r"/user-(\d+)\.slice/", groups)
    if not match:
        return "sudo "
    try:
        return "sudo -iu %s " % pwd.getpwuid(int(match.group(1))).pw_name
    except KeyError:
        return 'sudo -iu "#%s" ' % match.group(1)


def rename_process(before: bytes, after: bytes) -> None:
    """Changes the last argument of this process in lists of processes: a copy has that of its
    parent. Both end with NUL, and have the same length.

    Source: proc_pid_stat(5), arg_end.
    """
    with open("/proc/self/stat", "rb") as file:
        end = int(file.read().rpartition(b")")[2].split()[46])
    memory = os.open("/proc/self/mem", os.O_RDWR)
    try:
        if os.pread(memory, len(before), end - len(before)) == before:
            os.pwrite(memory, after, end - len(before))
    finally:
        os.close(memory)
