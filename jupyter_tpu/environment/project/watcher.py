"""Notices changes below a local folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Reason, TPUError
from .ignore import ProjectRules
from .local import no_folder

if TYPE_CHECKING:
    import watchfiles

#: Milliseconds without a change after which changes are reported, and after which in any case.
_QUIET = 300
_LATEST = 1600


class Watcher:
    """Watches *folder* within ``async with``, which raises NO_FOLDER. On an asyncio loop.

    What .gitignore of the folder leaves out is not reported.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rules = ProjectRules(folder)
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Watcher:
        if not self._folder.is_dir():
            raise no_folder(self._folder)
        self._rules.read("")
        self._task = asyncio.create_task(self._watch(), name=f"watch {self._folder}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.wait({self._task})

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
        import watchfiles

        async for _ in watchfiles.awatch(
            self._folder,
            watch_filter=self._matters,
            debounce=_LATEST,
            step=_QUIET,
            stop_event=self._stop,
        ):
            self._changed.set()

    def _matters(self, _: watchfiles.Change, path: str) -> bool:
        parts = Path(path).relative_to(self._folder).parts
        return not self._rules.leaves_out("/".join(parts))
