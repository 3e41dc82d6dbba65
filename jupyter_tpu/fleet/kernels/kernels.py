"""The kernels on connected TPUs, as their daemons last reported them, and what interrupts them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import convert, structs

from ...cloud import Node, NodeName, NodeState
from ...concurrency import gather_or_cancel
from ...errors import Reason, TPUError
from ...links import HostGone, HostName
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.records import KernelReport
from ...ssh.host_values import InvalidAnswer
from ...subscribers import Subscribers
from ..core.changes import ChangeFeed
from ..core.connections import ANSWER_SECONDS
from ..core.core import Core
from ..core.observer import ObservedState
from ..models import Interruption, Kernel, ListQuery, Problem
from .slice_kernels import WarmKernelMonitor

#: How long a TPU is asked for its kernels before they are shut down, and for that; seconds.
ASK_FIRST = 10.0
SHUT_DOWN = 20.0
#: At most so many dead kernels of a TPU are shown until the user dismisses them.
MOST_DEAD_KERNELS = 50

#: Makes this process the master of a kernel: its id, kernelspec, key and notebook.
TakeOver = Callable[[str, str, str, str], Awaitable[None]]


class ReportedKernel(NamedTuple):
    """A kernel, and its host's report of it."""

    tpu: NodeName
    kernel: Kernel
    report: KernelReport


class InterruptedKernel(NamedTuple):
    """A kernel that has ended while a cell ran, and why."""

    tpu: NodeName
    kernel: Kernel
    why: str


class KernelMonitor:
    """The kernels of connected TPUs, as last reported."""

    def __init__(self, changes: ChangeFeed) -> None:
        self._changes = changes
        self.reported = Subscribers[ReportedKernel]()
        self.interrupted = Subscribers[InterruptedKernel]()
        self._reported: dict[NodeName, dict[str, Kernel]] = {}
        self._lost: dict[NodeName, dict[str, Kernel]] = {}  # dead, and not dismissed yet
        self._cells: dict[str, str] = {}  # that ran in kernels which are not reported any more

    def last_known(self, name: NodeName) -> list[Kernel]:
        """As last reported, with those that were lost recently; [] if nothing is known."""
        return list({**self._lost.get(name, {}), **self._reported.get(name, {})}.values())

    def find(self, id: str) -> Kernel | None:
        for kernels in (*self._reported.values(), *self._lost.values()):
            if id in kernels:
                return kernels[id]
        return None

    def update(self, name: NodeName, reports: Sequence[KernelReport], host: int = 0) -> None:
        """Takes the daemon's report of all kernels of a host."""
        known = self._reported.get(name, {})
        before = {id: kernel for id, kernel in known.items() if kernel.host == host}
        after = {report["id"]: _kernel(name, host, report) for report in reports}
        for id in before.keys() - after.keys():
            self._cells[id] = before[id].cell  # a client may report why it is gone
        for id, kernel in after.items():
            if kernel.state == "dead" and not kernel.cell:  # after a reboot nobody there knows
                cell = before[id].cell if id in before else self._cells.get(id, "")
                after[id] = structs.replace(kernel, cell=cell)
        for id in [*self._cells][:-MOST_DEAD_KERNELS]:
            del self._cells[id]
        others = {id: kernel for id, kernel in known.items() if kernel.host != host}
        self._reported[name] = {**others, **after}
        for report in reports:
            for note in self.reported:
                note(ReportedKernel(name, after[report["id"]], report))
        for kernel in after.values():
            if kernel.state == "dead" and before.get(kernel.id) != kernel:
                self._note_interrupted(name, kernel, "The kernel died.")
        changed = {id for id in before.keys() | after.keys() if before.get(id) != after.get(id)}
        # A notebook that has a new kernel does not need the message about the old one.
        notebooks = {kernel.notebook for kernel in after.values() if kernel.notebook}
        for lost in list(self._lost.get(name, {}).values()):
            if lost.id in after or lost.notebook in notebooks:
                del self._lost[name][lost.id]
                changed.add(lost.id)
        if changed:
            self._mark_changed(name, changed)

    def record_lost(self, name: NodeName, kernel: Kernel) -> None:
        """A client reports that a kernel is dead; its ``problem`` says why."""
        known = self._reported.get(name, {}).pop(kernel.id, None)
        cell = known.cell if known is not None else self._cells.pop(kernel.id, "")
        if cell:
            kernel = structs.replace(kernel, cell=cell)
        why = kernel.problem.message if kernel.problem is not None else ""
        self._note_interrupted(name, kernel, why)
        lost = self._lost.setdefault(name, {})
        lost[kernel.id] = kernel
        old = set(list(lost)[:-MOST_DEAD_KERNELS])
        for id in old:
            del lost[id]
        self._mark_changed(name, {kernel.id, *old})
        # Published at once, because it is forgotten with its TPU if that is gone, too.
        self._changes.flush()

    def dismiss_lost(self, name: NodeName, id: str) -> bool:
        """Stops showing a lost kernel; False if there is none of that id."""
        gone = self._lost.get(name, {}).pop(id, None)
        if gone is not None:
            self._mark_changed(name, {id})
        return gone is not None

    def clear(self, name: NodeName, *, lost: bool = False) -> None:
        """The TPU's host is down, and its kernels with it; *lost*: those are forgotten, too."""
        for kernel in self._reported.get(name, {}).values():
            self._note_interrupted(name, kernel, "The host has stopped.")
        gone = set(self._reported.pop(name, {}))
        if lost:
            gone |= set(self._lost.pop(name, {}))
        if gone:
            self._mark_changed(name, gone)

    def _note_interrupted(self, name: NodeName, kernel: Kernel, why: str) -> None:
        for note in self.interrupted if kernel.cell else ():
            note(InterruptedKernel(name, kernel, why))

    def _mark_changed(self, name: NodeName, ids: set[str]) -> None:
        for id in sorted(ids):
            self._changes.mark_changed("kernel", id)
        self._changes.mark_tpu_changed(name)


