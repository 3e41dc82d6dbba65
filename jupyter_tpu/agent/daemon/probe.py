"""Facts about the host."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import time

from ..protocol.chips import chips
from ..protocol.requests import HostProbe


def probe(version: str) -> HostProbe:
    """The answer of the daemon of this *version*."""
    disk = shutil.disk_usage(os.path.expanduser("~"))
    return {
        "hostname": socket.gethostname(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 0,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "memory": _memory(),
        "emulated": os.environ.get("JUPYTER_TPU_EMULATED") == "1",
        "chips": len(chips()),
        "home": os.path.expanduser("~"),
        "user": os.environ.get("USER", ""),
        "time": time.time(),
        "agent": version,
    }


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
