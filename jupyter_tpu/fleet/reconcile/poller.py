"""One poll per host: its daemon answers with all that is shown of it, once that has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from ...cloud import NodeName
from ...errors import TPUError
from ...links import HostName, LinkState
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.records import DaemonStatus
from ...ssh.host_values import InvalidAnswer
from ..chips.metrics import Metrics
from ..core.connections import ANSWER_SECONDS
from ..core.core import Core
from ..jobs.job_follower import JobFollower
from ..kernels.kernels import KernelMonitor
from ..kernels.slice_kernels import WarmKernelMonitor, WarmKernelSpec

#: How long a host waits for a change before it answers that there is none; seconds.
LONG_POLL = 60.0
#: Between two attempts to ask a host, and between two looks for hosts to ask; seconds.
RETRY_SECONDS, LOOK_SECONDS = 3.0, 5.0

#: The warm kernels that a host should have, by environment; with the jobs that it should report,
#: and the seconds between two samples of its chips' load.
_Specs = Mapping[str, WarmKernelSpec]
_Asked = tuple[_Specs, Sequence[str], float]


class HostPoller:
    """Asks the daemons of connected hosts whose links are up, and of hosts that have jobs.

    packages(name, reports) is called with what is asked for in the environments of a TPU, and
    guard(name, report) with what the guard on host 0 says, home(name, report) with what it says of
    home folders, and interruption(host, report) with what each host says that Google announces.
    """

    def __init__(
        self,
        core: Core,
        kernels: KernelMonitor,
        warm: WarmKernelMonitor,
        jobs: JobFollower,
        metrics: Metrics,
        packages: Callable[[NodeName, Mapping[str, Any]], Awaitable[None]],
        guard: Callable[[NodeName, Mapping[str, Any] | None], None],
        interruption: Callable[[HostName, Mapping[str, Any] | None], None],
        home: Callable[[NodeName, Mapping[str, Any] | None], None],
    ) -> None:
        self._connections = core.connections
        self._polled = core.polled
        self._failures = core.failures
        self._kernels = kernels
        self._warm = warm
        self._jobs = jobs
        self._metrics = metrics
        self._packages = packages
        self._guard = guard
        self._interruption = interruption
        self._home = home
        self._polls: dict[HostName, tuple[_Asked, asyncio.Task[None]]] = {}

    def refresh(self, name: NodeName) -> None:
        """What the hosts of a TPU report counts again, whether it has changed or not."""
        hosts = [host for host in self._polls if host.node == name]
        for host in hosts:
            self._end(host)
        if hosts:
            self._reconcile()

    async def run(self) -> None:
        """Polls until it is cancelled."""
        try:
            while True:
                self._polled.woken.clear()
                self._reconcile()
                self._warm.forget_disconnected()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._polled.woken.wait()
        finally:
            if ended := [self._end(host) for host in list(self._polls)]:
                await asyncio.wait(ended)

    def _reconcile(self) -> None:
        """Each host has the poll that asks for what is to be asked for now, and no other."""
        jobs = self._jobs.followed()
        links = [
            link for name in self._connections.names() for link in self._connections.links(name)
        ]
        hosts = jobs.keys() | {link.host for link in links if link.state is LinkState.UP}
        for host in self._polls.keys() - hosts:
            self._end(host)
        for host in hosts:
            asked = self._specs(host), jobs.get(host, []), self._metrics.every(host.node)
            before, task = self._polls.get(host, (asked, None))
            if before != asked or (task is not None and task.done()):
                self._end(host)
            if host not in self._polls:
                task = asyncio.create_task(self._run(host, *asked), name=f"poll of {host}")
                self._polls[host] = asked, task
                self._polled.asked.add(host)

    def _specs(self, host: HostName) -> _Specs:
        return self._warm.specs(host.node) if host.number == 0 else {}

    def _end(self, host: HostName) -> asyncio.Task[None]:
        self._failures.clear(host.node, _what(host))
        _, task = self._polls.pop(host)
        self._polled.asked.discard(host)
        task.cancel()
        return task

    async def _run(self, host: HostName, specs: _Specs, jobs: Sequence[str], every: float) -> None:
        """Until other warm kernels are to be asked for. If a host does not answer, what was known
        stays; its link has the reason.
        """
        link = self._connections.link(host)
        link.acquire(in_use=False)  # of a TPU that has jobs, but is not connected
        known: dict[str, Any] = {}
        try:
            while self._specs(host) == specs:
                try:
                    # Without news it is taken again: other answers may have come in between.
                    answer = await self._ask(host, specs, jobs, every, known.get("version", ""))
                    if samples := answer.pop("load", ()):
                        self._metrics.update(host, samples)
                    known |= answer
                    await self._apply_report(host, specs, jobs, known)
                except Exception as error:
                    known = {}
                    self._polled.answering.discard(host)
                    if isinstance(error, TPUError) and not isinstance(error, InvalidAnswer):
                        await asyncio.sleep(RETRY_SECONDS)  # its link says it
                    else:
                        await asyncio.sleep(self._failures.record(host.node, _what(host), error))
                else:
                    self._polled.answering.add(host)
                    self._failures.clear(host.node, _what(host))
            self._polled.wake()
        finally:
            self._polled.answering.discard(host)
            link.release(in_use=False)

    async def _ask(
        self, host: HostName, specs: _Specs, jobs: Sequence[str], every: float, version: str
    ) -> DaemonStatus:
        asked = requests.GetStatusRequest(
            environments=to_builtins(list(specs.values())),
            jobs=list(jobs),
            load={"every": every, "after": self._metrics.after(host)},
            version=version,
            seconds=LONG_POLL,
        )
        try:
            return await self._connections.request_host(
                host, asked, ANSWER_SECONDS + LONG_POLL, in_use=False
            )
        except TPUError as error:
            self._jobs.unreachable(host, jobs, error)
            raise

    async def _apply_report(
        self, host: HostName, specs: _Specs, jobs: Sequence[str], answer: Mapping[str, Any]
    ) -> None:
        self._jobs.report(host, jobs, answer["jobs"])
        if host.node in self._connections:
            self._kernels.update(host.node, answer["kernels"], host.number)
            if host.number == 0:
                self._warm.update(host.node, specs, answer["warm"])
                await self._packages(host.node, answer["packages"])
        self._interruption(host, answer.get("interruption"))  # an older daemon says nothing
        if host.number == 0:
            self._guard(host.node, answer.get("guard"))
            self._home(host.node, answer.get("home"))


def _what(host: HostName) -> str:
    return f"Host {host.number}"
