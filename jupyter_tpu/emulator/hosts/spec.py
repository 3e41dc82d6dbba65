"""The description of one emulated host."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

_HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")
USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


class HostSpec(Struct, frozen=True, kw_only=True):
    """One host of a TPU, as the emulator wants it.

    Parameters
    ----------
    node_id: the TPU's number, for files and messages.
    worker: this host's number from 0.
    hostname: as on a TPU VM, ``t1v-n-XXXXXXXX-w-0``.
    address: the loopback address that sshd listens on.
    internal: another one, by which the other hosts of the TPU reach it; the same if empty.
    environment: variables that every session gets; one line each, no control characters.
        Existing files and folders that they name (certificates, wheel folders) are shown in the
        host, read-only, where they would be hidden otherwise.
    peers: (hostname, address) of all hosts of the TPU; goes to /etc/hosts.
    folder: where this host's files are kept; made if missing, removed by ``Runtime.destroy``.
    without_python_tools: python3 has no venv, ensurepip or pip, and there is no other Python.
    without_python: there is no Python at all.
    without_docker: there is no Docker, as in the images of Compute Engine.
    disk_limit_mb: the size in MiB of /home, which is then in memory and lost at a stop.
    devices: files in /dev that stand for chips: they can be opened, and nothing is behind them.
    startup_script: the text of a program that root runs at each boot; "" for none.
    """

    node_id: str
    worker: int
    hostname: str
    address: str
    environment: dict[str, str]
    folder: Path
    internal: str = ""
    peers: tuple[tuple[str, str], ...] = ()
    without_python_tools: bool = False
    without_python: bool = False
    without_docker: bool = False
    disk_limit_mb: int | None = None
    devices: tuple[str, ...] = ()
    startup_script: str = ""

    def __post_init__(self) -> None:
        if not _HOSTNAME.fullmatch(self.hostname):
            raise ValueError(f"{self.hostname!r} is not a host name")
        if not self.folder.is_absolute():
            raise ValueError(f"the folder of a host must be absolute, not {self.folder}")
