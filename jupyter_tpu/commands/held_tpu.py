"""What this process holds of a TPU for one script: the plan that it carries out, and the TPU.

Both are locked files, so that the next process sees which are of one that was killed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..terminal.session import tpu_ref

if TYPE_CHECKING:
    from ..fleet.models import TPU


class Wish:
    """A plan that this process carries out, noted before: an unlocked note is of a process that
    was killed.
    """

    def __init__(self, plan: str) -> None:
        self.plan = plan
        self._path = folder() / f"{plan}.plan"
        lock = lock_file(self._path)
        assert lock is not None  # plans have random ids
        self._lock = lock

    def fulfil(self) -> None:
        """Nothing is left that the next process would have to delete."""
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._lock)


class HeldTPU:
    """A TPU that this process uses alone, until it is released. wish: None for one that was kept.
    spent: USD, what it had cost before.
    """

    def __init__(self, tpu: TPU, lock: int, wish: Wish | None = None, spent: float = 0.0) -> None:
        self.tpu = tpu
        self.ref = tpu_ref(tpu)
        self.spent = spent
        self._lock = lock
        self._wish = wish

    def unlock(self, *, settled: bool = True) -> None:
        """It is deleted, or left to its guard; not *settled*: the next command deletes it."""
        with contextlib.suppress(OSError):
            os.close(self._lock)
        if self._wish is not None:
            self._wish.fulfil() if settled else self._wish.close()


def folder() -> Path:
    from ..paths import data_dir, private_dir

    return private_dir(data_dir() / "once")


def lock_file(path: Path) -> int | None:
    """The descriptor of a locked file, made if needed; None if another process has the lock."""
    from .. import local_files

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if local_files.try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def try_lock(tpu: TPU) -> int | None:
    """A lock on the TPU for the processes of this computer; None if another one has it."""
    return lock_file(folder() / f"{tpu.zone}-{tpu.name}.lock")
