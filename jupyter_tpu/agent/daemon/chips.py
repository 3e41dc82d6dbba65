"""Who holds this host's TPU chips, as /proc tells.

A process has a chip while it has the chip's device file open: /dev/accelN, or /dev/vfio/N, where N
is the number of an IOMMU group. libtpu locks a file besides, unless it was told of single chips.
The system drops that lock with the process, however it ends, so a file that is left over blocks
nobody; deleting it under a living holder would only let another process in as far as the device.
It is looked at, never touched. Of other users' processes the descriptors can't be read; there the
lock is what tells.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from typing import Any, Dict, List, Set

#: What libtpu locks.
LOCK = "/tmp/libtpu_lockfile"
#: Characters of a command that are told.
COMMAND = 80

_DEVICE = re.compile(r"/dev/(?:accel|vfio/)\d+")


def devices() -> List[str]:
    """The device files of chips; [] on a host without any."""
    found = []
    for folder in ("/dev", "/dev/vfio"):
        with contextlib.suppress(OSError):
            found += [os.path.join(folder, name) for name in os.listdir(folder)]
    return sorted(path for path in found if _DEVICE.fullmatch(path))


def holders() -> List[Dict[str, Any]]:
    """The processes that hold a chip: ``pid``, ``user``, ``command`` and ``devices``, by pid.

    ``devices`` is empty where only the lock is known.
    """
    if not devices():
        return []
    open_: Dict[int, Set[str]] = {pid: set() for pid in _lockers()}
    for name in filter(str.isdigit, os.listdir("/proc")):
        for path in _open_files(name):
            if _DEVICE.fullmatch(path):
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
    with contextlib.suppress(OSError):  # it ended, or is another user's
        for descriptor in os.listdir("/proc/%s/fd" % pid):
            with contextlib.suppress(OSError):
                found.append(os.readlink("/proc/%s/fd/%s" % (pid, descriptor)))
    return found


def _lockers() -> List[int]:
    """Who has libtpu's lock: the system's table names each lock's file and process."""
    try:
        there = os.stat(LOCK)
        with open("/proc/locks") as table:
            lines = [line.split() for line in table]
    except OSError:
        return []
    device = "%02x:%02x" % (os.major(there.st_dev), os.minor(there.st_dev))
    file = "%s:%d" % (device, there.st_ino)
    # "1: POSIX ADVISORY WRITE 4242 fe:01:1234 0 EOF"; those that wait have "->" after the number.
    return [int(words[4]) for words in lines if len(words) > 5 and words[5] == file]


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
            words = file.read(4 * COMMAND).split(b"\0")
    except OSError:
        return ""
    # Of paths the last part: what people call a program by.
    text = " ".join(
        os.path.basename(word) if os.path.isabs(word) else word
        for word in (os.fsdecode(word) for word in words)
        if word
    )
    return text if len(text) <= COMMAND else text[: COMMAND - 1] + "\u2026"
