"""What lies beside the database: the marks of running processes, and the versions of environments.

A process that runs operations locks a file of its own. The system drops the lock when the process
ends, for whatever reason. Pids are reused, and times would need a heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import time
import uuid
from pathlib import Path

import msgspec

from ...errors import Reason, TPUError
from ...local_files import try_lock, write_atomically
from ...paths import private_dir
from ..models import EnvironmentLock

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
                "Free disk space, or set JUPYTER_TPU_DATA_DIR to a folder on a local disk.",
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


log = logging.getLogger(__name__)


class Locks:
    """The locks in *folder*, which is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, lock: EnvironmentLock) -> None:
        """Replaces the one of that name. A disk that is full is only logged."""
        try:
            await asyncio.to_thread(self._write, lock)
        except OSError as error:
            log.warning("The versions of %s could not be saved: %s", lock.environment, error)

    async def find(self, environment: str, *, emulated: bool) -> EnvironmentLock | None:
        """The one of that name, from an emulated TPU or from a real one; None if there is none."""
        try:
            content = await asyncio.to_thread(self._path(environment, emulated).read_bytes)
            return msgspec.json.decode(content, type=EnvironmentLock)
        except (OSError, msgspec.DecodeError):
            return None

    def _write(self, lock: EnvironmentLock) -> None:
        path = self._path(lock.environment, lock.emulated)
        private_dir(self._folder)
        private_dir(path.parent)
        write_atomically(path, msgspec.json.encode(lock))

    def _path(self, environment: str, emulated: bool) -> Path:
        return self._folder / ("emulated" if emulated else "tpu") / f"{environment}.json"


#: Linux's names of file systems that several machines share.
_NETWORK = re.compile(
    r"(nfs4?|cifs|smb3|smbfs|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|orangefs|ocfs2|gfs2)$"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|rclone|juicefs)$"
)
MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The name of the network file system that *path* is on; "" for a local one, and where the
    system does not say.
    """
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return ""
    target = Path(os.path.realpath(path))
    kind, deepest = "", -1
    for line in lines:  # proc(5): "36 35 98:0 /root /mount/point options … - ext4 /dev/… …"
        before, _, after = line.partition(" - ")
        fields, named = before.split(" "), after.split(" ")
        if len(fields) < 5 or not named[0]:
            continue
        mount = Path(_unescape(fields[4]))
        # The later one of two mounts at one place is seen.
        if len(mount.parts) >= deepest and target.is_relative_to(mount):
            kind, deepest = named[0], len(mount.parts)
    return kind if _NETWORK.match(kind) else ""


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