class KernelService:
    """The kernels of TPUs, as a :class:`~jupyter_tpu.fleet.api.KernelsAPI`."""

    #: How this process becomes the master of a kernel; None where there is no Jupyter server.
    take_over_here: TakeOver | None = None

    def __init__(self, core: Core, monitor: KernelMonitor, warm: WarmKernelMonitor) -> None:
        self._finder = core.finder
        self._connections = core.connections
        self._polled = core.polled
        self._connected = core.connected
        self._monitor = monitor
        self._warm = warm
        self._desired = core.desired
        self._observed = core.observed
        self._changes = core.changes
        # The kernels of each TPU that were last shut down with something else, and why.
        self._shut_down: dict[NodeName, tuple[set[str], TPUError]] = {}
        core.connected.ends_with_tpu(partial(self.clear, lost=True), when_disconnected=True)

    async def list(self, ref: str, query: ListQuery | None = None) -> Sequence[Kernel]:
        return await self._list(await self._finder.find(ref), fresh=bool(query and query.fresh))

    async def _list(self, name: NodeName, *, fresh: bool) -> Sequence[Kernel]:
        """What its hosts last reported, or answer now; what is known if the TPU is not READY."""
        if not self._desired.environments(name):
            return []  # never connected: no kernel of ours can be there
        if not self._observed.is_ready(name):
            return self._monitor.last_known(name)
        if not fresh and all(self._polled.reports(host) for host in self._hosts(name)):
            return self._monitor.last_known(name)
        try:
            return await self._fetch(name)
        except HostGone:  # it is no longer READY, which the link noticed first
            return self._monitor.last_known(name)

    async def list_on(self, host: HostName, timeout: float = ANSWER_SECONDS) -> Sequence[Kernel]:
        """Asks one host of a READY TPU; raises TPUError if it does not answer."""
        answer = await self._connections.request_host(host, requests.ListKernelsRequest(), timeout)
        self._monitor.update(host.node, answer["kernels"], host.number)
        return [
            kernel for kernel in self._monitor.last_known(host.node) if kernel.host == host.number
        ]

    async def require(self, name: NodeName, id: str) -> Kernel:
        """The living kernel of that id; raises NOT_FOUND."""
        kernel = await self._find(name, id)
        if kernel is None or kernel.state == "dead":
            raise _not_found(name, id)
        return kernel

    async def _find(self, name: NodeName, id: str) -> Kernel | None:
        return next(
            (kernel for kernel in await self._list(name, fresh=True) if kernel.id == id), None
        )

    async def shut_down(self, ref: str, id: str) -> None:
        """Shuts one kernel down, or stops showing a lost one; raises NOT_FOUND."""
        name = await self._finder.find(ref)
        if self._monitor.dismiss_lost(name, id):
            return
        kernel = await self._find(name, id)
        if kernel is None:
            raise _not_found(name, id)
        host = HostName(name, kernel.host)
        await self._connections.request_host(host, requests.EndKernelRequest(id=id))
        await self._fetch(name)

    async def shut_down_all(
        self,
        name: NodeName,
        why: TPUError,
        log: Callable[[str], None],
        environment: str | None = None,
    ) -> int:
        """Shuts all kernels down (of one environment), warm ones too; returns how many that were
        not warm.

        why: what their users are told, see :func:`shut_down_error`.

        If the TPU does not answer, they end with it or continue.
        """
        await self._warm.stop(name)
        ended: list[bool] = []
        node = self._observed.node(name)
        if self._desired.environments(name) and (node is None or node.state is NodeState.READY):
            try:
                kernels = _of(await self._fetch(name, SHUT_DOWN), environment)
            except TPUError as error:
                log(f"The kernels could not be shut down: {error}")
            else:
                self._shut_down[name] = {kernel.id for kernel in kernels}, why
                if kernels:
                    log(f"Shutting down {len(kernels)} kernel{'s' * (len(kernels) > 1)}")
                ends = (self._shut_down_and_log(name, kernel, log) for kernel in kernels)
                ended = await asyncio.gather(*ends)
        if environment is None:
            self._monitor.clear(name)
        return sum(ended)

    async def _shut_down_and_log(
        self, name: NodeName, kernel: Kernel, log: Callable[[str], None]
    ) -> bool:
        host = HostName(name, kernel.host)
        try:
            end = requests.EndKernelRequest(id=kernel.id)
            await self._connections.request_host(host, end, SHUT_DOWN)
        except TPUError as error:
            log(f"Kernel {kernel.id} could not be shut down: {error}")
            return False
        log(f"Shut down kernel {kernel.id}")
        return True

    async def running(self, name: NodeName) -> Sequence[Kernel]:
        """Those that run there; of a TPU that does not answer, the last known ones."""
        try:
            return await self.fetch_running(name, ASK_FIRST)
        except TPUError:
            return self.last_known_running(name)

    async def fetch_running(self, name: NodeName, timeout: float) -> Sequence[Kernel]:
        """Those that run there; raises TPUError if a READY TPU does not answer in time."""
        if self._desired.environments(name) and self._observed.is_ready(name):
            await self._fetch(name, timeout)
        return self.last_known_running(name)

    def last_known_running(self, name: NodeName) -> Sequence[Kernel]:
        kernels = self._monitor.last_known(name) if self._desired.environments(name) else ()
        return [kernel for kernel in kernels if kernel.state != "dead"]

    async def require_confirmation(
        self, name: NodeName, confirmed: bool, act: str, environment: str | None = None
    ) -> None:
        """Raises KERNELS_RUNNING if kernels run (of one environment) and shutting them down is not
        *confirmed*. act: what would shut them down.
        """
        if confirmed:
            return
        if running := _of(await self.running(name), environment):
            one = len(running) == 1
            notebooks = ", ".join(sorted({k.notebook for k in running if k.notebook}))
            where = f"{name.node} ({notebooks})" if notebooks else name.node
            raise TPUError(
                f"1 kernel runs on {where}." if one else f"{len(running)} kernels run on {where}.",
                Reason.KERNELS_RUNNING,
                f"{act} shuts {'it' if one else 'them'} down: confirm that with end_kernels.",
            )

    async def take_over(self, ref: str, id: str) -> None:
        name = await self._finder.find(ref)
        if self.take_over_here is None:
            raise TPUError(
                "There is no Jupyter server here that could take over a kernel.",
                Reason.CONFLICT,
                "Start one, and try again.",
            )
        kernel = await self.require(name, id)
        record = self._desired.environments(name).get(kernel.environment)
        if record is None or not record.environment.kernelspec:
            raise TPUError(
                f"The kernel's environment {kernel.environment} is not connected here.",
                Reason.CONFLICT,
                f"Connect it first: `jupyter tpu connect {name.node} --env {kernel.environment}`.",
            )
        key = (await self._connections.request(name, requests.GetKernelKeyRequest(id=id)))["key"]
        spec = record.environment.kernelspec
        if kernel.booked:  # a restart gives it the same chips
            spec, _ = self._connected.register_chips(name, record, kernel.booked)
        await self.take_over_here(id, spec, key, kernel.notebook)

    async def report_lost(
        self, id: str, where: Mapping[str, str], notebook: str, problem: TPUError
    ) -> None:
        """A kernel of this process is dead, and why: it is shown until someone has seen it.

        where: its ``project``, ``zone``, ``tpu`` and ``environment``.
        """
        name = _name_in(where)
        ids, why = self._shut_down.get(name, (set(), problem))
        if problem.reason is Reason.CANCELLED and id in ids:
            problem = why  # its client knows only that someone shut it down
        lost = Kernel(
            id=id,
            tpu=name.node,
            zone=name.zone,
            environment=where["environment"],
            state="dead",
            notebook=notebook,
            problem=Problem.of(problem),
        )
        self._monitor.record_lost(name, lost)

    def clear(self, name: NodeName, *, lost: bool = False) -> None:
        """The TPU's hosts are down, and its kernels with them; *lost*: those are forgotten, too."""
        self._monitor.clear(name, lost=lost)

    async def _fetch(self, name: NodeName, timeout: float = ANSWER_SECONDS) -> Sequence[Kernel]:
        """Asks host 0 and those that have kernels now; raises TPUError if one does not answer."""
        hosts = self._hosts(name)
        invalid: list[InvalidAnswer] = []

        async def fetch(host: HostName) -> None:
            try:
                await self.list_on(host, timeout)
            except InvalidAnswer as error:  # the kernels of the other hosts are known all the same
                invalid.append(error)

        await gather_or_cancel([fetch(host) for host in hosts])
        if len(invalid) == len(hosts):
            raise invalid[0]
        return self._monitor.last_known(name)

    def _hosts(self, name: NodeName) -> set[HostName]:
        """Host 0 and those that have kernels, as last known."""
        numbers = {0, *(kernel.host for kernel in self._monitor.last_known(name))}
        return {HostName(name, number) for number in numbers}


