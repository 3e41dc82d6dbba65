"""Which process an operation belongs to, and whether that process still runs.

A process that runs operations locks a file of its own. The system drops the lock when the process
ends, for whatever reason. Pids are reused, and times would need a heartbeat.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from pathlib import Path

from ...errors import Reason, TPUError
from ...files import try_lock
from ...paths import private_dir

#: The files of ended processes are removed after this time; seconds.
LEFT_OVER = 24 * 3600.0


class ProcessLease:
    """The mark of this process; *folder* holds a file per running process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.id = uuid.uuid4().hex[:16]
        try:
            private_dir(folder)
            self._file = os.open(self._path(self.id), os.O_RDWR | os.O_CREAT, 0o600)
            if not try_lock(self._file):  # no other process knows this name
                raise OSError("it is locked")
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise TPUError(
                f"Can't lock a file in {folder}: {error}.",
                Reason.DISK_FULL if full else Reason.INTERNAL,
                "Make room on the disk, or set JUPYTER_TPU_DATA_DIR to a folder on a local disk.",
            ) from error
        self._sweep()

    def alive(self, owner: str) -> bool:
        """Whether the process that had this id still runs; removes its file if not."""
        if owner == self.id:
            return True
        path = self._path(owner)
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            if not try_lock(descriptor):
                return True
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        os.close(self._file)
        self._path(self.id).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Removes the files of killed processes; old ones only: a new one may not be locked yet."""
        before = time.time() - LEFT_OVER
        for path in self._folder.glob("*.lock"):
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                if path.stat().st_mtime < before:
                    self.alive(path.stem)

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"
