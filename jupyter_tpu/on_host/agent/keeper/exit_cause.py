"""Why a kernel or a job ended, in words: its exit code or signal, and what happened then; and
records of kernels that ended before a client got their last messages.

A process that the system kills to free memory gets the same signal as from `kill -9`. Only the
system's count of such kills tells the difference.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from typing import Any, Dict, Sequence

from ..protocol.chips import chip_devices
from ..protocol.json_file import read_json, write_json

#: The system's counters.
COUNTERS = "/proc/vmstat"
#: A kernel ended at the same time as another process if it ended within so many checks.
_SAME_TIME_CHECKS = 3


class HostWatch:
    """Notices what can end a kernel from outside: a lack of memory, and chips that disappear.

    what: what it is called in sentences.
    """

    def __init__(self, what: str = "kernel") -> None:
        self._what = what
        self._chips = chip_devices()
        self._kills = [_kills()]

    def check(self) -> None:
        """Call it about once a second while the kernel runs."""
        self._kills = [*self._kills, _kills()][-_SAME_TIME_CHECKS:]

    def describe(self, code: int) -> str:
        """One or two sentences about a kernel that has ended just now with *code*."""
        text = describe_exit(code, self._what)
        if code == -signal.SIGKILL and _kills() > self._kills[0]:
            text += " At that moment the host killed a process because memory ran out."
        missing = sorted(set(self._chips) - set(chip_devices()))
        if missing:
            text += " The host has lost TPU chips: %s." % ", ".join(missing)
        return text


def describe_exit(code: int, what: str = "kernel") -> str:
    """The end of a kernel as a sentence; *code* as in subprocess."""
    if code >= 0:
        return "The %s exited with code %d." % (what, code)
    try:
        name = " (%s)" % signal.Signals(-code).name
    except ValueError:
        name = ""
    return "The %s was ended by signal %d%s." % (what, -code, name)


#: What JAX says when it ends a process because of another one, and which one has fallen silent.
#: Seen: JAX 0.12.0.1.
_ENDED_BY_JAX = "JAX distributed service detected fatal errors"
_SILENT_TASK = re.compile(r"stopped sending heartbeats\):\s+(\d+)|Task (\d+) heartbeat timeout")


def explain_jax(lines: Sequence[str]) -> str:
    """A sentence about a process that JAX has ended, by its last *lines*; "" about another one."""
    text = "\n".join(lines)
    if _ENDED_BY_JAX not in text:
        return ""
    silent = _SILENT_TASK.search(text)
    if not silent:
        return "JAX ended it, because another process of jax.distributed has failed."
    return (
        "JAX ended it, because process %s of jax.distributed sent no heartbeat for 100 s, or for "
        "the program's heartbeat_timeout_seconds. That process has ended or is suspended, or its "
        "host can't be reached." % (silent.group(1) or silent.group(2))
    )


def _kills() -> int:
    """How many processes the system has killed for lack of memory since it was started."""
    with contextlib.suppress(OSError, ValueError), open(COUNTERS) as file:
        for line in file:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


#: Why the messages are gone: the kernel's end was requested, no one came in time, or newer ones
#: needed the disk space.
ASKED, EXPIRED, DISK_SPACE = "asked", "expired", "room"
#: Seconds for which the files are kept, and how many.
KEPT_SECONDS, MOST_FILES = 90 * 24 * 3600.0, 200
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
        if age > KEPT_SECONDS or number >= MOST_FILES:
            os.unlink(path)
