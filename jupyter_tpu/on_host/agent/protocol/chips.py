"""This host's TPU chips: what is plugged in, their device files, and the processes that hold them.

A process holds a chip while it has the chip's device file open: /dev/accelN, or /dev/vfio/N, where
N is the number of an IOMMU group. libtpu also locks a file, unless it is limited to single chips.
The system drops that lock with the process, so a file that is left over does no harm, and it is
not looked at here. The descriptors of other users' processes can't be read, but their locks can.

*root* is the host's root folder.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from typing import Any, Dict, List, Set

#: A chip's device file.
CHIP = re.compile(r"/dev/(?:accel|vfio/)\d+")
#: The file that libtpu locks.
LOCK = "/tmp/libtpu_lockfile"
#: Characters of a command that are reported.
COMMAND_CHARACTERS = 80
#: The PCI vendor of TPU chips, and the generations by their PCI device. v2 and v3 have the same
#: one, and another subsystem. Source: jax/_src/hardware_utils.py (TPU 8t and 8i: of
#: JAX 0.12.0.1, with the names that its devices have), tpu_info/device.py.
GOOGLE = "0x1ae0"
GENERATIONS = {
    "0x005e": "v4",
    "0x0062": "v5p",
    "0x0063": "v5e",
    "0x006f": "v6e",
    "0x0076": "TPU7x",
    "0x007c": "TPU8t",
    "0x0083": "TPU8i",
}
SUBSYSTEMS = {"0x004e": "v2", "0x004f": "v3"}


def chips(root: str = "/") -> List[str]:
    """The generation of each chip on the PCI bus; "" of one that is not known.

    A TPU7x shows one function per core; those of one device count as one chip.
    """
    folder = os.path.join(root, "sys/bus/pci/devices")
    generations = {}
    with contextlib.suppress(OSError):
        for address in os.listdir(folder):
            device = os.path.join(folder, address)
            if _read(device, "vendor") == GOOGLE:
                number = _read(device, "device")
                generation = GENERATIONS.get(number, "")
                if number == "0x0027":
                    generation = SUBSYSTEMS.get(_read(device, "subsystem_device"), "")
                generations[address.rpartition(".")[0]] = generation
    return [generations[address] for address in sorted(generations)]


def chip_devices(root: str = "/") -> List[str]:
    """The device files of chips; [] on a host without any."""
    devices = []
    for folder in ("/dev", "/dev/vfio"):
        with contextlib.suppress(OSError):
            names = os.listdir(root.rstrip("/") + folder)
            devices += [os.path.join(folder, name) for name in names]
    return sorted(path for path in devices if CHIP.fullmatch(path))


def holders(root: str = "/") -> List[Dict[str, Any]]:
    """The processes that hold a chip: ``pid``, ``user``, ``command`` and ``devices``, by pid.

    ``devices`` is empty if only the lock is known.
    """
    if not chip_devices(root):
        return []
    proc = os.path.join(root, "proc")
    open_: Dict[int, Set[str]] = {pid: set() for pid in lock_holders(root) if pid}
    for name in filter(str.isdigit, os.listdir(proc)):
        for path in _open_files(os.path.join(proc, name)):
            if CHIP.fullmatch(path):
                open_.setdefault(int(name), set()).add(path)
    return [
        {
            "pid": pid,
            "user": _user(os.path.join(proc, str(pid))),
            "command": command_of(os.path.join(proc, str(pid))),
            "devices": sorted(open_[pid]),
        }
        for pid in sorted(open_)
    ]


def lock_holders(root: str = "/") -> List[int]:
    """The processes with libtpu's lock, from the system's table of locks; 0 for one that can't be
    seen from here.
    """
    try:
        there = os.stat(root.rstrip("/") + LOCK)
    except OSError:
        return []
    lines = [line.split() for line in _read(root, "proc/locks").splitlines()]
    device = "%02x:%02x" % (os.major(there.st_dev), os.minor(there.st_dev))
    file = "%s:%d" % (device, there.st_ino)
    # "1: POSIX ADVISORY WRITE 4242 fe:01:1234 0 EOF"; those that wait have "->" after the number.
    return [max(0, int(fields[4])) for fields in lines if len(fields) > 5 and fields[5] == file]


def _read(*path: str) -> str:
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _open_files(process: str) -> List[str]:
    files = []
    folder = os.path.join(process, "fd")
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        for descriptor in os.listdir(folder):
            with contextlib.suppress(OSError):
                files.append(os.readlink(os.path.join(folder, descriptor)))
    return files


def _user(process: str) -> str:
    try:
        return user_name(os.stat(process).st_uid)
    except OSError:
        return ""


def user_name(uid: int) -> str:
    """The name of a user; the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def command_of(process: str) -> str:
    """What the process with this folder in /proc runs, in a line; "" if it has ended."""
    try:
        with open(os.path.join(process, "cmdline"), "rb") as file:
            fields = file.read(4 * COMMAND_CHARACTERS).split(b"\0")
    except OSError:
        return ""
    # Only the last part of each path.
    text = " ".join(
        os.path.basename(word) if os.path.isabs(word) else word
        for word in (word.decode("utf-8", "replace") for word in fields)
        if word
    )
    text = " ".join(text.split())  # a program of several lines is one here
    return text if len(text) <= COMMAND_CHARACTERS else text[: COMMAND_CHARACTERS - 1] + "\u2026"
