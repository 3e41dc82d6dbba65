"""The processes that hold this host's TPU chips, from /proc.

A process holds a chip while it has the chip's device file open: /dev/accelN, or /dev/vfio/N, where
N is the number of an IOMMU group. libtpu also locks a file, unless it is limited to single chips.
The system drops that lock with the process, so a file that is left over does no harm, and it is
never deleted here. The descriptors of other users' processes can't be read, but their locks can.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from typing import Any, Dict, List, Set

from ..keeper.exit_cause import CHIP, chip_devices

#: The file that libtpu locks.
LOCK = "/tmp/libtpu_lockfile"
#: Characters of a command that are reported.
COMMAND = 80


def holders() -> List[Dict[str, Any]]:
    """The processes that hold a chip: ``pid``, ``user``, ``command`` and ``devices``, by pid.

    ``devices`` is empty if only the lock is known.
    """
    if not chip_devices():
        return []
    open_: Dict[int, Set[str]] = {pid: set() for pid in _lock_holders()}
    for name in filter(str.isdigit, os.listdir("/proc")):
        for path in _open_files(name):
            if CHIP.fullmatch(path):
                open_.setdefault(int(name), set()).add(path)
    return [
        {
            "pid": pid,
            "user": _user(pid),
            "command": _command(pid),
            "devices": sorted(open_[pid]),
        }
        for pid in sorted(open_)
    ]


def _open_files(pid: str) -> List[str]:
    found = []
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        for descriptor in os.listdir("/proc/%s/fd" % pid):
            with contextlib.suppress(OSError):
                found.append(os.readlink("/proc/%s/fd/%s" % (pid, descriptor)))
    return found


def _lock_holders() -> List[int]:
    """The processes with libtpu's lock, from the system's table of locks."""
    try:
        there = os.stat(LOCK)
        with open("/proc/locks") as table:
            lines = [line.split() for line in table]
    except OSError:
        return []
    device = "%02x:%02x" % (os.major(there.st_dev), os.minor(there.st_dev))
    file = "%s:%d" % (device, there.st_ino)
    # "1: POSIX ADVISORY WRITE 4242 fe:01:1234 0 EOF"; those that wait have "->" after the number.
    return [int(fields[4]) for fields in lines if len(fields) > 5 and fields[5] == file]


def _user(pid: int) -> str:
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _command(pid: int) -> str:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            fields = file.read(4 * COMMAND).split(b"\0")
    except OSError:
        return ""
    # Only the last part of each path.
    text = " ".join(
        os.path.basename(word) if os.path.isabs(word) else word
        for word in (os.fsdecode(word) for word in fields)
        if word
    )
    return text if len(text) <= COMMAND else text[: COMMAND - 1] + "\u2026"
