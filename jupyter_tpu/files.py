"""Writing a file so that its readers see the old content or the new content, never a part of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(
    path: Path,
    content: bytes | str,
    *,
    mode: int = 0o600,
    overwrite: bool = True,
    durable: bool = False,
) -> bool:
    """Replaces *path* in one step; a failure leaves it as it was. The folder must exist.

    Parameters
    ----------
    content: text is written as UTF-8, with its line ends as they are.
    mode: the file's permissions, whatever the umask.
    overwrite: False: a file that is there already stays.
    durable: waits until the content is on the disk, so that a power cut cannot lose it.

    Returns
    -------
    False where a file was there and stays, True where *content* was written. Raises OSError.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, mode)
        if not overwrite:
            return _link(temporary, path)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has become *path*
            os.unlink(temporary)
    return True


def _link(temporary: str, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        os.replace(temporary, path)
    return True


def try_lock(descriptor: int) -> bool:
    """Locks without waiting; False if another process (or descriptor) has the lock."""
    import fcntl  # Windows, where jaxkit runs, too, does not have it

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
