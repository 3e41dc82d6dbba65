"""Files: written so that readers see the old content or the new content, never a part of it;
locked; and read as people have them, with a byte order mark or line ends of Windows.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
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


#: What a file may begin with; PowerShell's ``>`` writes UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def decode_text(data: bytes, errors: str = "strict") -> str:
    """The text without its byte order mark, which decides how it is read; else it is UTF-8.

    Raises UnicodeDecodeError.
    """
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors)
    return data.decode("utf-8", errors)


def read_text(path: Path) -> str:
    """The text of a file, whose lines end in a newline. Raises OSError, UnicodeDecodeError."""
    return re.sub(r"\r\n?", "\n", decode_text(path.read_bytes()))
