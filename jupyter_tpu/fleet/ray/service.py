"""Ray on the hosts of a TPU: Ray's own programs, as a job that runs on all hosts.

Placing tasks, retrying them and their results are Ray's business; nothing of that is here.
Only the job that runs Ray on the hosts is stored. Like any job it is followed, started again with
its TPU, and forgotten with it. Ray itself reports the state of the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Literal

from ...cloud import Node, NodeName, is_emulated
from ...concurrency import gather_or_cancel
from ...environment import packages
from ...errors import Reason, TPUError
from ...links import HostName, Link
from ...progress import StepPlan
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..environments.environment import LINKS, connect_hosts
from ..environments.packages import EnvironmentService
from ..forwarding.apps import Apps
from ..jobs.jobs import JobService
from ..models import (
    App,
    HostJob,
    Job,
    JobLogQuery,
    OpenApp,
    Operation,
    Problem,
    Ray,
    RayHost,
    StartJob,
    StartRay,
    StopJob,
)
from ..models.core import known_type, validated
from . import hosts as ray
from .hosts import RayOnHost, RayState

LOOK = StepPlan("look", "Look for Ray", 3)
START = StepPlan("start", "Start Ray", 30)
OPEN = StepPlan("open", "Open the dashboard", 1)
#: How long the link to host 0 may take to come up; seconds.
LINK_UP = 60.0
#: In which all hosts must have joined. Ray starts slowly on a slow disk; seconds.
JOIN_SECONDS = 600.0
#: Between two looks at a cluster that starts; seconds.
LOOK_SECONDS = 1.0
#: In which Ray may end its programs on a host, before they are killed; seconds.
END_PATIENCE_SECONDS = 60.0
#: Lines of the log of a host on which Ray did not start.
LAST_LINES = 20


class RayService:
    """The Ray clusters, as a :class:`~jupyter_tpu.fleet.api.RayAPI`."""

    def __init__(
        self, core: Core, apps: Apps, environments: EnvironmentService, jobs: JobService
    ) -> None:
        self._cloud = core.cloud
        self._finder = core.finder
        self._desired = core.desired
        self._connections = core.connections
        self._runner = core.runner
        self._apps = apps
        self._environments = environments
        self._jobs = jobs

    # ---- asking ----

    async def get(self, ref: str) -> Ray:
        name = await self._finder.find(ref)
        job = await self._job(name)
        if job is None:
            return Ray(tpu=name.node, zone=name.zone, state="stopped")
        shown = Ray(
            tpu=name.node,
            zone=name.zone,
            state=_state(job),
            job=job.id,
            environment=job.environment,
            problem=_problem(job),
        )
        if shown.state in ("starting", "running", "failed") and not job.over:
            try:
                async with self._connections.borrow(HostName(name, 0), LINK_UP) as link:
                    _add_state(shown, await self._node(name), await ray.state(link))
            except TPUError as error:
                shown.state, shown.problem = "unknown", Problem.of(error)
        return shown

    async def open_dashboard(self, ref: str) -> App:
        node = await self._finder.find_ready(ref)
        async with self._connections.borrow(HostName(node.name, 0), LINK_UP) as link:
            state = await ray.state(link)
        if not state.answers:
            raise TPUError(
                f"Ray does not run on {node.name.node}.",
                Reason.CONFLICT,
                f"Start it: jupyter tpu ray start {node.name.node}",
            )
        return await self._open(node, state)

    # ---- changing ----

    async def start(self, ref: str, request: StartRay) -> Operation:
        request = validated(request)
        node = await self._finder.find_ready(ref)
        name = node.name
        python = self._python(name, request.environment)

        async def work(progress: OperationProgress) -> None:
            begins = False  # whether it is this operation that starts Ray
            hosts = max(1, len(node.endpoints))
            plans = [LINKS, LOOK, packages.CHANGE, packages.SYNC, START, OPEN]
            progress.plan(plans, hosts, measured=True)
            held = name in self._connections
            links = self._connections.acquire(name, hosts)
            try:
                await connect_hosts(links, progress)
                job = await self._running(name, progress)
                begins = job is None
                if job is None:
                    examined = await self._prepare(name, request, python, links, progress)
                    progress.begin(START.key)
                    await gather_or_cancel([ray.clear(link) for link in links])
                    job = await self._start_job(node, request, examined)
                    progress.log(f"Ray runs as the job {job.id}")
                await self._wait_until_joined(node, job, links[0], progress)
            except asyncio.CancelledError:
                if begins and not self._runner.closing:
                    await self._stop_job(name)
                raise
            except TPUError as error:
                if not begins:  # it may run on the other hosts, with someone's tasks
                    error.hint = f"To start it again: jupyter tpu ray stop {name.node}, then start."
                else:
                    with contextlib.suppress(TPUError):  # the first one says more
                        await self._stop_job(name)
                raise
            finally:
                if not held:
                    self._connections.release(name)

        return await self._runner.start_exclusive(self._runner.new_record("ray", name), work)

    async def stop(self, ref: str) -> Ray:
        name = await self._finder.find(ref)
        await self._stop_job(name)
        for app in self._apps.list_open():
            if (app.kind, app.tpu, app.zone) == ("ray", name.node, name.zone):
                with contextlib.suppress(TPUError):
                    await self._apps.close(app.id)
        return await self.get(ref)

    # ---- starting ----

    async def _running(self, name: NodeName, progress: OperationProgress) -> Job | None:
        """The job that runs Ray there already, or is about to. One whose head has ended is stopped
        first, and one that is being stopped is waited for.
        """
        job = await self._job(name)
        if job is None or job.over:
            return None
        if job.stopped:
            progress.log(f"Waiting until the Ray of the job {job.id} has ended")
        elif not _head_ended(job):
            for step in (LOOK, packages.CHANGE, packages.SYNC):
                progress.done(step.key, "skipped")
            progress.begin(START.key)
            progress.log(f"Ray is already there, as the job {job.id}")
            return job
        else:
            progress.log(f"Ray has ended on host 0. Stopping the job {job.id} on the other hosts")
            await self._jobs.stop(_ref(name), job.id, StopJob(patience=END_PATIENCE_SECONDS))
        try:
            async with asyncio.timeout(END_PATIENCE_SECONDS + LINK_UP):
                while not job.over:
                    await asyncio.sleep(LOOK_SECONDS)
                    job = await self._jobs.get(_ref(name), job.id)
        except TimeoutError:
            raise TPUError(
                f"The job {job.id} on {name.node} does not end.",
                Reason.TIMEOUT,
                f"Which host it still runs on: jupyter tpu job list {name.node}",
            ) from None
        return None

    async def _prepare(
        self,
        name: NodeName,
        request: StartRay,
        python: str,
        links: list[Link],
        progress: OperationProgress,
    ) -> list[RayOnHost]:
        """What the hosts say of Ray, once all of them have the same."""
        progress.begin(LOOK.key)
        examined = await ray.examine(links, python, progress.log)
        progress.done(LOOK.key)
        if request.install and ray.missing_on(examined):
            ray.require_space(examined)
            add = [] if examined[0].version else [ray.REQUIREMENT]
            await self._environments.install(name, request.environment, add, links, progress)
            examined = await ray.examine(links, python, progress.log)
        else:
            progress.done(packages.CHANGE.key, "skipped")
            progress.done(packages.SYNC.key, "skipped")
        ray.require_ray(examined, name.node, request.environment)
        return examined

    async def _start_job(self, node: Node, request: StartRay, examined: list[RayOnHost]) -> Job:
        name = node.name
        type_ = known_type(node.type)
        emulated = is_emulated(self._cloud, name)
        variables = ray.variables(
            examined,
            examined[0].token or secrets.token_hex(32),
            tpu=name.node,
            emulated_chips=(type_.chips_per_host if type_ else 0) if emulated else None,
        )
        order = StartJob(
            command=ray.COMMAND,
            name="Ray",
            environment=request.environment,
            variables=variables,
            restart_with_tpu=True,
            end_together=False,
        )
        return await self._jobs.start(_ref(name), order)

    async def _stop_job(self, name: NodeName) -> None:
        job = await self._job(name)
        if job is not None and not job.over:
            await self._jobs.stop(_ref(name), job.id, StopJob(patience=END_PATIENCE_SECONDS))

    async def _wait_until_joined(
        self, node: Node, job: Job, head: Link, progress: OperationProgress
    ) -> None:
        """Returns when all hosts are in the cluster, and its dashboard is open."""
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                state = await self._joined(node, job, head, progress)
        except TimeoutError:
            raise TPUError(
                f"Not all hosts of {node.name.node} have joined Ray in "
                f"{JOIN_SECONDS / 60:.0f} minutes.",
                Reason.TIMEOUT,
                f"Their logs: jupyter tpu job logs {node.name.node} {job.id}",
            ) from None
        progress.done(START.key)
        progress.begin(OPEN.key)
        progress.operation.app = (await self._open(node, state)).id
        progress.done(OPEN.key)
        progress.log(
            f"Ray runs at {state.head}:{state.port}; ray.init() in a kernel there finds it"
        )

    async def _joined(
        self, node: Node, job: Job, head: Link, progress: OperationProgress
    ) -> RayState:
        joined: set[int] = set()
        while True:
            job = await self._jobs.get(_ref(node.name), job.id)
            ended = [host for host in job.attempts[-1].hosts if _has_ended(host)]
            if ended or job.stopped:
                raise await self._why_ended(node.name, job, ended, progress)
            try:
                state = await ray.state(head)
            except TPUError as error:
                if error.reason not in (Reason.UNREACHABLE, Reason.TIMEOUT):
                    raise
                progress.block(error)  # it goes on there, and is seen when the link is back
                await asyncio.sleep(LOOK_SECONDS)
                continue
            progress.block(None)
            shown = Ray(tpu=node.name.node, zone=node.name.zone, state="starting")
            _add_state(shown, node, state)
            for host in shown.hosts:
                if host.state == "alive" and host.host not in joined:
                    joined.add(host.host)
                    progress.host_done(START.key)
                    progress.log(f"Host {host.host} has joined")
            if shown.state == "running" and len(joined) == len(shown.hosts):
                return state
            await asyncio.sleep(LOOK_SECONDS)

    async def _why_ended(
        self, name: NodeName, job: Job, ended: list[HostJob], progress: OperationProgress
    ) -> TPUError:
        """Puts the last lines of a host on which Ray did not start into the operation's log."""
        if not ended:
            return TPUError("Ray was stopped while it was started.", Reason.CONFLICT)
        host, last = ended[0], ""
        with contextlib.suppress(TPUError):
            query = JobLogQuery(host=host.host, start=-LAST_LINES)
            for line in (await self._jobs.log(_ref(name), job.id, query)).lines:
                progress.log(f"host {host.host}: {line.text}")
                last = line.text.strip(". \n") or last
        problem = host.problem or _problem(job)
        message = problem.message if problem else "Ray has ended."
        if last and not last.endswith(("?", "!")):
            last += "."
        return TPUError(
            f"{message} {last}".strip(),
            Reason(problem.reason) if problem else Reason.ENVIRONMENT,
            f"Its whole output: jupyter tpu job logs {name.node} {job.id} --worker {host.host}",
        )

    # ---- inside ----

    async def _job(self, name: NodeName) -> Job | None:
        """The newest job that runs Ray there, or ran it."""
        jobs = await self._jobs.list(_ref(name))
        return next((job for job in reversed(jobs) if ray.PROGRAM in job.variables), None)

    async def _node(self, name: NodeName) -> Node:
        return await self._finder.find_ready(_ref(name))

    async def _open(self, node: Node, state: RayState) -> App:
        return await self._apps.open_on(
            node,
            OpenApp(port=state.dashboard, name="Ray"),
            kind="ray",
            headers=[("X-Ray-Authorization", f"Bearer {state.token}")],
        )

    def _python(self, name: NodeName, environment: str) -> str:
        """The path of its Python; raises NOT_FOUND."""
        record = self._desired.environments(name).get(environment)
        if record is None or record.environment.state != "ready":
            raise TPUError(
                f"{name.node} has no connected environment {environment}.",
                Reason.NOT_FOUND,
                f"Connect it: jupyter tpu connect {name.node} --env {environment}",
            )
        return record.host_python


