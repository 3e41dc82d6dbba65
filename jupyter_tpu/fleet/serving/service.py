"""Servers of models: started, listed and stopped.

A server is a job, and its port here a tunnel; both are stored, followed and ended as such. What is
here joins them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Sequence

import msgspec

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...progress import StepPlan
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import OperationRecord, ServerStart
from ..core.records import JobRecord
from ..forwarding.tunnels import Tunnels
from ..jobs.jobs import JobService
from ..lifecycle.power import PowerService
from ..models import (
    Job,
    JobLogQuery,
    ModelServer,
    OpenTunnel,
    Operation,
    StartModelServer,
    StartTPU,
    StopJob,
    Tunnel,
    model_server,
)
from ..models.core import validated
from ..ray.service import RayService
from .on_request import RequestStarts
from .servers import RAY_PATIENCE_SECONDS, cluster_in_use, plan_server, port_in_use

log = logging.getLogger(__name__)

HEALTH = StepPlan("health", "Wait until the server is healthy", 30)
#: Between two looks at a server that starts; seconds.
LOOK_SECONDS = 0.5
#: Between two looks for servers whose TPU was created again; seconds.
PORTS_SECONDS = 2.0
#: Lines of its output that are shown while it starts.
LAST_LINES = 20


class ServingService:
    """The servers, as a :class:`~jupyter_tpu.fleet.api.ServingAPI`."""

    def __init__(
        self, core: Core, tunnels: Tunnels, jobs: JobService, ray: RayService, power: PowerService
    ) -> None:
        self._finder = core.finder
        self._observed = core.observed
        self._runner = core.runner
        self._runner.register_resume("serve", self._resume)
        self._tunnels = tunnels
        self._jobs = jobs
        self._ray = ray
        self._power = power
        self._on_request = RequestStarts(core, jobs, power)
        tunnels.admit = self._on_request.admit
        core.ending.push_async_callback(self._on_request.close)
        core.loops.register("model servers", self.run)

    # ---- asking ----

    async def list(self, ref: str) -> Sequence[ModelServer]:
        return await self._views(await self._jobs.list(ref))

    async def all(self) -> Sequence[ModelServer]:
        return await self._views(await self._jobs.all())

    async def get(self, ref: str, id: str) -> ModelServer:
        return (await self._views([await self._job(ref, id)]))[0]

    async def _views(self, jobs: Sequence[Job]) -> Sequence[ModelServer]:
        tunnels = await self._tunnels.all()
        servers = [model_server(job) for job in jobs if job.serving is not None]
        for server in servers:
            if _is_there(server):
                for tunnel in _leading_to(server, tunnels):
                    server.tunnel = tunnel.id
                    server.url = f"http://localhost:{tunnel.local_port}"
        return servers

    async def _job(self, ref: str, id: str) -> Job:
        job = await self._jobs.get(ref, id)
        if job.serving is None:
            raise TPUError(f"The job {id} is not a server.", Reason.NOT_FOUND)
        return job

    # ---- changing ----

    async def start(self, ref: str, request: StartModelServer) -> Operation:
        request = validated(request)
        node = await self._finder.find_ready(ref)
        name = node.name
        cluster = await self._ray.get(_ref(name)) if request.ray else None
        plan = plan_server(request, cluster)
        for job in await self._jobs.list(_ref(name)):
            server = model_server(job)
            if job.serving is None or not _is_there(server):
                continue
            if server.port == plan.settings.port:
                raise port_in_use(name.node, server.port, server.name)
            if job.serving.shared and plan.settings.shared:
                raise cluster_in_use(name.node, server.name)
        if request.start_on_request:
            await self._power.require_start(node, _start_options(request))
        tunnel = None
        if request.tunnel:  # first: a local port that is in use is known before a model is loaded
            first = int(plan.job.hosts.partition(",")[0].partition("-")[0].replace("all", "0"))
            opening = OpenTunnel(port=plan.settings.port, local_port=request.local_port, host=first)
            tunnel = await self._tunnels.open(_ref(name), opening)
        try:
            id = uuid.uuid4().hex[:8]
            port = tunnel.local_port if tunnel is not None else None
            job = await self._jobs.start_server(name, plan.job, id, plan.settings, port)
        except BaseException:
            if tunnel is not None:
                await self._close(_ref(name), tunnel.id)
            raise
        record = self._runner.new_record("serve", name, ServerStart(job=job.id))
        return await self._runner.start(record, lambda progress: self._wait(record, progress))

    async def stop(self, ref: str, id: str, options: StopJob | None = None) -> ModelServer:
        job = await self._job(ref, id)
        if job.serving is not None and job.serving.shared and options in (None, StopJob()):
            options = StopJob(patience=RAY_PATIENCE_SECONDS)
        job = await self._jobs.stop(ref, id, options)
        await self._close_port(model_server(job))
        return (await self._views([job]))[0]

    async def _close_port(self, ended: ModelServer) -> None:
        """Closes the port here of a server that has ended, or is about to."""
        ref = f"{ended.zone}~{ended.tpu}"
        for server in await self.list(ref):
            at_port = (server.host, server.port) == (ended.host, ended.port)
            if server.id != ended.id and at_port and _is_there(server):
                return  # which has it now
        for tunnel in _leading_to(ended, await self._tunnels.all()):
            await self._close(ref, tunnel.id)

    async def _close(self, ref: str, tunnel: str) -> None:
        with contextlib.suppress(TPUError):  # closed meanwhile, or by another command
            await self._tunnels.close(ref, tunnel)

    # ---- the loop ----

    async def run(self) -> None:
        """Opens the local ports of servers again whose TPU was created again, until cancelled."""
        while True:
            for record in self._jobs.servers_without_port():
                await self._reopen(record)
            await asyncio.sleep(PORTS_SECONDS)

    async def _reopen(self, record: JobRecord) -> None:
        node = self._observed.node(record.name)
        if node is None or record.serving is None:
            return
        opening = OpenTunnel(
            port=record.serving.port, local_port=record.local_port, host=record.hosts[0]
        )
        for tunnel in self._tunnels.kept(record.name):
            if (tunnel.port, tunnel.host) == (opening.port, opening.host):
                if tunnel.node_id != node.id:
                    return  # that of the TPU before, which is about to be closed
                return self._jobs.note_port(record.id, node.id)
        try:
            await self._tunnels.open(_ref(record.name), opening)
        except TPUError as error:
            log.warning("The local port of the server %s can't be opened: %s", record.id, error)
            if error.reason not in (Reason.CONFLICT, Reason.PERMISSION, Reason.INVALID):
                return  # it is tried again
        self._jobs.note_port(record.id, node.id)

    # ---- starting ----

    def _resume(self, record: OperationRecord) -> None:
        self._runner.resume(record, lambda progress: self._wait(record, progress))

    async def _wait(self, record: OperationRecord, progress: OperationProgress) -> None:
        """Waits until the server is healthy. A cancelled start ends the server."""
        ref, id = _ref(record.name), record.of(ServerStart).job
        progress.plan([HEALTH])
        progress.begin(HEALTH.key)
        try:
            server = await self._healthy(ref, id, progress)
        except asyncio.CancelledError:
            if not self._runner.closing:
                with contextlib.suppress(TPUError):
                    await self.stop(ref, id)
            raise
        except TPUError:
            with contextlib.suppress(TPUError):
                await self.stop(ref, id)  # it has ended; its port here goes, too
            raise
        progress.operation.result = msgspec.to_builtins(server)
        progress.done(HEALTH.key)
        if server.problem is not None:
            progress.log(f"{server.problem.message} {server.problem.hint}")
        where = f" Its URL: {server.url}" if server.url else ""
        progress.log(f"{server.name} is healthy.{where}")

    async def _healthy(self, ref: str, id: str, progress: OperationProgress) -> ModelServer:
        reader = _LogLines(self._jobs, ref, id, progress)
        while True:
            job = await self._jobs.get(ref, id)
            server = model_server(job)
            if server.state == "healthy":
                return await self.get(ref, id)
            if job.over or job.stopped:
                await reader.read()
                raise _ended(job, server)
            if server.state == "unknown":
                progress.block(TPUError(server.cause, Reason.UNREACHABLE, "Will be retried."))
            else:
                progress.block(None)
                await reader.read()
                cause = f" ({server.cause.rstrip('.')})" if server.cause else ""
                progress.set_message(f"{HEALTH.title}{cause}")
            await asyncio.sleep(LOOK_SECONDS)


class _LogLines:
    """Shows what a server prints while it starts, in its operation."""

    def __init__(self, jobs: JobService, ref: str, id: str, progress: OperationProgress) -> None:
        self._jobs = jobs
        self._ref = ref
        self._id = id
        self._progress = progress
        self._query = JobLogQuery(start=-LAST_LINES, limit=LAST_LINES)

    async def read(self) -> None:
        with contextlib.suppress(TPUError):
            log = await self._jobs.log(self._ref, self._id, self._query)
            for line in log.lines:
                self._progress.log(line.text)
            # Of a server that prints much, the last lines are enough.
            self._query.start = max(log.next, log.last - LAST_LINES)


def _ended(job: Job, server: ModelServer) -> TPUError:
    if job.stopped:
        return TPUError("The server was stopped while it started.", Reason.CONFLICT)
    why = server.problem.message if server.problem is not None else server.cause
    return TPUError(
        f"The server did not start. {why}",
        Reason(server.problem.reason) if server.problem is not None else Reason.ENVIRONMENT,
        f"Its whole output: jupyter tpu serve logs {job.tpu} {job.id}",
    )


def _is_there(server: ModelServer) -> bool:
    return server.state not in ("stopped", "failed")


def _leading_to(server: ModelServer, tunnels: Sequence[Tunnel]) -> list[Tunnel]:
    where = (server.tpu, server.zone, server.host, server.port)
    return [
        tunnel for tunnel in tunnels if (tunnel.tpu, tunnel.zone, tunnel.host, tunnel.port) == where
    ][:1]


def _start_options(request: StartModelServer) -> StartTPU:
    return StartTPU(confirm_price=request.confirm_price, max_price=request.max_price)


def _ref(name: NodeName) -> str:
    return f"{name.zone}~{name.node}"
