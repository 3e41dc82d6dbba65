"""One poll per host: its agent answers with all that is shown of it, once that has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from ...cloud import NodeName
from ...errors import TPUError
from ...links import HostName, LinkState
from ..knowledge.failures import TPUFailures
from .connections import ANSWER, HostConnections
from .job_follower import JobFollower
from .kernels import KernelMonitor
from .warm_kernels import WarmKernelMonitor, WarmKernelSpec

#: How long a host waits for a change before it answers that there is none; seconds.
NEWS = 60.0
#: Between two attempts to ask a host, and between two looks for hosts to ask; seconds.
PAUSE, EVERY = 3.0, 5.0


class HostPoller:
    """Asks the agents of connected hosts whose links are up, and of hosts that have jobs.

    packages(name, reports) is called with what is asked for in the environments of a TPU.
    """

    def __init__(
        self,
        connections: HostConnections,
        kernels: KernelMonitor,
        warm: WarmKernelMonitor,
        jobs: JobFollower,
        failures: TPUFailures,
        packages: Callable[[NodeName, Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        self._connections = connections
        self._kernels = kernels
        self._warm = warm
        self._jobs = jobs
        self._failures = failures
        self._packages = packages
        self._polls: dict[HostName, _Poll] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There may be another host to ask, or something else to ask for."""
        self._wake.set()

    def refresh(self, name: NodeName) -> None:
        """What the hosts of a TPU report counts again, whether it has changed or not."""
        for host, poll in self._polls.items():
            if host.node == name:
                poll.ask_anew()

    async def run(self) -> None:
        """Polls until it is cancelled."""
        try:
            while True:
                self._wake.clear()
                self._reconcile()
                self._warm.forget_disconnected()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EVERY):
                        await self._wake.wait()
        finally:
            if ended := [self._end(host) for host in list(self._polls)]:
                await asyncio.wait(ended)

    def _reconcile(self) -> None:
        jobs = self._jobs.followed()
        links = [
            link for name in self._connections.names() for link in self._connections.links(name)
        ]
        hosts = jobs.keys() | {link.host for link in links if link.state is LinkState.UP}
        for host in self._polls.keys() - hosts:
            self._end(host)
        for host in hosts:
            specs = self._warm.specs(host.node) if host.worker == 0 else {}
            if host in self._polls:
                self._polls[host].change(specs, jobs.get(host, []))
            else:
                poll = self._polls[host] = _Poll(specs, jobs.get(host, []))
                poll.task = asyncio.create_task(self._run(host, poll), name=f"poll of {host}")

    def _end(self, host: HostName) -> asyncio.Task[None]:
        self._failures.clear(host.node, _what(host))
        task = self._polls.pop(host).task
        task.cancel()
        return task

    async def _run(self, host: HostName, poll: _Poll) -> None:
        """If a host does not answer, what was known stays; its link has the reason."""
        link = self._connections.link(host)
        link.acquire()  # of a TPU that has jobs, but is not connected
        try:
            while True:
                try:
                    await self._ask(host, poll)
                except TPUError:
                    poll.answer = {}
                    await asyncio.sleep(PAUSE)
                except Exception as error:  # an answer that can't be read, for example
                    poll.answer = {}
                    await asyncio.sleep(self._failures.record(host.node, _what(host), error))
                else:
                    self._failures.clear(host.node, _what(host))
        finally:
            link.release()

    async def _ask(self, host: HostName, poll: _Poll) -> None:
        """Asks once. If the host has no news, its last report is taken again: it may differ from
        what was heard otherwise in between.
        """
        specs, jobs, name = poll.specs, poll.jobs, host.node
        try:
            async with asyncio.timeout(None) as poll.waiting:
                answer = await self._connections.request_host(
                    host,
                    "status",
                    ANSWER + NEWS,
                    environments=to_builtins(list(specs.values())),
                    jobs=jobs,
                    version=poll.answer.get("version", ""),
                    seconds=NEWS,
                )
        except TimeoutError:
            return  # it is to be asked anew
        except TPUError as error:
            self._jobs.unreachable(host, jobs, error)
            raise
        finally:
            poll.waiting = None
        answer = poll.answer = {**poll.answer, **answer}
        self._jobs.report(host, jobs, answer["jobs"])
        if name not in self._connections:
            return
        self._kernels.update(name, answer["kernels"], host.worker)
        if host.worker == 0:
            self._warm.update(name, specs, answer["warm"])
            await self._packages(name, answer["packages"])


class _Poll:
    """What one host is asked for, and its last answer to that; {} if that does not count."""

    task: asyncio.Task[None]

    def __init__(self, specs: Mapping[str, WarmKernelSpec], jobs: Sequence[str]) -> None:
        self.specs, self.jobs = specs, jobs
        self.answer: dict[str, Any] = {}
        self.waiting: asyncio.Timeout | None = None

    def change(self, specs: Mapping[str, WarmKernelSpec], jobs: Sequence[str]) -> None:
        """Asks for this from now on."""
        if (specs, jobs) != (self.specs, self.jobs):
            self.specs, self.jobs = specs, jobs
            self.ask_anew()

    def ask_anew(self) -> None:
        """What was answered does not count any more."""
        self.answer = {}
        if self.waiting is not None and self.waiting.when() is None:
            self.waiting.reschedule(0.0)


def _what(host: HostName) -> str:
    return f"Host {host.worker}"
