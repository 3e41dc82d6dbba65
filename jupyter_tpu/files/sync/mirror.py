"""A folder of a TPU that follows a project folder here, as long as kernels there use it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import filterfalse, islice
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from ...errors import Reason, TPUError
from ...on_host.agent.protocol.mounts import is_known_local
from ...progress import ProgressReporter
from .bases import Bases
from .ignore import is_notebook
from .local import LocalProject
from .other_hosts import OtherHosts, Rounds
from .outcome import MirrorHost, SyncOptions, SyncOutcome
from .sync import push
from .watcher import Watcher, retry_after

#: Files that were changed last, and folders, that are looked at.
_WATCHED_FILES, _WATCHED_FOLDERS = 50, 50


class Stamps:
    """What a project had when it was read. Methods block for less than a millisecond if nothing has
    changed: they look at some 100 files and folders.
    """

    def __init__(self, project: LocalProject) -> None:
        tree = project.tree
        self._root = str(project.path)
        self._rules = project.rules
        latest = sorted(tree, key=lambda path: -tree[path].time)
        self._files = {
            path: (tree[path].time, tree[path].size)
            for path in islice(filterfalse(is_notebook, latest), _WATCHED_FILES)
        }
        names: defaultdict[str, set[str]] = defaultdict(set)
        for path in latest:
            while path:
                path, _, name = path.rpartition("/")
                names[path].add(name)
        for path, *_ in project.skipped:
            folder, _, name = path.rstrip("/").rpartition("/")
            names[folder].add(name)
        self._names = {folder: names[folder] for folder in ("", *islice(names, _WATCHED_FOLDERS))}
        self._times: dict[str, float] = {}

    def differ(self) -> bool:
        """Whether there is something new, or gone, or changed."""
        return any(self._stamp(path) != known for path, known in self._files.items()) or any(
            self._has_others(folder) for folder in self._names
        )

    def _stamp(self, path: str) -> tuple[float, int] | None:
        with contextlib.suppress(OSError):
            info = os.lstat(os.path.join(self._root, path))
            return info.st_mtime, info.st_size
        return None

    def _has_others(self, folder: str) -> bool:
        stamp = self._stamp(folder)
        if stamp is None or self._times.get(folder) == stamp[0]:
            return False  # what is gone with it was in another folder, too
        try:
            names = set(os.listdir(os.path.join(self._root, folder)))
        except OSError:
            return False
        self._times[folder] = stamp[0]
        before = f"{folder}/" if folder else ""
        return any(
            not is_notebook(name)
            and not self._rules.ignore(before + name)
            and not self._rules.ignore(f"{before}{name}/")
            for name in names ^ self._names[folder]
        )


log = logging.getLogger(__name__)

#: Bytes of one file, bytes of all, and files, that are copied without being asked for.
LIMITS = (10_000_000, 100_000_000, 5_000)
#: Seconds without progress after which a command does not wait any more for what was changed here,
#: and after which it does not in any case: whoever asked for it waits for an answer.
HOLD_SECONDS, LONGEST_HOLD = 10.0, 240.0
#: Milliseconds after which changes are noticed, and after which in any case while there are more.
_QUIET_MILLISECONDS, _LATEST_MILLISECONDS = 50, 400


class Mirror:
    """Copies *folder* to *remote* on *host* now, and after each change here, until :meth:`close`;
    then, in the background, to *others*.

    What a host has changed is left as it is (see `push`). Lives on the core loop.

    Attributes
    ----------
    outcome: of the last comparison with the host; None before the first.
    overall: the same with those of the others.
    problem: why the host may not have what is here; None if it has, or soon will.
    """

    def __init__(
        self,
        host: MirrorHost,
        folder: Path,
        remote: str,
        bases: Bases,
        changed: Callable[[Mirror], None] = lambda mirror: None,
        others: Callable[[Mirror], Sequence[MirrorHost]] = lambda mirror: (),
    ) -> None:
        self.host = host
        self.folder = folder
        self.remote = remote
        self.outcome: SyncOutcome | None = None
        self.overall: SyncOutcome | None = None
        self.problem: TPUError | None = None
        self.copied = 0.0  # the part of the present copy that is done
        self._bases = bases
        self._changed = changed
        self._progressed = 0.0  # when something last arrived, by the loop's clock
        self._rounds = Rounds()
        self._copied = asyncio.Event()  # replaced after each copy
        self._watcher = Watcher(
            folder, quiet=_QUIET_MILLISECONDS, latest=_LATEST_MILLISECONDS, leave_out=is_notebook
        )
        self._stamps: Stamps | None = None
        self._is_local = False  # the folder is on a disk of this machine
        self._others = OtherHosts(lambda: others(self), self._copy_to_others, self._report)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mirror {folder}")
        self._task.add_done_callback(self._finished)

    @property
    def state(self) -> Literal["copying", "current", "failed"]:
        if self.problem is not None:
            return "failed"
        return "copying" if self._behind else "current"

    @property
    def _behind(self) -> bool:
        """Whether what is here is on its way to the host, or will be tried again."""
        under_way = not self._rounds.begun or self._rounds.running or self._watcher.pending
        return under_way or retry_after(self.problem) is not None

    def recheck(self) -> None:
        """Compares with the host again, soon."""
        self._watcher.notify()

    async def catch_up(
        self, timeout: float, *, everywhere: bool = False, progressing: bool = False
    ) -> bool:
        """Waits until the host has what is here now, or it is known why it can't have it. What is
        changed from now on is not waited for.

        everywhere: also for the other hosts. progressing: as long as something of it arrives.
        False: it was still being copied after *timeout* seconds in which the host was reachable; or
        if *progressing*, after so many in which nothing arrived.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        checked = await self._check()
        # A round that runs may have read the folder before this call.
        last, others = self._rounds.begun + 1, self._others.rounds.begun + 1
        while not self._task.done() and (
            (self._behind and self._rounds.ended < last)
            or (everywhere and self._others.behind and self._others.rounds.ended < others)
        ):
            ended = asyncio.create_task(self._copied.wait())
            try:
                done, _ = await asyncio.wait(
                    {ended, self._task}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                ended.cancel()
            if not done and (
                loop.time() - max(begun, self._progressed) >= timeout
                if progressing
                else self.host.problem is None
            ):
                return False
            # The first copy may have been made of what was here before this call.
            checked = checked or await self._check()
        return True

    async def _check(self) -> bool:
        """Copies again if something has changed since the last copy; False if there is none yet."""
        if self._stamps is None:
            return False
        # A network's file system may hang. Another answers sooner than a thread is reached and
        # left, for which each cell would wait.
        if (
            self._stamps.differ()
            if self._is_local
            else await asyncio.to_thread(self._stamps.differ)
        ):
            self.recheck()
        return True

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, self._others.close(), return_exceptions=True)

    # ---- its rounds

    async def _run(self) -> None:
        try:
            async with self._watcher:
                while True:
                    await self._round()
                    await self._watcher.wait(retry_after(self.problem))
        except TPUError as error:  # the folder is gone, or can't be watched
            self.problem = error
        finally:
            self._end_round()

    def _finished(self, task: asyncio.Task[None]) -> None:
        # Any other exception is a bug here, or an odd file system. No one must take it for current.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("The mirror of %s ended", self.folder, exc_info=error)
            self.problem = TPUError(
                f"Copying {self.folder} failed: {error!r}.", Reason.INTERNAL, "See the log."
            )
            self._changed(self)

    async def _round(self) -> None:
        self._rounds.begin()
        self.copied = 0.0
        self._changed(self)
        try:
            self.outcome, local = await self._copy([self.host], self)
            self.problem = self.outcome.hosts[0].problem
            self._stamps = Stamps(local)
        except TPUError as error:
            self.problem = error
        self._end_round()
        self._others.notify()

    async def _copy(
        self, hosts: Sequence[MirrorHost], progress: ProgressReporter
    ) -> tuple[SyncOutcome, LocalProject]:
        local = await asyncio.to_thread(LocalProject, self.folder, self._bases, LIMITS)
        self._is_local = await asyncio.to_thread(is_known_local, str(self.folder))
        by_number = {host.host.number: host for host in hosts}
        outcome = await push(
            hosts,
            local,
            self.remote,
            self._bases,
            lambda number: self._key(by_number[number]),
            SyncOptions(),
            progress,
        )
        return outcome, local

    async def _copy_to_others(self, hosts: Sequence[MirrorHost]) -> SyncOutcome:
        outcome, _ = await self._copy(hosts, _OthersProgress(self._note_progress))
        return outcome

    def _end_round(self) -> None:
        self._rounds.end(final=retry_after(self.problem) is None)
        self._report()

    def _report(self) -> None:
        self._copied.set()
        self._copied = asyncio.Event()
        if self.outcome is not None:
            others = self._others.outcomes
            hosts = [*self.outcome.hosts, *(others[number] for number in sorted(others))]
            self.overall = structs.replace(self.outcome, hosts=hosts)
        self._changed(self)

    def _key(self, host: MirrorHost) -> tuple[str, ...]:
        """That of a sync by hand, which so continues what this has done."""
        name = host.host
        return (name.node.path, host.node_id, self.remote, str(self.folder), str(name.number))

    # ---- as a ProgressReporter

    def part(self, key: str, part: float) -> None:
        self.copied = part
        self._note_progress()

    def _note_progress(self) -> None:
        self._progressed = asyncio.get_running_loop().time()

    def begin(self, *_: Any) -> None: ...

    done = host_done = log = begin


class _OthersProgress:
    """Progress that is not shown."""

    def __init__(self, note_progress: Callable[[], None]) -> None:
        self._note_progress = note_progress

    def part(self, key: str, part: float) -> None:
        self._note_progress()

    def begin(self, *_: Any) -> None: ...

    done = host_done = log = begin
