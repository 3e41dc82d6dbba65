"""A lock on an open file that the system drops when the process ends, however it ends."""

from __future__ import annotations

import fcntl


def try_lock(descriptor: int) -> bool:
    """Takes the lock without waiting; False: another process (or descriptor) has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
