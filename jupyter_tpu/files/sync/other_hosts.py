"""The other hosts of a pod, which get a project after the kernel's host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from ...errors import TPUError
from .outcome import HostOutcome, MirrorHost, SyncOutcome
from .watcher import retry_after


class Rounds:
    """Rounds of copying, one after the other.

    begun: how many have begun. ended: the number of the last one that has ended for good: of what
    was here when it began it is known what became of it.
    """

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.running = False

    def begin(self) -> None:
        self.begun += 1
        self.running = True

    def end(self, *, final: bool = True) -> None:
        """final: False where the same is tried again."""
        self.running = False
        if final:
            self.ended = self.begun


class OtherHosts:
    """Copies a project to hosts in the background, until :meth:`close`. On an asyncio loop.

    A host that fails is tried again automatically, so that the others need not wait for it.

    Parameters
    ----------
    hosts: which they are now.
    copy: copies to some of them. What fails on one of them is in its outcome.
    changed: called after each copy.

    Attributes
    ----------
    outcomes: of each host's last copy, by the host's number. rounds: of copies to hosts that could
    be reached the last time.
    """

    def __init__(
        self,
        hosts: Callable[[], Sequence[MirrorHost]],
        copy: Callable[[Sequence[MirrorHost]], Awaitable[SyncOutcome]],
        changed: Callable[[], None],
    ) -> None:
        self.outcomes: dict[int, HostOutcome] = {}
        self._hosts = hosts
        self._copy = copy
        self._changed = changed
        self._due = {failing: asyncio.Event() for failing in (False, True)}
        self.rounds = Rounds()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def behind(self) -> bool:
        """Whether the project is on its way to one that could be reached the last time."""
        running = any(not task.done() for task in self._tasks)
        return running and (self.rounds.running or self._due[False].is_set())

    def notify(self) -> None:
        """The project has changed, or the hosts."""
        if not self._tasks and self._hosts():
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._run(failing)) for failing in self._due]
        for due in self._due.values():
            due.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, failing: bool) -> None:
        """Serves the hosts whose last copy has failed, or the others."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause() if failing else None):
                    await self._due[failing].wait()
            self._due[failing].clear()
            present = self._hosts()
            numbers = {host.host.number for host in present}
            self.outcomes = {
                key: host_outcome for key, host_outcome in self.outcomes.items() if key in numbers
            }
            hosts = [host for host in present if self._fails(host.host.number) == failing]
            if not hosts and failing:
                continue
            if not failing:
                self.rounds.begin()
            with contextlib.suppress(TPUError):  # of the folder here, which the first copy tells
                if hosts:
                    self._note(failing, await self._copy(hosts))
            if not failing:
                self.rounds.end()
            self._changed()

    def _note(self, failing: bool, outcome: SyncOutcome) -> None:
        for host in outcome.hosts:
            self.outcomes[host.host] = host
            if (host.problem is not None) != failing:
                self._due[not failing].set()  # it belongs to those now

    def _fails(self, number: int) -> bool:
        return number in self.outcomes and self.outcomes[number].problem is not None

    def _pause(self) -> float | None:
        """Seconds until the hosts that fail are tried again; None: at the next change."""
        pauses = [retry_after(outcome.problem) for outcome in self.outcomes.values()]
        return min((pause for pause in pauses if pause is not None), default=None)