def _of(kernels: Sequence[Kernel], environment: str | None) -> list[Kernel]:
    """Those of one environment; None: all."""
    return [kernel for kernel in kernels if environment in (None, kernel.environment)]


def shut_down_error(purpose: str, hint: str) -> TPUError:
    """Why a kernel was shut down. JupyterLab shows the first 140 characters of this."""
    return TPUError(f"The kernel was shut down to {purpose}.", Reason.CANCELLED, hint)


def _name_in(where: Mapping[str, str]) -> NodeName:
    return NodeName(where["project"], where["zone"], where["tpu"])


def _not_found(name: NodeName, id: str) -> TPUError:
    return TPUError(f"The kernel {id} does not exist on {name.node}.", Reason.NOT_FOUND)


def _kernel(name: NodeName, host: int, report: KernelReport) -> Kernel:
    return Kernel(
        id=report["id"],
        tpu=name.node,
        zone=name.zone,
        host=host,
        environment=report.get("environment") or "",
        state=report.get("state") or "",
        pid=report.get("pid") or 0,
        started=report.get("started") or "",
        last_activity=report.get("last_activity") or "",
        attached=bool(report.get("attached")),
        holder=report.get("holder") or "",
        chips=bool(report.get("chips")),
        booked=report.get("booked") or [],
        hosts=report.get("hosts") or [],
        notebook=report.get("notebook") or "",
        cell=report.get("cell") or "",
    )


