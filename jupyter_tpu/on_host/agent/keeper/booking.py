"""The chips that a kernel has booked on its host, until its keeper ends or is killed.

Each byte of one file stands for a chip. A kernel with chosen chips locks theirs; one that may use
all of them shares a lock of the whole file with others of its kind. So the operating system keeps
the record, for the daemons of all versions, and also after one was killed. Each user of the host
has a separate book.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import List, Optional


class ChipsBooked(Exception):
    """Another kernel has one of the chips."""


class Booking:
    """Chips of one kernel; held until `release`, or the end of this process.

    path: the file, made if it is missing. chips: their numbers; []: all, shared; None: none.
    Raises ChipsBooked.
    """

    def __init__(self, path: str, chips: Optional[List[int]]) -> None:
        self._file: Optional[int] = None
        if chips is None:
            return
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not chips:
                fcntl.lockf(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            for chip in chips:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, chip)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                self.release()
                raise ChipsBooked from None
            # A file system without locks: the daemon has looked before, and that is all there is.

    def release(self) -> None:
        """Gives the chips back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
