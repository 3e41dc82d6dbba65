"""The mirrors of this process: one for each host and project, however many kernels use it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import TPUError
from ...paths import data_dir
from ...per_process import per_process
from ...subscribers import Subscribers
from .bases import Bases, Stored
from .local import LocalProject
from .location import ProjectLocation
from .mirror import HOLD_SECONDS, LIMITS, LONGEST_HOLD, Mirror
from .mirror_news import LineHistory, MirrorNews
from .outcome import MirrorHost


class Mirrors:
    """Lives on the core loop. folder: where it keeps what was copied, as `Bases`."""

    def __init__(self, folder: Path) -> None:
        self._bases = Bases(folder)
        self._used: dict[tuple[str, Path], tuple[Mirror, MirrorNews]] = {}
        self._users: dict[Mirror, int] = {}
        self._subscribers = Subscribers[Mirror]()

    def acquire(self, host: MirrorHost, location: ProjectLocation) -> tuple[Mirror, MirrorNews]:
        """The mirror of a project on a host, which runs until :meth:`release`."""
        key = (host.host_id, location.folder)
        if key not in self._used:
            remote = remote_folder(self._bases, host.host_id, location.folder)
            mirror = Mirror(host, location.folder, remote, self._bases, self._changed, self._others)
            self._used[key] = mirror, MirrorNews(mirror, self._bases)
        mirror, news = self._used[key]
        self._users[mirror] = self._users.get(mirror, 0) + 1
        return mirror, news

    async def release(self, mirror: Mirror) -> None:
        """Ends one :meth:`acquire`; with the last one the mirror ends."""
        self._users[mirror] -= 1
        if not self._users[mirror]:
            del self._users[mirror]
            del self._used[mirror.host.host_id, mirror.folder]
            await mirror.close()
            self._changed(mirror)
            for other in self._users:  # one of them may have more hosts now
                if other.folder == mirror.folder:
                    other.recheck()

    def check_size(self, folder: Path) -> None:
        """Raises INVALID if *folder* is more than is copied without being asked for. Blocks."""
        LocalProject(folder, self._bases, LIMITS).find()

    def history(self, *key: str) -> LineHistory:
        return LineHistory(self._bases, *key)

    def running(self) -> list[Mirror]:
        return list(self._users)

    def recheck(self, folder: str) -> None:
        """Someone else has copied the project *folder*, or parts of it."""
        for mirror in self._users:
            if str(mirror.folder) == folder:
                mirror.recheck()

    async def catch_up(self, host_id: str) -> None:
        """Waits until the projects on a TPU are there as they are here, or nothing of them arrives
        for `HOLD_SECONDS` seconds; at most `LONGEST_HOLD`.

        host_id: of one of its hosts.
        """
        waiting = [
            mirror.catch_up(HOLD_SECONDS, everywhere=True, progressing=True)
            for mirror in self._users
            if tpu_id(mirror.host.host_id) == tpu_id(host_id)
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_HOLD):
                await asyncio.gather(*waiting)

    def subscribe(self, callback: Callable[[Mirror], None]) -> Callable[[], None]:
        """Calls *callback* when a mirror has changed. Returns a function that ends this."""
        return self._subscribers.add(callback)

    def _changed(self, mirror: Mirror) -> None:
        for callback in self._subscribers:
            callback(mirror)

    def _others(self, mirror: Mirror) -> Sequence[MirrorHost]:
        """The hosts that *mirror* serves in addition to its own: those of the TPU that have no
        kernel with this project, if it is the first of these mirrors.
        """
        tpu = tpu_id(mirror.host.host_id)
        same = [
            user
            for user in self._users
            if user.folder == mirror.folder and tpu_id(user.host.host_id) == tpu
        ]
        served = {mirror.host.host.number for mirror in same}
        if mirror.host.host.number != min(served, default=None):
            return ()
        return [host for host in mirror.host.others() if host.host.number not in served]


def default_mirrors() -> Mirrors:
    """The process's own, which continue what syncs by hand have done. Call it on the core loop."""
    return _mirrors(data_dir() / "sync")


_mirrors = per_process(Mirrors)


class FolderOwner(Stored):
    """The project folder here that a folder of a TPU's hosts was first used for."""

    file_name = "owner"
    folder: str = ""


def remote_folder(bases: Bases, host_id: str, folder: Path, *, claim: bool = True) -> str:
    """``~/NAME`` on all hosts of a TPU; one of its own if another project that is still here has
    it.

    host_id: of one of its hosts, as a link says it. claim: whether the project has it from now on.
    """
    remote = f"~/{folder.name}"
    key = (tpu_id(host_id), remote)
    owner = bases.load(FolderOwner, *key).folder
    if owner and owner != str(folder) and Path(owner).is_dir():
        digest = hashlib.blake2b(str(folder).encode("utf-8", "replace"), digest_size=2).hexdigest()
        return f"{remote}-{digest}"
    if claim and not owner:
        with contextlib.suppress(TPUError):  # then the next copy tells of it
            bases.save(FolderOwner(str(folder)), *key)
    return remote


def tpu_id(host_id: str) -> str:
    """What identifies a TPU among those of all clouds, from the id of one of its hosts."""
    return host_id.rpartition("/")[0]
