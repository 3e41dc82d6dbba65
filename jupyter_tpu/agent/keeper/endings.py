"""Records of kernels that ended before a client got their last messages: why they ended, and when.

There is one file per kernel, next to the kernels' folders. So a client that connects later can show
the right reason.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict

from ..protocol.json_file import read_json, write_json

#: Why the messages are gone: the kernel's end was requested, no one came in time, or newer ones
#: needed the room.
ASKED, EXPIRED, ROOM = "asked", "expired", "room"
#: Seconds for which the files are kept, and how many.
KEPT, MOST = 90 * 24 * 3600.0, 200
_SUFFIX = ".ended"


def write_ending(folder: str, record: Dict[str, Any]) -> None:
    """Stores *record* for the kernel of *folder*; not on a full disk, for example."""
    path = _path(folder)
    with contextlib.suppress(OSError):
        write_json(path, record)  # in a folder that only its owner can enter
        _forget_old(os.path.dirname(path))


def read_ending(folder: str) -> Any:
    """The record of the kernel of *folder*; None if there is none."""
    return read_json(_path(folder))


def forget_ending(folder: str) -> None:
    """A new kernel starts in *folder*."""
    with contextlib.suppress(OSError):
        os.unlink(_path(folder))


def _path(folder: str) -> str:
    # Another prefix than that of kernels' folders.
    run, name = os.path.split(folder.rstrip("/"))
    return os.path.join(run, "e" + name[1:] + _SUFFIX)


def _forget_old(run: str) -> None:
    paths = [os.path.join(run, name) for name in os.listdir(run) if name.endswith(_SUFFIX)]
    ages = sorted((time.time() - os.stat(path).st_mtime, path) for path in paths)
    for number, (age, path) in enumerate(ages):
        if age > KEPT or number >= MOST:
            os.unlink(path)
