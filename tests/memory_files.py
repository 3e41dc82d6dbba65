"""Temporary files of the tests are in memory: an emulated host has thousands of them, SQLite waits
for the disk, and a disk that is told of each freed block (``discard``) takes 2 ms to remove one.

``TMPDIR`` is another folder for them; the disk is used where memory is short, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
#: Bytes that have to be free there. A whole run takes less than a gigabyte.
ENOUGH = 4 << 30


def use_memory() -> None:
    """For this process and those that it starts."""
    if "TMPDIR" not in os.environ and _is_usable():
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def _is_usable() -> bool:
    """Whether there is room, programs can be run from there, and hosts can lie there (overlayfs of
    an unprivileged user needs the attributes of files, which older kernels have on disks only).
    """
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=MEMORY) as file:
        os.setxattr(file.name, "user.tests", b"")
        memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(memory["MemAvailable"].removesuffix("kB")) << 10
        executable = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        return executable and min(available // 2, shutil.disk_usage(MEMORY).free) > ENOUGH
    return False
