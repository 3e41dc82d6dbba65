"""Where a running kernel is written down, so that the next server finds it.

A folder (0700) per kernel: ``record.json``, the journal's files, what each client has read, and a
lock that its server holds. The system drops the lock when that server ends, however it ends; so a
kernel whose lock is free has no server, and no two servers ever take the same one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from ...files import write_atomically
from ...locks import try_lock
from ...paths import data_dir, private_dir


class SessionRow(Struct):
    """A row of Jupyter's sessions: a document and its kernel."""

    id: str
    path: str | None
    name: str | None
    type: str | None


class KernelRecord(Struct):
    """What it takes to find a kernel again. Has secrets: it is readable by its owner only."""

    id: str
    kernel_name: str  # the kernelspec, whose provisioner's config says on which host it runs
    root_dir: str  # of the server: the paths of sessions are relative to it
    key: str  # signs the kernel's messages
    secret: str  # of its lease
    cwd: str | None = None
    boot: str = ""  # which boot of its host it runs in
    steal: bool = False  # its lease is taken from whoever has it, once
    taken_once: bool = False  # what comes twice, its keeper hands on to the kernel once
    last_activity: str = ""  # RFC 3339
    info: str | None = None  # the content of its kernel_info_reply
    sessions: list[SessionRow] = []


def kernels_dir() -> Path:
    """The folder of all running kernels' folders."""
    return private_dir(data_dir() / "kernels")


class KernelFolder:
    """One kernel's folder, locked by this process. See :meth:`create` and :meth:`find_unowned`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, kernel_id: str) -> KernelFolder:
        """A new, empty one. Raises FileExistsError where another process has the kernel."""
        path = private_dir(kernels_dir() / kernel_id)
        folder = cls._lock_folder(path)
        if folder is None:
            raise FileExistsError(f"another process has kernel {kernel_id}")
        for left in path.iterdir():
            if left.name != "lock":
                left.unlink()
        return folder

    @classmethod
    def _lock_folder(cls, path: Path) -> KernelFolder | None:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if try_lock(lock):
            return cls(path, lock)
        os.close(lock)
        return None

    @classmethod
    def find_unowned(cls) -> list[tuple[KernelFolder, KernelRecord]]:
        """The kernels that no living process has, now locked by this one.

        A folder without a whole record is cleared away: its kernel never started, or nobody could
        find it anyway.
        """
        found = []
        parent = data_dir() / "kernels"
        for path in sorted(parent.iterdir()) if parent.is_dir() else ():
            folder = cls._lock_folder(path) if path.is_dir() else None
            if folder is None:
                continue
            record = folder.read()
            if record is None or record.id != path.name or not record.key:
                folder.remove()
            else:
                found.append((folder, record))
        return found

    def read(self) -> KernelRecord | None:
        try:
            return msgspec.json.decode((self.path / "record.json").read_bytes(), type=KernelRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, record: KernelRecord) -> None:
        """Whoever reads sees the old record or the new one whole."""
        write_atomically(self.path / "record.json", msgspec.json.encode(record))

    def release(self, *, forget_after: float | None = None) -> None:
        """Lets the next server have it, unless its record is older than *forget_after* seconds."""
        if forget_after is not None:
            with contextlib.suppress(OSError):
                if time.time() - (self.path / "record.json").stat().st_mtime > forget_after:
                    self.remove()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove(self) -> None:
        """The kernel is gone."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()
