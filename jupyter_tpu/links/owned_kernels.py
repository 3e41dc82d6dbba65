"""Kernels on hosts that must not outlive a process of this machine, however it ends.

While a process owns a kernel, a file says which one, and on which host. The file is locked, and the
system releases the lock when the process ends. So a file without a lock is an orphan's. The next
process of this machine that speaks to the agent of that host ends the orphan. Nothing is ended by a
clock: a process that sleeps with its laptop keeps its lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from ..errors import TPUError
from ..local_files import try_lock
from ..on_host.agent.protocol.requests import EndKernelRequest
from ..paths import data_dir, private_dir

if TYPE_CHECKING:
    from ..ssh.agent_client import DaemonClient

log = logging.getLogger(__name__)

#: Seconds for which an orphan's file is kept if its host is never reached again.
FORGET_AFTER = 90 * 24 * 3600.0


class _Record(Struct):
    host_id: str = field(name="place")  # see `Link.host_id`
    kernel: str  # its id
    secret: str  # of its lease: an orphan that another client has taken over is not ended


class OwnedKernel:
    """A kernel that this process owns. Made by :func:`register_owned`."""

    def __init__(self, path: Path, lock: int) -> None:
        self._path = path
        self._lock = lock
        _owned.add(self)

    def close(self, *, ended: bool) -> None:
        """This process is done with it. *ended*: nothing is left on the host to be ended."""
        if self._lock >= 0:
            if ended:
                _remove(self._path, self._lock)
            self._release()

    def _release(self) -> None:
        os.close(self._lock)
        self._lock = -1
        _owned.discard(self)


def _leave_to_parent() -> None:
    """In a fork: with its copies of the locks, the kernels would not be orphans before its end."""
    for kernel in list(_owned):
        kernel._release()


_owned: set[OwnedKernel] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def register_owned(host_id: str, kernel: str, secret: str) -> OwnedKernel | None:
    """From now on *kernel* is ended if this process is gone; None if that can't be stored."""
    record = msgspec.json.encode(_Record(host_id, kernel, secret))
    path = _folder() / f"{hashlib.sha256(kernel.encode()).hexdigest()[:16]}.json"
    try:
        # Locked before it has its name: no one can take it for an orphan's.
        lock, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            try_lock(lock)
            os.write(lock, record)
            os.rename(temporary, path)
        except OSError:
            os.close(lock)
            os.unlink(temporary)
            raise
    except OSError as error:
        log.warning("Kernel %s will not end if this process is killed: %s", kernel, error)
        return None
    return OwnedKernel(path, lock)


async def end_orphans(agent: DaemonClient, host_id: str) -> None:
    """Ends the kernels of a host whose owners are gone. The next call tries again what failed."""
    for path, lock, record in _orphans(host_id):
        try:
            end = EndKernelRequest(id=record.kernel, now=True, secret=record.secret)
            await agent.request(end)
            log.info("Ended kernel %s, because the program that started it is gone", record.kernel)
            _remove(path, lock)
        except TPUError as error:
            log.info("Kernel %s has not ended yet: %s", record.kernel, error.message)
        finally:
            os.close(lock)


def _orphans(host_id: str) -> Iterator[tuple[Path, int, _Record]]:
    """The orphans of a host, each with its lock, which the caller closes."""
    for path in sorted(_folder().glob("*.json")):
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDWR)
            try:
                if not try_lock(lock):
                    continue
                record = _read(lock)
                if record is not None and record.host_id == host_id:
                    yield path, os.dup(lock), record
                elif record is None or os.fstat(lock).st_mtime < time.time() - FORGET_AFTER:
                    _remove(path, lock)
            finally:
                os.close(lock)


def _read(descriptor: int) -> _Record | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 1 << 16, 0), type=_Record)
    except msgspec.DecodeError:
        return None  # the disk was full, or the power was cut


def _remove(path: Path, lock: int) -> None:
    """Deletes the file, unless a new one has its name."""
    with contextlib.suppress(OSError):
        if os.fstat(lock).st_ino == path.stat().st_ino:
            path.unlink()


def _folder() -> Path:
    return private_dir(data_dir() / "owned-kernels")
