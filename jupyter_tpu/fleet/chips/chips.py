"""The chips of a TPU's hosts: what holds them, how they are freed, and kernels with some of them.

A kernel is shut down, a job and a run are stopped as they always are. Only a process that belongs
to none of these gets signals. libtpu's lock ends with its holder. Its file is only deleted where it
keeps others out, and by a process that holds the lock itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from ... import environment
from ...cloud import Node, NodeName
from ...concurrency import gather_or_cancel
from ...errors import InvalidInput, Reason, TPUError
from ...links import HostName
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.chosen_chips import chip_variables, group_sizes, groups, is_known
from ...on_host.agent.protocol.records import KernelReport, Owner
from ...ssh.agent_answers import owners_by_pid
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..jobs.jobs import JobService
from ..jobs.runs import RunService
from ..kernels.kernels import KernelService
from ..models import (
    ChipBooking,
    ChipHolder,
    ChipKernel,
    ChipKernels,
    ChipUse,
    DeletedLock,
    FreeChips,
    FreedChips,
    FreedHolder,
    HostChips,
    Problem,
    SplitChips,
    StopJob,
)
from ..models.core import known_type, timestamp, validated

#: Seconds in which the link to a host must be up, and a kernel must end.
REACH_SECONDS, END_KERNEL_SECONDS = 30.0, 20.0
#: Seconds for which a job or run that was killed may still hold chips, and between two looks.
RELEASE_SECONDS, LOOK_SECONDS = 10.0, 0.5

#: One process for ever: its host, pid and start.
Process = tuple[int, int, str]


class Chips:
    """A :class:`~jupyter_tpu.fleet.api.ChipsAPI`."""

    def __init__(
        self, core: Core, kernels: KernelService, jobs: JobService, runs: RunService
    ) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._connections = core.connections
        self._kernels = kernels
        self._jobs = jobs
        self._runs = runs

    async def list(self, ref: str, hosts: str | None = None) -> ChipUse:
        node = await self._find(ref)
        return await self._use(node, host_numbers(hosts or "all", _count(node), node.name.node))

    async def free(self, ref: str, request: FreeChips) -> FreedChips:
        request = validated(request)
        node = await self._find(ref)
        processes = {(holder.host, holder.pid, holder.start): None for holder in request.holders}
        locks = set(request.locks)
        numbers = ",".join(map(str, [*(host for host, *_ in processes), *locks]))
        hosts = host_numbers(numbers or "all", _count(node), node.name.node)
        before = await self._use(node, hosts)
        ends = [
            self._free_host(node.name, host, [p for p in processes if p[0] == host.host], request)
            for host in before.hosts
        ]
        ended = [process for of_host in await gather_or_cancel(ends) for process in of_host]
        # Then: what has ended may have left one, and what has not keeps its own.
        deletes = [self._delete_lock(HostName(node.name, host)) for host in sorted(locks)]
        deleted = await gather_or_cancel(deletes)
        use = await self._use(node, hosts)
        free = all(
            not host.holders and not host.lock_owner and host.problem is None for host in use.hosts
        )
        return FreedChips(ended=ended, locks=deleted, use=use, free=free)

    async def _find(self, ref: str) -> Node:
        return await self._finder.find_ready(ref)

    # ---- asking ----

    async def _use(self, node: Node, hosts: Iterable[int]) -> ChipUse:
        asked = [self._ask(HostName(node.name, host)) for host in hosts]
        answers = await gather_or_cancel(asked)
        return ChipUse(tpu=node.name.node, zone=node.name.zone, hosts=answers)

    async def _ask(self, host: HostName) -> HostChips:
        """A host that can't be asked has the reason as its problem."""
        try:
            async with self._connections.borrow(host, REACH_SECONDS) as link:
                held = await environment.held_chips(link)
            owners: dict[int, Owner] = {}
            if pids := [holder.pid for holder in held.holders]:
                question = requests.GetProcessOwnersRequest(pids=pids)
                owners = owners_by_pid(pids, await self._connections.request_host(host, question))
            kernels: Sequence[KernelReport] = []
            if self._desired.environments(host.node):  # else no kernel of ours can be there
                answer = await self._connections.request_host(host, requests.ListKernelsRequest())
                kernels = answer["kernels"]
        except TPUError as error:
            return HostChips(host=host.number, problem=Problem.of(error))
        holders = [
            ChipHolder(
                host=host.number,
                pid=holder.pid,
                start=holder.start,
                since="" if holder.since is None else timestamp("seconds", holder.since),
                user=holder.user,
                command=holder.command,
                devices=holder.devices,
                container=holder.container,
                stop=holder.stop,
                kernel=owners[holder.pid]["kernel"],
                notebook=owners[holder.pid]["notebook"] or holder.notebook,
                job=owners[holder.pid]["job"],
                run=owners[holder.pid]["run"],
            )
            for holder in held.holders
        ]
        bookings = [
            ChipBooking(chips=booked, kernel=kernel["id"], notebook=kernel["notebook"] or "")
            for kernel in kernels
            if (booked := kernel.get("booked")) and kernel["state"] != "dead"
        ]
        return HostChips(
            host=host.number,
            devices=held.devices,
            holders=holders,
            bookings=sorted(bookings, key=lambda booking: booking.chips),
            complete=held.complete,
            lock_owner=held.lock.owner if held.lock.in_the_way else "",
        )

    # ---- freeing ----

    async def _free_host(
        self, name: NodeName, chips: HostChips, processes: Sequence[Process], request: FreeChips
    ) -> Sequence[FreedHolder]:
        """Ends those of *processes* that hold chips still; what belongs together is ended once."""
        if chips.problem is not None:
            return [_freed(process, "unknown", chips.problem) for process in processes]
        held = {_process(holder): holder for holder in chips.holders}
        freed = {gone: _freed(gone, "gone") for gone in processes if gone not in held}
        groups: dict[tuple[str, str, str], list[Process]] = {}
        for process in processes:
            if process in held:
                holder = held[process]
                groups.setdefault((holder.kernel, holder.job, holder.run), []).append(process)
        host = HostName(name, chips.host)
        ends = [self._end(host, *owner, group, request) for owner, group in groups.items()]
        for group in await gather_or_cancel(ends):
            freed.update(group)
        return [freed[process] for process in processes]

    async def _end(
        self,
        host: HostName,
        kernel: str,
        job: str,
        run: str,
        processes: Sequence[Process],
        request: FreeChips,
    ) -> dict[Process, FreedHolder]:
        """Ends one kernel, job or run, or processes that belong to none."""
        try:
            if kernel:
                await self._end_kernel(host, kernel)
            elif job:
                await self._stop_job(host, job, request.patience)
            elif run:
                await self._stop_run(host, run)
            else:
                return await self._signal(host, processes, request.patience)
        except TPUError as error:
            problem = Problem.of(error)
            return {process: _freed(process, "unknown", problem) for process in processes}
        return await self._wait_until_released(host, processes, request.patience + RELEASE_SECONDS)

    async def _end_kernel(self, host: HostName, kernel: str) -> None:
        try:
            await self._kernels.shut_down(_ref(host.node), kernel)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
            # The TPU was never connected from here.
            await self._connections.request_host(
                host, requests.EndKernelRequest(id=kernel), END_KERNEL_SECONDS
            )

    async def _stop_job(self, host: HostName, job: str, patience: float) -> None:
        """On all its hosts: the others would wait for this one."""
        try:
            await self._jobs.stop(_ref(host.node), job, StopJob(patience=patience))
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
            # Someone started it from another computer.
            there = await self._connections.request_host(host, requests.ListJobsRequest())
            for job_status in there["jobs"]:
                if job_status["id"].rpartition("-")[0] == job:
                    await self._connections.request_host(
                        host, requests.StopJobRequest(id=job_status["id"], patience=patience)
                    )

    async def _stop_run(self, host: HostName, run: str) -> None:
        if self._runs.find(run) is not None:
            await self._runs.stop(_ref(host.node), run)
        else:
            await self._connections.request_host(host, requests.StopRunRequest(id=run))

    async def _signal(
        self, host: HostName, processes: Sequence[Process], patience: float
    ) -> dict[Process, FreedHolder]:
        async with self._connections.borrow(host, REACH_SECONDS) as link:
            pairs = [(pid, start) for _, pid, start in processes]
            outcomes = await environment.end_holders(link, pairs, patience)
        return {
            process: _freed(process, outcome)
            for process, outcome in zip(processes, outcomes, strict=True)
        }

    async def _delete_lock(self, host: HostName) -> DeletedLock:
        """Deletes a lock file that is left over, if no process holds its lock."""
        try:
            async with self._connections.borrow(host, REACH_SECONDS) as link:
                outcome = await environment.delete_lock_file(link)
        except TPUError as error:
            problem = Problem.of(error)
            return DeletedLock(host=host.number, outcome="unknown", problem=problem)
        return DeletedLock(host=host.number, outcome=outcome)

    async def _wait_until_released(
        self, host: HostName, processes: Sequence[Process], seconds: float
    ) -> dict[Process, FreedHolder]:
        """A job ends some time after it was told to."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            chips = await self._ask(host)
            if chips.problem is not None:
                return {process: _freed(process, "unknown", chips.problem) for process in processes}
            left = {_process(holder) for holder in chips.holders} & set(processes)
            if not left or loop.time() > deadline:
                return {
                    process: _freed(process, "held" if process in left else "ended")
                    for process in processes
                }
            await asyncio.sleep(LOOK_SECONDS)


def _count(node: Node) -> int:
    return max(1, len(node.endpoints))


def _ref(name: NodeName) -> str:
    return f"{name.zone}~{name.node}"


def _process(holder: ChipHolder) -> Process:
    return holder.host, holder.pid, holder.start


def _freed(process: Process, outcome: Any, problem: Problem | None = None) -> FreedHolder:
    host, pid, _ = process
    return FreedHolder(host=host, pid=pid, outcome=outcome, problem=problem)


class ChipKernelService:
    """A :class:`~jupyter_tpu.fleet.api.ChipKernelsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._observed = core.observed
        self._connected = core.connected

    async def split(self, ref: str, request: SplitChips) -> ChipKernels:
        request = validated(request)
        name = await self._finder.find(ref)
        record = self._desired.environments(name).get(request.environment)
        if record is None or record.environment.state != "ready":
            raise TPUError(
                f"{name.node} has no connected environment {request.environment}.",
                Reason.NOT_FOUND,
                f"Connect it: jupyter tpu connect {name.node} --env {request.environment}",
            )
        node = self._observed.node(name)
        kind = known_type(node.type) if node is not None else None
        of = kind.chips_per_host if kind else 0
        sizes = group_sizes(of)
        if request.each and request.each not in sizes:
            choices = " or ".join(map(str, sizes))
            raise InvalidInput(
                f"A kernel can't have {request.each} of the {of} chips of a host of {name.node}.",
                f"It can have {choices}." if sizes else "",
            )
        chosen = groups(request.each, of) if request.each else []
        specs = self._connected.split(name, record, chosen)
        generation = kind.generation if kind else ""
        return ChipKernels(
            tpu=name.node,
            zone=name.zone,
            environment=request.environment,
            kernels=[
                ChipKernel(
                    chips=chips,
                    kernelspec=kernelspec,
                    display_name=display_name,
                    variables=chip_variables(chips, of, generation, {}),
                )
                for chips, (kernelspec, display_name) in zip(chosen, specs, strict=True)
            ],
            note=_note(generation, request.each, of) if request.each else "",
        )


def _note(generation: str, count: int, of: int) -> str:
    what = f"{count} of the {of} chips of a {generation} host"
    if is_known(generation, count, of):
        return (
            f"The variables for {what} follow published recipes. jupyter-tpu has not tested them "
            "on hardware. Check jax.devices() in each notebook."
        )
    return (
        f"Whether these variables work for {what} is not known. Check jax.devices() in each "
        "notebook."
    )
