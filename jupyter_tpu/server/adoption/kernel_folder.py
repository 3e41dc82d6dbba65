"""The folder from which the next server adopts a running kernel.

A folder (0700) per kernel: its record and a copy of it, the journal's files, how far each client
has read, and a lock that its server holds. The system releases the lock when that server ends,
however it ends. So a kernel whose lock is free has no server, and two servers never adopt the same
kernel.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from ...local_files import try_lock, write_atomically
from ...paths import data_dir, private_dir
from .client_positions import seal, unseal

log = logging.getLogger(__name__)

#: Seconds for which a folder is kept whose kernel cannot be adopted.
FORGET_AFTER = 14 * 24 * 3600.0
#: Seconds after its last message for which a kernel counts as recent: a tab may still show it.
RECENT_SECONDS = 3600.0
#: The record's files. The copy is used if the record is damaged or lost.
RECORD, COPY = "record.json", "record.copy.json"


class SessionRow(Struct):
    """A row of Jupyter's sessions: a document and its kernel."""

    id: str
    path: str | None
    name: str | None
    type: str | None


class KernelRecord(Struct):
    """What a server needs to adopt a kernel. Contains secrets; only its owner can read it."""

    id: str
    kernel_name: str  # the kernelspec, whose provisioner's config says on which host it runs
    root_dir: str  # of the server: the paths of sessions are relative to it
    key: str  # signs the kernel's messages
    secret: str  # for its lease
    cwd: str | None = None
    folder_named: bool = False  # cwd, by its client
    boot: str = ""  # which boot of its host it runs in
    launched: int = 0  # the journal's record at which it was launched
    steal: bool = False  # take its lease from any other client, once
    taken_once: bool = False  # its keeper drops repeated messages
    last_activity: str = ""  # RFC 3339
    info: str | None = None  # the content of its kernel_info_reply
    sessions: list[SessionRow] = []

    def saved_date(self) -> float | None:
        """When its documents were saved, all of them, in seconds since 1970; None: it has none."""
        # A drive of the browser's, such as RTC:, is not part of a path.
        paths = [re.sub(r"^\w+:", "", row.path) for row in self.sessions if row.path]
        dates = []
        for path in paths:
            with contextlib.suppress(OSError):
                dates.append(os.stat(os.path.join(self.root_dir, path)).st_mtime)
        return min(dates, default=None)


def kernels_dir() -> Path:
    """The parent of all kernels' folders."""
    return private_dir(data_dir() / "kernels")


class KernelFolder:
    """One kernel's folder, locked by this process. See :meth:`create` and :meth:`find_unowned`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, kernel_id: str) -> KernelFolder:
        """A new, empty folder. Raises FileExistsError if another process has the kernel, and
        ValueError for an id that is not the name of a file.
        """
        if kernel_id in ("", ".", "..") or os.path.basename(kernel_id) != kernel_id:
            raise ValueError(f"{kernel_id!r} is not a kernel's id")
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
    def find_unowned(cls, root_dir: str) -> list[tuple[KernelFolder, KernelRecord | None]]:
        """The kernels of *root_dir* that no living process has, now locked by this one.

        The record is None if it is damaged. Folders of other servers are not touched: those servers
        may be starting, too. A folder without a record is removed, because its kernel was never
        started.
        """
        unowned = []
        parent = data_dir() / "kernels"
        for path in sorted(parent.iterdir()) if parent.is_dir() else ():
            try:
                if not path.is_dir() or _belongs_elsewhere(path, root_dir):
                    continue
                folder = cls._lock_folder(path)
            except OSError as error:
                log.warning("The folder of kernel %s cannot be used: %s", path.name, error)
                continue
            if folder is not None:
                unowned += folder._read()
        return unowned

    def _read(self) -> list[tuple[KernelFolder, KernelRecord | None]]:
        """Itself and its record; [] if it was removed."""
        try:
            record = _read(self.path)
        except (OSError, ValueError) as error:
            log.warning("The record of kernel %s is damaged: %s", self.path.name, error)
            return self._keep_damaged()
        if record is None and self.has_journal():
            log.warning("The record of kernel %s is lost", self.path.name)
            return self._keep_damaged()
        if record is None or not record.key:
            self.remove()
            return []
        return [(self, record)]

    def _keep_damaged(self) -> list[tuple[KernelFolder, KernelRecord | None]]:
        if self._is_old():
            self.remove()
            return []
        return [(self, None)]

    def write(self, record: KernelRecord) -> None:
        """Readers see the old record or the new one. A power cut loses neither."""
        content = seal(msgspec.json.encode(record))
        write_atomically(self.path / RECORD, content, durable=True)
        try:
            write_atomically(self.path / COPY, content)  # not durable: one of the two has to be
        except OSError:  # a full disk
            (self.path / COPY).unlink(missing_ok=True)  # it is an older record

    def has_journal(self) -> bool:
        """Whether anything was stored of its kernel's messages."""
        return any(file.stat().st_size for file in self.path.glob("journal-*"))

    def release_unusable(self) -> None:
        """For a kernel that cannot be adopted: keeps the folder, but removes an old one."""
        if self._is_old():
            self.remove()
        else:
            self.release()

    def _is_old(self) -> bool:
        for name in (RECORD, COPY, "cursors.json"):
            try:
                return time.time() - (self.path / name).stat().st_mtime > FORGET_AFTER
            except OSError:
                pass
        return False

    def is_recent(self) -> bool:
        """Whether its kernel may still be open in a tab."""
        changed = (file.stat().st_mtime for file in self.path.glob("journal-*"))
        return time.time() - max(changed, default=0.0) < RECENT_SECONDS

    def release(self) -> None:
        """Lets the next server adopt the kernel."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove(self) -> None:
        """Deletes the folder: the kernel is gone."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()


def _read(path: Path) -> KernelRecord | None:
    """The record in a folder, or its copy; None if there is neither.

    Raises OSError, ValueError if both are damaged.
    """
    problem: OSError | ValueError | None = None
    for name in RECORD, COPY:
        try:
            record = msgspec.json.decode(unseal((path / name).read_bytes()), type=KernelRecord)
            if record.id != path.name:
                raise ValueError("it is the record of another kernel")
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            problem = problem or error
            continue
        if problem is not None:
            log.warning("The record of kernel %s is damaged, not its copy: %s", path.name, problem)
        return record
    if problem is not None:
        raise problem
    return None


def _belongs_elsewhere(path: Path, root_dir: str) -> bool:
    """Whether it is the folder of a server with another root folder."""
    try:
        record = _read(path)
    except (OSError, ValueError):
        return False
    return record is not None and record.root_dir != root_dir
