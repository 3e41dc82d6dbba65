"""A lock on an open file, which the system releases when the process ends for any reason."""

from __future__ import annotations

import fcntl


def try_lock(descriptor: int) -> bool:
    """Locks without waiting; False if another process (or descriptor) has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
