"""How jobs on hosts follow their records: started, stopped, started again, and what hosts report.

The poller reports those that run.

A job is started on each of its hosts under the id ``JOB-ATTEMPT``. A host that was asked before
starts nothing, so it can be asked again after any interruption, by any process. What a host does
not say is not known: its job is "unknown" until the host can be asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from ...cloud import Node, NodeName, NodeState
from ...concurrency import cancel_all, gather_or_cancel
from ...environment import launch_variables, single_host_variables
from ...errors import Reason, TPUError
from ...links import HostName
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.declarations import Answer, ProtocolRequest
from ...on_host.agent.protocol.records import JobReport
from ...tokens import passed_variables
from ..core.connections import ANSWER_SECONDS, HostConnections
from ..core.desired import DesiredState
from ..core.observer import ObservedState
from ..core.records import JobRecord
from ..files.sync import SyncService
from ..homes.service import HomeService
from ..models import AGENT, HostJob, Problem
from ..models.core import known_type
from .job_records import (
    FINAL,
    JobRecords,
    group_restarts,
    host_job,
    is_final,
    lost_partner,
    to_restart,
)

log = logging.getLogger(__name__)

#: Between two attempts to reach a host, and after an answer that can't be read; seconds.
RETRY_SECONDS, UNREADABLE_RETRY_SECONDS = 3.0, 30.0
#: Jobs are looked through so often even if nothing seems to have happened; seconds.
LOOK_SECONDS = 5.0
#: Why a host does not start a job, now and later. After others it is asked again.
_REFUSED = (Reason.NO_FOLDER, Reason.DISK_FULL, Reason.INVALID, Reason.INTERNAL, Reason.NO_PYTHON,
            Reason.LOGIN_SHELL)  # fmt: skip


class JobFollower:
    """Starts and stops jobs on their hosts, and takes the hosts' reports. On the core loop.

    supervised: whether :meth:`run` does so; if not, :meth:`ask_hosts` asks when needed.
    """

    def __init__(
        self,
        records: JobRecords,
        connections: HostConnections,
        desired: DesiredState,
        observed: ObservedState,
        sync: SyncService,
        homes: HomeService,
    ) -> None:
        self.supervised = False
        self._sync = sync
        self._homes = homes
        self._records = records
        self._connections = connections
        self._desired = desired
        self._observed = observed
        self._versions: dict[tuple[str, int], int] = {}  # of the hosts' reports
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Follows the jobs on their hosts until it is cancelled."""
        self.supervised = True
        try:
            while True:
                self._wake.clear()
                for record in self._records.all():
                    self._reconcile(record)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._wake.wait()
        finally:
            self.supervised = False
            await self.shut_down()

    def wake(self) -> None:
        """The records have changed."""
        self._wake.set()

    async def shut_down(self) -> None:
        """Ends the asking; the jobs continue."""
        await cancel_all(self._tasks.values())

    async def ask_hosts(self, records: Iterable[JobRecord]) -> None:
        """Starts, stops and asks once for the jobs that have not ended, on all their hosts.

        A host that can't be asked is in the job's state.
        """
        await gather_or_cancel(
            [
                self._ask_once(record.id, host.host)
                for record in records
                for host in record.attempts[-1].hosts
                if host.state not in FINAL
            ]
        )

    async def request(
        self,
        name: NodeName,
        host: int,
        request: ProtocolRequest[Answer],
        timeout: float = ANSWER_SECONDS,
    ) -> Answer:
        """The answer of a host's daemon; see `HostConnections.request_host`."""
        return await self._connections.request_host(HostName(name, host), request, timeout)

    def _reconcile(self, record: JobRecord) -> None:
        node = self._observed.node(record.name)
        if node is None:
            return
        preempted = node.state.gone  # then it waits for a successor of the same name
        if preempted != record.preempted and not is_final(record):
            self._records.change(record.id, lambda record: setattr(record, "preempted", preempted))
        attempt = record.attempts[-1]
        if node.state is not NodeState.READY:
            why = f"The TPU {record.tpu} is {node.state.lower()}."
            for host in attempt.hosts:
                if host.state not in FINAL:
                    self._update(record.id, attempt.number, host.host, state="unknown", cause=why)
            return
        if to_restart(record) and all(host.state in FINAL for host in attempt.hosts):
            self._records.begin_attempt(record.id, after=attempt.number)
        for host in record.attempts[-1].hosts:
            key = (record.id, host.host)
            if _is_due(record, host) and key not in self._tasks:
                task = asyncio.create_task(self._act(*key), name=f"tpu-job-{record.id}")
                self._tasks[key] = task
                task.add_done_callback(functools.partial(self._on_action_done, key))

    def _on_action_done(self, key: tuple[str, int], _: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        self._wake.set()

    async def _act(self, id: str, host: int) -> None:
        """Starts or stops a job on one host until that has answered, or its TPU is not READY."""
        while (job := self._records.host_job(id, host)) is not None:
            record = self._records.get(id)
            if record is None or not self._observed.is_ready(record.name):
                return
            if not _is_due(record, job):
                return
            try:
                await self._ask(id, host)
            except TPUError:
                await asyncio.sleep(RETRY_SECONDS)
            except Exception as error:  # an answer that can't be read, for example
                self._handle_bad_report(id, record.attempts[-1].number, host, error)
                await asyncio.sleep(UNREADABLE_RETRY_SECONDS)
            else:
                if _is_to_follow(record, job):  # it takes its time to end
                    await asyncio.sleep(RETRY_SECONDS)

    # ---- what hosts report ----

    def followed(self) -> dict[HostName, list[str]]:
        """The jobs that hosts are to report, as they call them."""
        by_host: dict[HostName, list[str]] = {}
        for record in self._records.all():
            if self._observed.is_ready(record.name):
                for host_record in record.attempts[-1].hosts:
                    if _is_started(host_record) and host_record.state not in FINAL:
                        host = HostName(record.name, host_record.host)
                        by_host.setdefault(host, []).append(_on_host(record))
        return by_host

    def report(
        self, host: HostName, jobs: Sequence[str], reports: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """A host was asked for *jobs*, and reports those that it has."""
        for job in jobs:
            id, number = _parts(job)
            try:
                if job in reports:
                    self._apply_report(job, host.number, reports[job])
                else:
                    gone = TPUError("The host does not have the job.", Reason.NOT_FOUND)
                    self._failed(id, number, host.number, gone)
            except Exception as error:  # a report that can't be read
                self._handle_bad_report(id, number, host.number, error)

    def unreachable(self, host: HostName, jobs: Sequence[str], error: TPUError) -> None:
        """A host can't be asked for *jobs*: what became of them is not known."""
        for job in jobs:
            self._update(*_parts(job), host.number, state="unknown", cause=str(error))

    def _handle_bad_report(self, id: str, number: int, host: int, error: Exception) -> None:
        log.error("The job %s on host %d can't be followed", id, host, exc_info=error)
        why = f"Internal error in jupyter-tpu: {type(error).__name__}: {error}."
        unread = TPUError(why, Reason.UNAVAILABLE, "The server's log has the details.")
        self._failed(id, number, host, unread)

    def _apply_report(self, job: str, host: int, report: Mapping[str, Any]) -> None:
        """Takes the report of a job, unless a later one was taken before. Nothing comes after its
        end, whose version is an old one if the last states could not be written.
        """
        if report["state"] in FINAL or report["version"] >= self._versions.get((job, host), 0):
            self._versions[job, host] = report["version"]
            self._update(*_parts(job), **structs.asdict(host_job(host, report)))

    # ---- one host ----

    async def _ask_once(self, id: str, host: int) -> None:
        with contextlib.suppress(TPUError):
            await self._ask(id, host)

    async def _ask(self, id: str, host: int) -> None:
        """Starts or stops the job there if that is due, and takes the host's report. Raises why the
        host can't be asked.
        """
        record, host_record = self._records.get(id), self._records.host_job(id, host)
        if record is None or host_record is None:
            return  # removed
        number = record.attempts[-1].number
        try:
            report = await self._request_due(record, host_record)
        except TPUError as error:
            self._failed(id, number, host, error)
            raise
        self._apply_report(f"{id}-{number}", host, report)

    async def _request_due(self, record: JobRecord, host_record: HostJob) -> JobReport:
        """The host's report, after what is to be done there now."""
        name, host, job = record.name, host_record.host, _on_host(record)
        if _is_to_stop(record, host_record):
            stop = requests.StopJobRequest(id=job, patience=record.patience)
            return await self.request(name, host, stop)
        if _is_to_follow(record, host_record):
            restart = requests.RestartServerRequest(id=job, restarts=group_restarts(record))
            return await self.request(name, host, restart)
        if not _is_due(record, host_record):
            return await self._status(name, host, job)
        try:
            return await self._start(record, host, job)
        except TPUError as error:
            if error.reason not in _REFUSED:
                raise
            return await self._status_after_refusal(error, name, host, job)

    async def _status_after_refusal(
        self, error: TPUError, name: NodeName, host: int, job: str
    ) -> JobReport:
        """The report of a host that has the job although its daemon said that it can't start it.

        Raises *error* if the host does not have it. If the host does not say that, it is not known.
        """
        try:
            return await self._status(name, host, job)
        except TPUError as second:
            if second.reason is Reason.NOT_FOUND:
                raise error from None
            why = f"{error.message} It is not known whether the host has the job."
            raise _StartUnknown(why, second.reason, "Will be retried.") from error

    async def _status(self, name: NodeName, host: int, job: str) -> JobReport:
        return await self.request(name, host, requests.GetJobRequest(id=job))

    async def _start(self, record: JobRecord, host: int, job: str) -> JobReport:
        request = record.request
        node = self._observed.node(record.name)
        alone = len(record.hosts) == 1
        own = single_host_variables(len(node.endpoints)) if alone and node is not None else {}
        python = self._python(record, node)
        if record.attempts[-1].number > 1 and node is not None:
            await self._homes.require(node)
            await self._sync.require(node, record.projects)
        tokens = await asyncio.to_thread(passed_variables, agents=request.who == AGENT)
        where = {"JUPYTER_TPU_HOST": str(host)}
        if node is not None:
            where["JUPYTER_TPU_ADDRESSES"] = ",".join(
                endpoint.internal for endpoint in node.endpoints
            )
            where |= self._torch_variables(record, node, host)
        order = requests.StartJobRequest(
            id=job,
            argv=request.command,
            cwd=request.cwd,
            env={**tokens, **own, **where, **request.variables},
            python=python,
            serving=_server_check(record, host),
        )
        return await self.request(record.name, host, order)

    def _torch_variables(self, record: JobRecord, node: Node, host: int) -> Mapping[str, str]:
        """Those of torchrun, in an environment with PyTorch."""
        name, accelerator = record.request.environment or "", known_type(node.type)
        environment = self._desired.environments(record.name).get(name)
        if environment is None or accelerator is None or not environment.environment.has_torch:
            return {}
        addresses = [endpoint.internal for endpoint in node.endpoints]
        return launch_variables(accelerator, record.hosts, host, addresses)

    def _python(self, record: JobRecord, node: Node | None) -> str:
        """The Python of its environment; "" if it has none. Raises UNAVAILABLE while a TPU that was
        created again does not have that environment.
        """
        name = record.request.environment or ""
        environment = self._desired.environments(record.name).get(name)
        if (
            name
            and record.attempts[-1].number > 1
            and (
                environment is None
                or environment.environment.state != "ready"
                or (node is not None and environment.node_id != node.id)
            )
        ):
            raise TPUError(
                f"{record.tpu} does not have the environment {name} yet.",
                Reason.UNAVAILABLE,
                "The job starts when the environment is ready.",
            )
        return environment.host_python if environment is not None else ""

    def _update(self, id: str, attempt: int, host: int, **fields: Any) -> None:
        if self._records.update(id, attempt, host, **fields):
            self._wake.set()

    def _failed(self, id: str, attempt: int, host: int, error: TPUError) -> None:
        """The host did not do what it was asked for, or can't be asked."""
        record, host_record = self._records.get(id), self._records.host_job(id, host)
        if record is None or host_record is None:
            return
        update = functools.partial(self._update, id, attempt, host)
        if (
            not host_record.started
            and error.reason in _REFUSED
            and not isinstance(error, _StartUnknown)
        ):
            update(state="failed", problem=Problem.of(error))
        elif not host_record.started and record.stopped and error.reason is Reason.NOT_FOUND:
            update(state="ended", cause="It was stopped before it was started.")
        elif host_record.started and error.reason is Reason.NOT_FOUND:
            cause = "The host was created again, without the job."
            update(state="lost", restarted=True, cause=cause)
        elif host_record.started or isinstance(error, _StartUnknown):
            update(state="unknown", cause=str(error))
        else:
            update(cause=str(error))


def _server_check(record: JobRecord, host: int) -> requests.ServerCheck | None:
    """How the keeper looks after a server. Those of the hosts but the first have no port."""
    settings = record.serving
    if settings is None:
        return None
    return {
        "port": settings.port,
        "health": settings.health,
        "metrics": settings.metrics,
        "patience": settings.unhealthy_limit,
        "shared": settings.shared,
        "checked": host == record.hosts[0],
        "group": settings.restart_together and len(record.hosts) > 1,
    }


def _on_host(record: JobRecord) -> str:
    """What hosts call the current attempt."""
    return f"{record.id}-{record.attempts[-1].number}"


def _parts(job: str) -> tuple[str, int]:
    """The job's id and the number of the attempt, of what hosts call it."""
    id, _, number = job.rpartition("-")
    return id, int(number)


def _is_to_stop(record: JobRecord, host_record: HostJob) -> bool:
    """Whether it is to be stopped on a host. On a pod, those parts are that have lost a partner. A
    stopped job that may have been started, unheard, must not be started now.
    """
    alone = lost_partner(record) or to_restart(record)
    return host_record.state != "stopping" and (
        record.stopped or (_is_started(host_record) and alone)
    )


def _is_due(record: JobRecord, host_record: HostJob) -> bool:
    """Whether it is to be started, stopped or restarted on a host."""
    return host_record.state not in FINAL and (
        not _is_started(host_record)
        or _is_to_stop(record, host_record)
        or _is_to_follow(record, host_record)
    )


def _is_to_follow(record: JobRecord, host_record: HostJob) -> bool:
    """Whether a server is to be restarted on a host, as it was on another one."""
    serving = host_record.serving
    if serving is None or host_record.state != "running":
        return False
    return serving.restarts < group_restarts(record)


def _is_started(host_record: HostJob) -> bool:
    return bool(host_record.started) and host_record.state != "starting"


class _StartUnknown(TPUError):
    """It is not known whether a host has started a job."""
