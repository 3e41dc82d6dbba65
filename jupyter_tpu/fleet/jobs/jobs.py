"""Jobs: which should be there (SQLite), what their hosts report, and what users ask of them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence

from msgspec import structs

from ...cloud import NodeName, NodeState
from ...concurrency import gather_or_cancel
from ...errors import InvalidInput, Reason, TPUError
from ...files.sync import default_mirrors
from ...links import HostName
from ...on_host.agent.protocol import requests
from ..core.connections import ANSWER_SECONDS
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..core.records import JobRecord, Snapshot
from ..files.sync import SyncService
from ..homes.service import HomeService
from ..models import (
    AGENT,
    HostJob,
    Job,
    JobLog,
    JobLogQuery,
    JobOnHost,
    JobWhere,
    ServingSettings,
    StartJob,
    StopJob,
)
from ..models.core import timestamp, validated
from .job_follower import JobFollower
from .job_records import FINAL, JobRecords, begin_attempt, is_final, job_log, view
from .job_where import job_where, not_asked, on_host


class JobService:
    """The jobs of one fleet, as a :class:`~jupyter_tpu.fleet.api.JobsAPI`. On the core loop."""

    def __init__(self, core: Core, sync: SyncService, homes: HomeService) -> None:
        self._sync = sync
        self._connected = core.connected
        self._finder = core.finder
        self._connections = core.connections
        self._desired = core.desired
        self._observed = core.observed
        self._changes = core.changes
        self._polled = core.polled
        self._records = JobRecords(core.store, self._changed)
        self.follower = JobFollower(
            self._records, core.connections, core.desired, core.observed, sync, homes
        )
        core.connected.ends_with_tpu(self.forget)
        core.observer.register_need(self.unfinished)
        core.shared.reloaded.add(self._reload)
        core.changes.register("job", self.find)
        core.loops.register("jobs", self.run)

    def _changed(self, id: str) -> None:
        self._changes.mark_changed("job", id)
        self._polled.wake()

    # ---- asking ----

    async def list(self, ref: str) -> Sequence[Job]:
        name = await self._name(ref)
        return await self._views(record for record in self._records.all() if record.name == name)

    async def all(self) -> Sequence[Job]:
        await self._finder.reload()
        return await self._views(self._records.all())

    async def get(self, ref: str, id: str) -> Job:
        return (await self._views([await self._record(ref, id)]))[0]

    def find(self, id: str) -> Job | None:
        record = self._records.get(id)
        return view(record) if record is not None else None

    def known_server(self, name: NodeName, host: int, port: int) -> Job | None:
        """The newest server at a port of a host that nobody has stopped, as last reported."""
        for record in reversed(self._records.all()):
            if record.serving is None or record.stopped:
                continue
            if (record.name, record.hosts[0], record.serving.port) == (name, host, port):
                return view(record)
        return None

    def unfinished(self) -> bool:
        """Whether there is a job that may run, or is to be started again."""
        return bool(self.unfinished_on())

    def unfinished_on(self) -> set[NodeName]:
        """The TPUs on which there are such jobs."""
        return {record.name for record in self._records.all() if not is_final(record)}

    async def log(self, ref: str, id: str, query: JobLogQuery | None = None) -> JobLog:
        job_log_query = validated(query or JobLogQuery())
        record = await self._record(ref, id)
        attempts = {attempt.number: attempt for attempt in record.attempts}
        number = (
            record.attempts[-1].number if job_log_query.attempt is None else job_log_query.attempt
        )
        if number not in attempts:
            raise TPUError(f"The job {id} has no attempt {number}.", Reason.NOT_FOUND)
        hosts = [host.host for host in attempts[number].hosts]
        host_number = hosts[0] if job_log_query.host is None else job_log_query.host
        if host_number not in hosts:
            raise TPUError(f"The job {id} has no host {host_number}.", Reason.NOT_FOUND)
        reading = requests.ReadJobLogRequest(
            id=f"{id}-{number}",
            start=job_log_query.start,
            limit=job_log_query.limit,
            search=job_log_query.search,
            seconds=job_log_query.wait,
            partial={"out": job_log_query.partial_out, "err": job_log_query.partial_err},
        )
        answer = await self.follower.request(
            record.name, host_number, reading, ANSWER_SECONDS + job_log_query.wait
        )
        return job_log(host_number, number, answer)

    async def why(self, ref: str, id: str) -> JobWhere:
        record = await self._record(ref, id)
        hosts = await gather_or_cancel(
            [self._where(record, host) for host in record.attempts[-1].hosts]
        )
        return job_where(self._records.get(id) or record, list(hosts))

    async def _where(self, record: JobRecord, host: HostJob) -> JobOnHost:
        if host.state in FINAL or not self._observed.is_ready(record.name):
            return not_asked(host)
        request = requests.GetJobStacksRequest(id=f"{record.id}-{record.attempts[-1].number}")
        try:
            answer = await self.follower.request(record.name, host.host, request)
        except TPUError as error:
            return not_asked(host, error)
        return on_host(host.host, answer)

    # ---- changing ----

    async def start(self, ref: str, request: StartJob) -> Job:
        return await self._start(ref, request, uuid.uuid4().hex[:8])

    async def start_once(self, name: NodeName, request: StartJob, id: str) -> None:
        """As :meth:`start`, unless a job with this *id* was started, or is to be, already."""
        if self._records.get(id) is None:
            await self._start(f"{name.zone}~{name.node}", request, id)

    async def start_server(
        self,
        name: NodeName,
        request: StartJob,
        id: str,
        serving: ServingSettings,
        local_port: int | None,
    ) -> Job:
        """As :meth:`start`, of a job that is looked after as a server, unless there is one of this
        *id*.
        """
        if (record := self._records.get(id)) is not None:
            return view(record)
        return await self._start(f"{name.zone}~{name.node}", request, id, serving, local_port)

    def servers_without_port(self) -> Sequence[JobRecord]:
        """Servers whose TPU was created again, and whose local ports do not lead to it yet."""
        return [
            record
            for record in self._records.all()
            if record.local_port is not None
            and not record.stopped
            and not is_final(record)
            and (node := self._observed.node(record.name)) is not None
            and node.state is NodeState.READY
            and node.id not in ("", record.port_node)
        ]

    def note_port(self, id: str, node_id: str) -> None:
        """The local port of a server leads to this node, or can't be opened again."""
        self._records.change(id, lambda record: setattr(record, "port_node", node_id))

    async def _start(
        self,
        ref: str,
        request: StartJob,
        id: str,
        serving: ServingSettings | None = None,
        local_port: int | None = None,
    ) -> Job:
        request = validated(request)
        if not request.command[0]:
            raise InvalidInput("The command must begin with a program.")
        if any("\0" in text for text in (*request.command, *request.variables.values())):
            raise InvalidInput("A command or variable can't have NUL characters.")
        node = await self._finder.find_ready(ref)
        hosts = host_numbers(request.hosts, max(1, len(node.endpoints)), node.name.node)
        await default_mirrors().catch_up(self._connections.link(HostName(node.name, 0)).host_id)
        record = JobRecord(
            id=id,
            project=node.name.project,
            zone=node.name.zone,
            tpu=node.name.node,
            created=timestamp("seconds"),
            hosts=hosts,
            projects=self._sync.projects(node.name, node.id) if request.restart_with_tpu else [],
            serving=serving,
            local_port=local_port,
            port_node=node.id,
            request=structs.replace(
                request,
                environment=self._environment(node.name, request),
                who=AGENT if self._connected.is_of_agent(node.name) else request.who,
            ),
        )
        begin_attempt(record)
        # Saved before a host is asked: it is started by the next server if this process is killed.
        self._records.add(record)
        await self._records.flush()
        await self.follower.ask_hosts([record])
        record = self._records.get(record.id) or record
        problems = [host.problem for host in record.attempts[-1].hosts]
        if (first := problems[0]) is not None and None not in problems:
            self._records.drop(record.id)
            raise first.to_error()
        self.follower.wake()
        return view(self._records.get(record.id) or record)

    async def stop(self, ref: str, id: str, options: StopJob | None = None) -> Job:
        options = validated(options or StopJob())
        record = await self._record(ref, id)
        if not is_final(record):

            def change(record: JobRecord) -> None:
                record.stopped, record.patience = True, options.patience

            self._records.change(id, change)
            await self._records.flush()
            await self.follower.ask_hosts([self._records.get(id) or record])
            self.follower.wake()
        return view(self._records.get(id) or record)

    async def remove(self, ref: str, id: str) -> None:
        record = await self._record(ref, id)
        if self._observed.node(record.name) is not None:
            await self._views([record])
            if not is_final(record):
                raise TPUError(
                    f"The job {id} has not ended, as far as known.",
                    Reason.CONFLICT,
                    "Stop it first.",
                )
            names = [
                (attempt.number, host.host) for attempt in record.attempts for host in attempt.hosts
            ]
            if self._observed.is_ready(record.name):
                await gather_or_cancel(
                    [self._remove_on_host(record, number, host) for number, host in names]
                )
        self._records.drop(record.id)

    async def _remove_on_host(self, record: JobRecord, attempt: int, host: int) -> None:
        with contextlib.suppress(TPUError):  # the host removes old jobs automatically, too
            job = f"{record.id}-{attempt}"
            await self.follower.request(record.name, host, requests.RemoveJobRequest(id=job))

    async def running(self, name: NodeName) -> Sequence[Job]:
        """Those that have not ended there, as far as known."""
        records = [job_record for job_record in self._records.all() if job_record.name == name]
        return [job for job in await self._views(records) if not job.over]

    async def require_confirmation(self, name: NodeName, confirmed: bool, act: str) -> None:
        """Raises JOBS_RUNNING if jobs have not ended there, as far as known, and ending them is not
        *confirmed*. act: what would end them.
        """
        if confirmed:
            return
        if jobs := await self.running(name):
            one = len(jobs) == 1
            where = f"{name.node} ({', '.join(job.name for job in jobs)})"
            raise TPUError(
                f"1 job runs on {where}." if one else f"{len(jobs)} jobs run on {where}.",
                Reason.JOBS_RUNNING,
                f"{act} ends {'it' if one else 'them'}: confirm that with end_jobs.",
            )

    def forget(self, name: NodeName) -> None:
        """The TPU is gone: its jobs, too. Those that restart with a TPU that was preempted wait
        for its successor.
        """
        for record in self._records.all():
            if record.name == name and not (record.preempted and record.request.restart_with_tpu):
                self._records.drop(record.id)

    def await_successor(self, name: NodeName) -> None:
        """The TPU was preempted, and another one takes its place: its jobs that start again wait
        for that one.
        """
        for record in self._records.all():
            if record.name == name and record.request.restart_with_tpu and not is_final(record):
                self._records.change(record.id, lambda record: setattr(record, "preempted", True))

    def take_over(self, name: NodeName) -> None:
        """The TPU takes the place of one that was preempted, perhaps in another zone: the jobs that
        wait for it are its own.
        """
        for record in self._records.all():
            waits = record.preempted and record.request.restart_with_tpu
            if waits and structs.replace(record.name, zone=name.zone) == name:
                self._records.change(record.id, lambda record: setattr(record, "zone", name.zone))
        self.follower.wake()

    # ---- the loop ----

    async def run(self) -> None:
        """Follows the jobs on their hosts until it is cancelled."""
        await self.follower.run()

    def _reload(self, snapshot: Snapshot) -> None:
        """Takes over what other processes have written."""
        self._records.reload(snapshot.jobs)
        self.follower.wake()

    # ---- the records ----

    async def _views(self, records: Iterable[JobRecord]) -> Sequence[Job]:
        """The jobs as they are now; asks their hosts if no loop follows them."""
        job_records = list(records)
        if not self.follower.supervised:
            ready = [record for record in job_records if self._observed.is_ready(record.name)]
            await self.follower.ask_hosts(ready)
        return [view(self._records.get(record.id) or record) for record in job_records]

    async def _name(self, ref: str) -> NodeName:
        """The TPU that is meant; one that is gone, too, while it has jobs."""
        try:
            return await self._finder.find(ref)
        except TPUError as error:
            zone, _, node = ref.replace("~", "/", 1).rpartition("/")
            for record in self._records.all():
                if record.tpu == node and zone in ("", record.zone):
                    return record.name
            raise error from None

    async def _record(self, ref: str, id: str) -> JobRecord:
        name = await self._name(ref)
        record = self._records.get(id)
        if record is None or record.name != name:
            raise TPUError(
                f"{name.node} has no job {id}.",
                Reason.NOT_FOUND,
                f"`jupyter tpu job list {name.node}` shows its jobs.",
            )
        return record

    def _environment(self, name: NodeName, request: StartJob) -> str:
        """The environment that is meant; raises NOT_FOUND."""
        known = self._desired.environments(name)
        if request.environment is None:
            return "default" if "default" in known else ""
        if request.environment and request.environment not in known:
            raise TPUError(
                f"{name.node} has no environment {request.environment}.",
                Reason.NOT_FOUND,
                f"Its environments: {', '.join(known)}." if known else "Connect it first.",
            )
        return request.environment
