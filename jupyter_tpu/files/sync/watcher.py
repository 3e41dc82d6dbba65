"""Notices changes below a local folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Reason, TPUError
from ...library_logs import warnings_only
from .ignore import ProjectRules
from .local import no_folder

if TYPE_CHECKING:
    import watchfiles

warnings_only("watchfiles")

#: Milliseconds without a change after which changes are reported, and after which in any case.
_QUIET_MILLISECONDS = 300
_LATEST_MILLISECONDS = 1600
#: Seconds after which a host that could not be reached is tried again.
_RETRY_SECONDS = 5.0
_TRANSIENT = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.INTERRUPTED)


def retry_after(problem: TPUError | None) -> float | None:
    """Seconds after which a round that failed is tried again; None: at the next change."""
    return _RETRY_SECONDS if problem is not None and problem.reason in _TRANSIENT else None


class Watcher:
    """Watches *folder* within ``async with``, which raises NO_FOLDER. On an asyncio loop.

    What .gitignore of the folder leaves out is not reported, nor what *leave_out* is true for.
    quiet, latest: milliseconds without a change after which changes are reported, and after which
    in any case.
    """

    def __init__(
        self,
        folder: Path,
        *,
        quiet: int = _QUIET_MILLISECONDS,
        latest: int = _LATEST_MILLISECONDS,
        leave_out: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._folder = folder
        self._quiet, self._latest = quiet, latest
        self._leave_out = leave_out
        self._rules = ProjectRules(folder)
        self._watching = asyncio.Event()
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Watcher:
        if not self._folder.is_dir():
            raise no_folder(self._folder)
        self._task = asyncio.create_task(self._watch(), name=f"watch {self._folder}")
        watching = asyncio.ensure_future(self._watching.wait())
        await asyncio.wait({watching, self._task}, return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.wait({self._task})

    @property
    def pending(self) -> bool:
        """Whether there was a change since the last :meth:`wait`."""
        return self._changed.is_set()

    def notify(self) -> None:
        """There was a change, which the system may not have reported yet."""
        self._changed.set()

    async def wait(self, timeout: float | None) -> None:
        """Returns after the next change, or one since the last call; after *timeout* seconds.

        Raises UNAVAILABLE where the system can't watch the folder.
        """
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait(
                {changed, self._task}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            changed.cancel()
        self._changed.clear()
        if self._task.done():
            error = self._task.exception()
            raise TPUError(
                f"{self._folder} can't be watched: {error or 'the system ended it'}.",
                Reason.UNAVAILABLE,
                "Sync it by hand.",
            )

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            # Not all below the folder: what is left out may be more than the system can watch.
            folders = await asyncio.to_thread(self._folders)
            # Called when awatch has begun, which it does before it first waits.
            loop.call_soon(self._watching.set if not self._watching.is_set() else self.notify)
            await self._watch_until_one_is_added(folders)

    async def _watch_until_one_is_added(self, folders: list[str]) -> None:
        import watchfiles

        changes = watchfiles.awatch(
            *folders,
            watch_filter=self._matters,
            debounce=self._latest,
            step=self._quiet,
            stop_event=self._stop,
            recursive=False,
        )
        async with contextlib.aclosing(changes):
            async for changed in changes:
                self._changed.set()
                added = [path for change, path in changed if change is watchfiles.Change.added]
                if await asyncio.to_thread(_has_folder, added):
                    return

    def _folders(self) -> list[str]:
        """Those that are not left out."""
        root = str(self._folder)
        self._rules = ProjectRules(self._folder)
        folders = []
        for folder, names, files in os.walk(root):
            below = folder.removeprefix(root).removeprefix("/")
            below = f"{below}/" if below else ""
            if ".gitignore" in files:
                self._rules.read(below)
            if below and "pyvenv.cfg" in files:
                names.clear()
                continue
            folders.append(folder)
            names[:] = [name for name in names if not self._rules.ignore(f"{below}{name}/")]
        return folders

    def _matters(self, _: watchfiles.Change, path: str) -> bool:
        below = Path(path).relative_to(self._folder).as_posix()
        return not (self._leave_out(below) or self._rules.leaves_out(below))


def _has_folder(paths: list[str]) -> bool:
    return any(map(os.path.isdir, paths))