class Interruptions:
    """What is known of them. changed(name) is called when a TPU's hosts say something else."""

    def __init__(self, observed: ObservedState, changed: Callable[[NodeName], None]) -> None:
        self._observed = observed
        self._changed = changed
        #: By TPU: its node's id, and what each host that says something said last.
        self._reports: dict[NodeName, tuple[str, dict[int, Interruption]]] = {}

    def update(self, host: HostName, report: Mapping[str, Any] | None) -> None:
        """Takes the report of a host. None: nothing is announced to it, or an older agent."""
        node = self._observed.node(host.node)
        if node is None:
            return
        before = self._of(node)
        reports = {
            host_number: what for host_number, what in before.items() if host_number != host.number
        }
        if report is not None:
            run = [{**checkpoint, "host": host.number} for checkpoint in report["checkpoints"]]
            fields = {**report, "hosts": [host.number], "checkpoints": run}
            reports[host.number] = convert(fields, Interruption)
        if reports != before:
            self._reports[host.node] = node.id, reports
            self._changed(host.node)

    def last_known(self, node: Node) -> Interruption | None:
        """The gravest of all hosts; it stays known while a host that said so is gone."""
        reports = self._of(node)
        for kind in ("preemption", "maintenance"):
            hosts = sorted(host for host, what in reports.items() if what.kind == kind)
            if hosts:
                return Interruption(
                    kind=reports[hosts[0]].kind,
                    hosts=hosts,
                    noticed=min(reports[host].noticed for host in hosts),
                    checkpoints=[
                        run for host in sorted(reports) for run in reports[host].checkpoints
                    ],
                )
        return None

    def _of(self, node: Node) -> dict[int, Interruption]:
        id, reports = self._reports.get(node.name, ("", {}))
        return reports if id == node.id else {}