def _ref(name: NodeName) -> str:
    return f"{name.zone}~{name.node}"


def _has_ended(host: HostJob) -> bool:
    return host.state in ("ended", "failed", "lost") and not host.restarted


def _head_ended(job: Job) -> bool:
    return _has_ended(job.attempts[-1].hosts[0])


def _state(job: Job) -> Literal["stopped", "starting", "stopping", "failed", "unknown"]:
    """The state of a cluster, as far as its job says it."""
    if job.stopped:
        return "stopped" if job.over else "stopping"
    if job.over or _head_ended(job):
        return "failed"
    return "unknown" if job.state == "unknown" else "starting"


def _problem(job: Job) -> Problem | None:
    """Why it does not run on a host."""
    for host in job.attempts[-1].hosts:
        if not job.stopped and _has_ended(host):
            how = f" with exit code {host.exit_code}" if host.exit_code is not None else ""
            text = f"Ray has ended on host {host.host}{how}."
            return host.problem or Problem(
                message=text,
                reason=Reason.ENVIRONMENT,
                hint=f"Its output: jupyter tpu job logs {job.tpu} {job.id} --worker {host.host}",
            )
    return None


def _add_state(shown: Ray, node: Node, state: RayState) -> None:
    """Adds what the head says to *shown*."""
    if state.head:
        shown.address = f"{state.head}:{state.port}"
    shown.dashboard_port, shown.version = state.dashboard, state.version
    nodes = {ray_node.address: ray_node for ray_node in state.nodes if ray_node.alive}
    addresses = ray.known_addresses([endpoint.internal for endpoint in node.endpoints])
    for host, address in enumerate(addresses):
        alive = nodes.get(address)
        shown.hosts.append(
            RayHost(
                host=host,
                address=address,
                state="alive" if alive else "missing",
                chips=alive.chips if alive else 0,
                processors=alive.processors if alive else 0,
            )
        )
    if state.answers and shown.hosts[0].state == "alive" and shown.state == "starting":
        shown.state = "running"
