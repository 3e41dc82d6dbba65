"""The mirrors of this process: one for each host and project, however many kernels use it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from ...errors import TPUError
from ...paths import data_dir
from .bases import Bases
from .local import LocalProject
from .location import ProjectLocation
from .mirror import LIMITS, Mirror, MirrorHost
from .mirror_news import MirrorNews, ToldLog


class Owner(msgspec.Struct):
    """The project folder here that a folder of a TPU's hosts was first used for."""

    folder: str = ""


class Mirrors:
    """Lives on the core loop. folder: where it keeps what was copied, as `Bases`."""

    def __init__(self, folder: Path) -> None:
        self._bases = Bases(folder)
        self._used: dict[tuple[str, Path], tuple[Mirror, MirrorNews]] = {}
        self._users: dict[Mirror, int] = {}
        self._subscribers: list[Callable[[Mirror], None]] = []

    def acquire(self, host: MirrorHost, location: ProjectLocation) -> tuple[Mirror, MirrorNews]:
        """The mirror of a project on a host, which runs until :meth:`release`."""
        key = (host.place, location.folder)
        if key not in self._used:
            remote = self._remote(host, location)
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
            del self._used[mirror.host.place, mirror.folder]
            await mirror.close()
            self._changed(mirror)
            for other in self._users:  # one of them may have more hosts now
                if other.folder == mirror.folder:
                    other.recheck()

    def check_size(self, folder: Path) -> None:
        """Raises INVALID if *folder* is more than is copied without being asked for. Blocks."""
        LocalProject(folder, self._bases, LIMITS).find()

    def told(self, *key: str) -> ToldLog:
        return ToldLog(self._bases, *key)

    def running(self) -> list[Mirror]:
        return list(self._users)

    def recheck(self, folder: str) -> None:
        """Somebody else has copied the project *folder*, or parts of it."""
        for mirror in self._users:
            if str(mirror.folder) == folder:
                mirror.recheck()

    def subscribe(self, callback: Callable[[Mirror], None]) -> Callable[[], None]:
        """Calls *callback* when a mirror has changed. Returns a function that ends this."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _changed(self, mirror: Mirror) -> None:
        for callback in tuple(self._subscribers):
            callback(mirror)

    def _others(self, mirror: Mirror) -> Sequence[MirrorHost]:
        """The hosts that *mirror* serves beside its own: those of the TPU that have no kernel with
        this project, if it is the first of these mirrors.
        """
        tpu = _tpu_of(mirror.host)
        same = [
            each
            for each in self._users
            if each.folder == mirror.folder and _tpu_of(each.host) == tpu
        ]
        served = {each.host.host.worker for each in same}
        if mirror.host.host.worker != min(served, default=None):
            return ()
        return [host for host in mirror.host.others() if host.host.worker not in served]

    def _remote(self, host: MirrorHost, location: ProjectLocation) -> str:
        """The project's folder on the TPU; one of its own if another project has its name."""
        key = (_tpu_of(host), location.remote)
        owner = self._bases.load(Owner, *key)
        folder = str(location.folder)
        if owner.folder != folder and owner.folder and Path(owner.folder).is_dir():
            digest = hashlib.blake2b(folder.encode("utf-8", "replace"), digest_size=2).hexdigest()
            return f"{location.remote}-{digest}"
        if not owner.folder:
            with contextlib.suppress(TPUError):  # then the next copy tells of it
                self._bases.save(Owner(folder), *key)
        return location.remote


def _tpu_of(host: MirrorHost) -> str:
    """Text that identifies its TPU among those of all clouds."""
    return host.place.rpartition("/")[0]


@cache
def default_mirrors() -> Mirrors:
    """The process's own, which continue what syncs by hand have done. Call it on the core loop."""
    return Mirrors(data_dir() / "sync")
