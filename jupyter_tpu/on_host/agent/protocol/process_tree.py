"""The processes that a process has started, and signals to them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import Dict, Iterable, List

#: Seconds for sudo, which may look for the host's name.
SUDO_SECONDS = 5.0


def descendants(pid: int) -> List[int]:
    """The live descendants of *pid*, parents first; [] if there is no /proc."""
    children: Dict[int, List[int]] = {}
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(name))
    pids: List[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        pids += below
        queue += below
    return pids


def signal_tree(leader: int, number: int) -> bool:
    """As :func:`send_signal`, to the process group of *leader*, and to those of its descendants
    that have left that.
    """
    targets = [-leader]
    for pid in descendants(leader):
        with contextlib.suppress(OSError):
            if os.getpgid(pid) != leader:
                targets.append(pid)
    return send_signal(targets, number)


def send_signal(targets: Iterable[int], number: int) -> bool:
    """Sends a signal to living processes and, with a minus before their numbers, process groups.

    Those of another user, as ``sudo`` starts them, get it by sudo if that asks for no password.
    Returns False if one did not get it.
    """
    others = []
    for target in targets:
        try:
            os.kill(target, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            others.append(str(target))
    if not others:
        return True
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["sudo", "-n", "kill", "-%d" % number, "--", *others],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=SUDO_SECONDS,
        )
        return done.returncode == 0
    return False
