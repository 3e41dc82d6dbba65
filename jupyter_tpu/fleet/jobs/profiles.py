"""Profiles of a TPU: traces of all hosts at once, shown in TensorBoard, and what fills memory."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec

from ...cloud import Node
from ...concurrency import gather_or_cancel
from ...errors import InvalidInput, Reason, TPUError
from ...files.copy.spreading import collect_on_host, failed_copy
from ...links import HostName, Link
from ...progress import StepPlan
from ...wording import hosts_text
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..core.known_operations import OperationProgress
from ..forwarding import tensorboard
from ..forwarding.apps import LINK_UP, SHOW_STEPS, TensorBoardService, check_logdir
from ..kernels.kernels import KernelService
from ..models import (
    Kernel,
    MemoryProfile,
    MemoryProfiles,
    MemoryQuery,
    Operation,
    Problem,
    Profile,
    ProfileTPU,
    Trace,
)
from ..models.core import validated
from . import host_profiles as profiles
from .host_profiles import KernelMemory, TracedKernel
from .pprof import read_memory_profile

#: Where traces go by default; below the home.
TRACES = "~/.jupyter-tpu/traces"
#: Seconds that one trace may take: what JAX records meanwhile stays in the kernel's memory.
LONGEST_TRACE_SECONDS = 120.0
#: Seconds until hosts begin to trace together: each first connects to its kernels.
LEAD_SECONDS = 3.0

_USE_JAX = "Run a cell that uses JAX first."
_OR_PORT = (
    f"{_USE_JAX} A job is traced if it calls jax.profiler.start_server(9999) and the port 9999 is "
    "given here."
)


class ProfileService:
    """A :class:`~jupyter_tpu.fleet.api.ProfilesAPI`; several may run at the same time."""

    def __init__(self, core: Core, kernels: KernelService, boards: TensorBoardService) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._links = core.links
        self._connections = core.connections
        self._kernels = kernels
        self._boards = boards
        self._runner = core.runner

    async def start(self, ref: str, request: ProfileTPU | None = None) -> Operation:
        request = _checked(validated(request or ProfileTPU()))
        node = await self._finder.find_ready(ref)
        hosts = await self._hosts(node, request.hosts, request.kernels)

        async def work(progress: OperationProgress) -> None:
            await self._profile(node, hosts, request, progress)

        return await self._runner.start(self._runner.new_record("profile", node.name), work)

    async def memory(self, ref: str, query: MemoryQuery | None = None) -> MemoryProfiles:
        query = validated(query or MemoryQuery())
        node = await self._finder.find_ready(ref)
        only = [query.kernel] if query.kernel else []
        hosts = await self._hosts(node, query.hosts or "all", only)
        answers = await gather_or_cancel([self._memory_on(node, host, only) for host in hosts])
        return MemoryProfiles(
            tpu=node.name.node,
            zone=node.name.zone,
            emulated=self._emulated(node),
            profiles=[profile for host in answers for profile in host],
        )

    def _emulated(self, node: Node) -> bool:
        return self._links.cloud.emulated and node.chips is None

    async def _hosts(self, node: Node, chosen: str, kernels: Sequence[str]) -> list[int]:
        """The wanted ones, or with *kernels* those of them that have these."""
        hosts = host_numbers(chosen, max(1, len(node.endpoints)), node.name.node)
        if not kernels:
            return hosts
        having = {(await self._kernels.require(node.name, id)).host for id in kernels}
        if not having & {*hosts}:
            raise InvalidInput(f"The kernel is on {hosts_text(sorted(having))}.")
        return sorted(having & {*hosts})

    async def _kernels_on(self, host: HostName, only: Sequence[str]) -> list[Kernel]:
        if not self._desired.environments(host.node):  # no kernel of ours can be there
            return []
        kernels = [kernel for kernel in await self._kernels.list_on(host) if kernel.state != "dead"]
        return [kernel for kernel in kernels if not only or kernel.id in only]

    def _traced(self, host: HostName, kernel: Kernel, name: str = "") -> TracedKernel:
        record = self._desired.environments(host.node).get(kernel.environment)
        return TracedKernel(
            id=kernel.id,
            environment=kernel.environment,
            python=record.host_python if record is not None else "",
            name=name,
        )

    # ---- traces ----

    async def _profile(
        self, node: Node, hosts: Sequence[int], request: ProfileTPU, progress: OperationProgress
    ) -> None:
        several = len(hosts) > 1
        steps = [StepPlan("trace", f"Trace for {request.seconds:g} s", 10)]
        if several:
            steps.append(StepPlan("collect", "Bring the traces to one host", 5))
        progress.plan([*tensorboard.INSTALL_STEPS, *steps, *SHOW_STEPS], measured=True)
        run = time.strftime("%Y_%m_%d_%H_%M_%S", time.gmtime())
        profile = Profile(
            tpu=node.name.node,
            zone=node.name.zone,
            emulated=self._emulated(node),
            logdir=(request.logdir or TRACES).rstrip("/"),
            run=run,
            host=hosts[0],
        )
        # Beside the runs: an open TensorBoard would show one of which traces are missing yet.
        folder = f"{profile.logdir}/{profiles.COLLECTING}{run}"
        try:
            listed = await self._list_kernels(node, hosts, request, profile)
            async with contextlib.AsyncExitStack() as stack:
                # First, so that the traces do not wait for it.
                link = await self._install(stack, node, listed, progress)
                profile.host = link.host.number
                progress.begin("trace")
                await self._trace_hosts(node, listed, request, folder, profile, progress)
                progress.done("trace")
                if several:
                    progress.begin("collect")
                    await self._collect(node, link, folder, profile)
                    progress.done("collect")
                await self._finish(node, folder, profile)
                _log_problems(profile, progress.log)
                _require_one(profile)
                await self._boards.show(node, link, profile.logdir, progress)
        finally:
            progress.operation.result = msgspec.to_builtins(profile)

    async def _list_kernels(
        self, node: Node, hosts: Sequence[int], request: ProfileTPU, profile: Profile
    ) -> dict[int, list[Kernel]]:
        """Those of each host that answers. Raises why there is nothing to trace."""

        async def ask(host: int) -> list[Kernel] | None:
            try:
                return await self._kernels_on(HostName(node.name, host), request.kernels)
            except TPUError as error:
                profile.traces.append(_failed(host, error))
                return None

        answers = await gather_or_cancel([ask(host) for host in hosts])
        listed = {
            host: kernels
            for host, kernels in zip(hosts, answers, strict=True)
            if kernels is not None
        }
        if not (listed and (request.port or any(listed.values()))):
            profile.traces += [_idle(host) for host in listed]
            _require_one(profile)
        return listed

    async def _install(
        self,
        stack: contextlib.AsyncExitStack,
        node: Node,
        listed: Iterable[int],
        progress: OperationProgress,
    ) -> Link:
        """TensorBoard, on the first host that can be reached."""
        for host in listed:
            name = HostName(node.name, host)
            try:
                link = await stack.enter_async_context(self._connections.borrow(name, LINK_UP))
            except TPUError:
                if host == [*listed][-1]:
                    raise
            else:
                break
        await tensorboard.install(link, progress)
        return link

    async def _trace_hosts(
        self,
        node: Node,
        listed: Mapping[int, list[Kernel]],
        request: ProfileTPU,
        folder: str,
        profile: Profile,
        progress: OperationProgress,
    ) -> None:
        """All at once. A host that fails does not stop the others."""
        lead = LEAD_SECONDS if len(listed) > 1 else 0.0
        start = time.time() + lead

        async def trace(host: int, kernels: list[Kernel]) -> list[Trace]:
            name = HostName(node.name, host)
            if not (kernels or request.port):
                return [_idle(host)]
            file = f"host-{host}"
            many = len(kernels) > 1
            traced_kernels = [
                self._traced(name, kernel, f"{file}-{kernel.id[:8]}" if many else file)
                for kernel in kernels
            ]
            port = (request.port, f"{file}-port-{request.port}") if request.port else None
            try:
                idle = await self._idle_on(name, kernels)
                async with self._connections.borrow(name, LINK_UP) as link:
                    answers = await profiles.trace(
                        link,
                        traced_kernels,
                        port,
                        folder,
                        seconds=request.seconds,
                        start=start,
                        lead=lead,
                        log=progress.log,
                    )
                idle &= await self._idle_on(name, kernels)
            except TPUError as error:
                return [_failed(host, error)]
            programs = [*kernels, *([None] if port else [])]
            pairs = zip(programs, answers, strict=True)
            return [_trace(host, *pair, idle) for pair in pairs]

        traced = await gather_or_cancel([trace(*arguments) for arguments in listed.items()])
        profile.traces += [outcome for host in traced for outcome in host]
        profile.traces.sort(key=lambda trace: trace.host)

    async def _idle_on(self, host: HostName, kernels: Sequence[Kernel]) -> set[str]:
        """The ids of those of *kernels* that run no cell now."""
        ids = [kernel.id for kernel in kernels]
        now = await self._kernels_on(host, ids) if ids else []
        return {kernel.id for kernel in now if kernel.state == "idle"}

    async def _collect(self, node: Node, link: Link, folder: str, profile: Profile) -> None:
        """What can't be brought to TensorBoard's host stays on its own."""
        sources: dict[int, list[Trace]] = {}
        for trace in profile.traces:
            if trace.state == "done" and trace.host != profile.host:
                sources.setdefault(trace.host, []).append(trace)
        if not sources:
            return
        paths = {host: [trace.path for trace in traces] for host, traces in sources.items()}
        try:
            await profiles.make_folder(link, folder)
            copies = await collect_on_host(self._links, node, profile.host, paths)
        except TPUError as error:
            copies = {host: failed_copy(host, error) for host in paths}
        for host, copy in copies.items():
            why = (
                copy.problem.message
                if copy.problem
                else "".join(problem.message for problem in copy.problems)
            )
            for trace in sources[host] if why else ():
                trace.state = "failed"
                trace.problem = Problem(
                    message=f"Its trace could not be brought to host {profile.host}: {why}",
                    reason=copy.problem.reason if copy.problem else Reason.INTERRUPTED,
                )

    async def _finish(self, node: Node, folder: str, profile: Profile) -> None:
        """Makes the collected traces a run. On a host that has only its own this may fail."""

        async def finish(host: int) -> None:
            try:
                async with self._connections.borrow(HostName(node.name, host), LINK_UP) as link:
                    to = f"{profile.logdir}/plugins/profile/{profile.run}"
                    path = await profiles.finish_run(link, folder, to)
            except TPUError:
                if host == profile.host:
                    raise
                return  # it goes on without them
            for trace in profile.traces:
                if trace.host == host and trace.path:
                    trace.path = posixpath.join(path, posixpath.basename(trace.path))
                    if trace.problem is not None:
                        trace.problem.hint = f"It stays on host {host}: {trace.path}"
            if host == profile.host:
                finished.append(posixpath.basename(path))

        finished: list[str] = []
        hosts = {trace.host for trace in profile.traces if trace.path}
        if hosts:
            await gather_or_cancel([finish(host) for host in sorted({*hosts, profile.host})])
            profile.run = finished[0]

    # ---- memory ----

    async def _memory_on(self, node: Node, host: int, only: Sequence[str]) -> list[MemoryProfile]:
        name = HostName(node.name, host)
        try:
            kernels = await self._kernels_on(name, only)
            if not kernels:
                raise _no_kernel(_USE_JAX)
            async with self._connections.borrow(name, LINK_UP) as link:
                answers = await profiles.profile_memory(
                    link, [self._traced(name, kernel) for kernel in kernels]
                )
        except TPUError as error:
            return [MemoryProfile(host=host, problem=Problem.of(error))]
        pairs = zip(kernels, answers, strict=True)
        return [await asyncio.to_thread(_memory_of, *pair) for pair in pairs]


def _memory_of(kernel: Kernel, answer: KernelMemory | TPUError) -> MemoryProfile:
    try:
        if isinstance(answer, TPUError):
            raise answer
        profile = read_memory_profile(answer.data, answer.cells)
    except TPUError as error:
        profile = MemoryProfile(problem=Problem.of(error))
    return msgspec.structs.replace(
        profile, host=kernel.host, kernel=kernel.id, notebook=kernel.notebook
    )


def _trace(
    host: int,
    kernel: Kernel | None,
    answer: profiles.WrittenTrace | TPUError,
    idle_kernels: Container[str],
) -> Trace:
    if isinstance(answer, TPUError):
        trace = _failed(host, answer, idle=answer.reason is Reason.CONFLICT)
    else:
        trace = Trace(
            host=host,
            state="done",
            path=answer.path,
            bytes=answer.bytes,
            began=answer.began,
            ended=answer.ended,
            kernel_idle=kernel is not None and kernel.id in idle_kernels,
        )
    if kernel is not None:
        trace.kernel, trace.notebook = kernel.id, kernel.notebook
    return trace


def _failed(host: int, error: TPUError, *, idle: bool = False) -> Trace:
    return Trace(host=host, state="idle" if idle else "failed", problem=Problem.of(error))


def _no_kernel(hint: str) -> TPUError:
    return TPUError("No kernel runs on this host.", Reason.CONFLICT, hint)


def _idle(host: int) -> Trace:
    return _failed(host, _no_kernel(_OR_PORT), idle=True)


def _log_problems(profile: Profile, log: Callable[[str], None]) -> None:
    for hosts, problem in profile.not_traced():
        log(f"Not traced: {hosts_text(hosts)}. {problem.message} {problem.hint}".rstrip())


def _require_one(profile: Profile) -> None:
    """Raises why no program was traced."""
    if any(trace.state == "done" for trace in profile.traces):
        return
    failed = [trace for trace in profile.traces if trace.state == "failed"]
    [first, *others] = failed or profile.traces
    assert first.problem is not None
    error = first.problem.to_error()
    if others and not failed:
        error.message = f"No kernel on {profile.tpu} uses JAX."
    elif len(profile.traces) > 1:
        error.message = f"No program was traced. Host {first.host}: {error.message}"
    raise error


def _checked(request: ProfileTPU) -> ProfileTPU:
    if not 0 < request.seconds <= LONGEST_TRACE_SECONDS:
        raise InvalidInput(
            f"A trace can't take {request.seconds:g} seconds.",
            f"Choose up to {LONGEST_TRACE_SECONDS:g} seconds; one to five are usual.",
        )
    if request.logdir:
        check_logdir(request.logdir)
        if "://" in request.logdir:
            raise InvalidInput("A trace is written to a folder of the host.")
    return request
