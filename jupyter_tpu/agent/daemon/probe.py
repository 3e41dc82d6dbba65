"""Facts about the host."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from typing import Any, Dict

#: The PCI vendor of TPU chips.
GOOGLE = "0x1ae0"


def probe() -> Dict[str, Any]:
    """The result of ``request("probe")``; sizes in bytes."""
    disk = shutil.disk_usage(os.path.expanduser("~"))
    return {
        "hostname": socket.gethostname(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 0,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "memory": _memory(),
        "emulated": os.environ.get("JUPYTER_TPU_EMULATED") == "1",
        "chips": _chips(),
        "home": os.path.expanduser("~"),
        "user": os.environ.get("USER", ""),
    }


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0


def _chips() -> int:
    """TPU chips on the PCI bus; a TPU7x shows one function per core, of which .0 is the chip."""
    devices, chips = "/sys/bus/pci/devices", set()
    try:
        names = os.listdir(devices)
    except OSError:
        return 0
    for name in names:
        try:
            with open(os.path.join(devices, name, "vendor")) as vendor:
                if vendor.read().strip() == GOOGLE:
                    chips.add(name.rpartition(".")[0])
        except OSError:
            continue
    return len(chips)
