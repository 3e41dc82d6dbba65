"""Jobs: which should be there (SQLite), what their hosts report, and what is done about it.

A job is started on each of its hosts under the id ``JOB-ATTEMPT``. A host that was asked before
starts nothing, so it can be asked again after any interruption, by any process. What a host does
not say is not known: its job is "unknown" until the host can be asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import structs

from ...cloud import NodeName
from ...environment import gather_or_cancel, single_host_variables
from ...errors import InvalidInput, Reason, TPUError
from ...links import HostName
from ...tokens import passed_variables
from ..knowledge.desired import DesiredState
from ..knowledge.finder import TPUFinder
from ..knowledge.observed import ObservedState
from ..models import (
    HostJob,
    Job,
    JobLog,
    JobLogQuery,
    Problem,
    StartJob,
    StopJob,
)
from ..models.requests import validated
from ..models.times import timestamp
from ..store.records import JobRecord
from ..store.store import Store
from .connections import ANSWER, HostConnections
from .job_records import JobRecords, begin_attempt
from .job_views import FINAL, host_job, is_final, job_log, to_restart, view
from .numbers import host_numbers

log = logging.getLogger(__name__)

#: How long a host is asked to wait for news of a job; seconds.
NEWS = 30.0
#: Between two attempts to reach a host; seconds.
PAUSE = 3.0
#: Jobs are looked through so often even if nothing seems to have happened; seconds.
EVERY = 5.0
#: Why a host does not start a job, now and later. After others it is asked again.
_REFUSED = (Reason.NO_FOLDER, Reason.DISK_FULL, Reason.INVALID, Reason.INTERNAL, Reason.NO_PYTHON)
#: In these states a TPU was taken away; a job waits for its successor of the same name.
_TAKEN = ("PREEMPTED", "TERMINATED")


class Jobs:
    """The jobs of one fleet, as a :class:`~jupyter_tpu.fleet.api.JobsAPI`. On the core loop.

    changed(id) is called when something about a job may have changed.
    """

    def __init__(
        self,
        finder: TPUFinder,
        connections: HostConnections,
        desired: DesiredState,
        observed: ObservedState,
        store: Store,
        changed: Callable[[str], None],
    ) -> None:
        self._finder = finder
        self._connections = connections
        self._desired = desired
        self._observed = observed
        self._records = JobRecords(store, changed)
        self._versions: dict[tuple[str, int], int] = {}  # of the hosts' reports
        self._watches: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._supervised = False
        self._wake = asyncio.Event()

    # ---- asking ----

    async def list(self, ref: str) -> Sequence[Job]:
        name = await self._name(ref)
        return await self._views(each for each in self._records.all() if each.name == name)

    async def all(self) -> Sequence[Job]:
        await self._finder.reload()
        return await self._views(self._records.all())

    async def get(self, ref: str, id: str) -> Job:
        return (await self._views([await self._record(ref, id)]))[0]

    def find(self, id: str) -> Job | None:
        record = self._records.get(id)
        return view(record) if record is not None else None

    def unfinished(self) -> bool:
        """Whether there is a job that may run, or is to be started again."""
        return any(not is_final(record) for record in self._records.all())

    async def log(self, ref: str, id: str, query: JobLogQuery | None = None) -> JobLog:
        wanted = validated(query or JobLogQuery())
        record = await self._record(ref, id)
        attempts = {each.number: each for each in record.attempts}
        number = record.attempts[-1].number if wanted.attempt is None else wanted.attempt
        if number not in attempts:
            raise TPUError(f"The job {id} has no attempt {number}.", Reason.NOT_FOUND)
        hosts = [each.host for each in attempts[number].hosts]
        worker = hosts[0] if wanted.host is None else wanted.host
        if worker not in hosts:
            raise TPUError(f"The job {id} has no host {worker}.", Reason.NOT_FOUND)
        answer = await self._request(
            record.name,
            worker,
            "job_log",
            ANSWER + wanted.wait,
            id=f"{id}-{number}",
            limit=wanted.limit,
            search=wanted.search,
            seconds=wanted.wait,
            partial={"out": wanted.partial_out, "err": wanted.partial_err},
            **{"from": wanted.start},
        )
        return job_log(worker, number, answer)

    # ---- changing ----

    async def start(self, ref: str, request: StartJob) -> Job:
        request = validated(request)
        if any("\0" in text for text in (*request.command, *request.variables.values())):
            raise InvalidInput("A command or variable can't have NUL characters.")
        node = await self._finder.find_ready(ref, "Jobs run on READY TPUs.")
        hosts = host_numbers(request.hosts, max(1, len(node.endpoints)), node.name.node)
        record = JobRecord(
            id=uuid.uuid4().hex[:8],
            project=node.name.project,
            zone=node.name.zone,
            tpu=node.name.node,
            created=timestamp("seconds"),
            hosts=hosts,
            request=structs.replace(request, environment=self._environment(node.name, request)),
        )
        begin_attempt(record)
        # Saved before a host is asked: it is started by the next server if this process is killed.
        self._records.save(record)
        await self._records.flush()
        await gather_or_cancel([self._ask_once(record.id, host) for host in hosts])
        record = self._records.get(record.id) or record
        problems = [each.problem for each in record.attempts[-1].hosts]
        if (first := problems[0]) is not None and None not in problems:
            self._records.drop(record)
            raise first.to_error()
        self._wake.set()
        return view(self._records.get(record.id) or record)

    async def stop(self, ref: str, id: str, options: StopJob | None = None) -> Job:
        options = validated(options or StopJob())
        record = await self._record(ref, id)
        if not is_final(record):
            record.stopped, record.patience = True, options.patience
            self._records.save(record)
            await self._records.flush()
            await gather_or_cancel(
                [self._ask_once(id, each.host) for each in record.attempts[-1].hosts]
            )
            self._wake.set()
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
            names = [(each.number, host.host) for each in record.attempts for host in each.hosts]
            if self._observed.is_ready(record.name):
                await gather_or_cancel(
                    [self._remove_on_host(record, number, host) for number, host in names]
                )
        self._records.drop(record)

    async def _remove_on_host(self, record: JobRecord, attempt: int, host: int) -> None:
        with contextlib.suppress(TPUError):  # the host removes old jobs by itself, too
            await self._request(record.name, host, "remove_job", id=f"{record.id}-{attempt}")

    def forget(self, name: NodeName) -> None:
        """The TPU is gone: its jobs, too. Those that restart with a TPU that was taken away wait
        for its successor.
        """
        for record in self._records.all():
            if record.name == name and not (record.taken and record.request.restart_with_tpu):
                self._records.drop(record)

    # ---- the loop ----

    async def run(self) -> None:
        """Follows the jobs on their hosts until it is cancelled."""
        self._supervised = True
        try:
            while True:
                self._wake.clear()
                for record in self._records.all():
                    self._reconcile(record)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), EVERY)
        finally:
            self._supervised = False
            await self.shut_down()

    def reload(self, records: Iterable[JobRecord]) -> None:
        """Takes over what other processes have written."""
        self._records.reload(records)
        self._wake.set()

    def _reconcile(self, record: JobRecord) -> None:
        node = self._observed.node(record.name)
        if node is not None and (node.state in _TAKEN) != record.taken and not is_final(record):
            record.taken = node.state in _TAKEN
            self._records.save(record)
        if node is None or node.state != "READY":
            if node is not None:
                why = f"{record.tpu} is {node.state.lower()}."
                for each in record.attempts[-1].hosts:
                    if each.state not in FINAL:
                        self._update(record, each, state="unknown", cause=why)
            return
        hosts = record.attempts[-1].hosts
        if to_restart(record) and all(each.state in FINAL for each in hosts):
            begin_attempt(record)
            self._records.save(record)
        for each in record.attempts[-1].hosts:
            key = (record.id, each.host)
            if each.state not in FINAL and key not in self._watches:
                task = asyncio.create_task(self._watch(*key), name=f"tpu-job-{record.id}")
                self._watches[key] = task
                task.add_done_callback(functools.partial(self._unwatch, key))

    def _unwatch(self, key: tuple[str, int], _: asyncio.Task[None]) -> None:
        self._watches.pop(key, None)
        self._wake.set()

    async def _watch(self, id: str, host: int) -> None:
        """Follows a job on one host until it has ended there, or its TPU is not READY."""
        while (each := self._records.host_job(id, host)) is not None and each.state not in FINAL:
            record = self._records.get(id)
            if record is None or not self._observed.is_ready(record.name):
                return
            try:
                await self._ask(id, host, NEWS)
            except TPUError:
                await asyncio.sleep(PAUSE)
            except Exception as error:  # an answer that can't be read, for example
                log.exception("The job %s on host %d can't be followed", id, host)
                why = f"Internal error in jupyter-tpu: {type(error).__name__}: {error}."
                unread = TPUError(why, Reason.UNAVAILABLE, "The server's log has the details.")
                self._failed(id, record.attempts[-1].number, host, unread)
                await asyncio.sleep(NEWS)

    async def shut_down(self) -> None:
        """Ends the watching; the jobs go on."""
        tasks = list(self._watches.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    # ---- one host ----

    async def _ask_once(self, id: str, host: int) -> None:
        with contextlib.suppress(TPUError):
            await self._ask(id, host, 0.0)

    async def _ask(self, id: str, host: int, seconds: float) -> None:
        """Starts or stops the job there if that is due, and takes the host's report.

        seconds: how long the host may wait for news. Raises why the host can't be asked.
        """
        record, each = self._records.get(id), self._records.host_job(id, host)
        if record is None or each is None:
            return  # removed
        number = record.attempts[-1].number
        job, key = f"{id}-{number}", (f"{id}-{number}", host)
        try:
            if each.state == "starting" or not each.started:
                report = await self._start_on_host(record, host, job)
            elif (record.stopped or to_restart(record)) and each.state != "stopping":
                # On a pod, those parts are stopped that have lost a partner.
                report = await self._request(
                    record.name, host, "stop_job", id=job, patience=record.patience
                )
            else:
                version = self._versions.get(key, 0)
                report = await self._request(
                    record.name, host, "job_wait", ANSWER + seconds,
                    id=job, version=version, seconds=seconds,
                )  # fmt: skip
        except TPUError as error:
            self._failed(id, number, host, error)
            raise
        record, now = self._records.get(id) or record, self._records.host_job(id, host)
        if now is None or record.attempts[-1].number != number:
            return
        self._versions[key] = report["version"]
        if host_job(host, report) != now:
            self._update(record, now, **structs.asdict(host_job(host, report)))

    def _update(self, record: JobRecord, each: HostJob, **fields: Any) -> None:
        if self._records.update(record, each, **fields):
            self._wake.set()

    def _failed(self, id: str, attempt: int, host: int, error: TPUError) -> None:
        """The host did not do what it was asked for, or can't be asked."""
        record, each = self._records.get(id), self._records.host_job(id, host)
        if record is None or each is None or record.attempts[-1].number != attempt:
            return
        if not each.started and error.reason in _REFUSED:
            self._update(record, each, state="failed", problem=Problem.of(error))
        elif not each.started and record.stopped and error.reason is Reason.NOT_FOUND:
            self._update(record, each, state="ended", cause="It was stopped before it was started.")
        elif each.started and error.reason is Reason.NOT_FOUND:
            cause = "The host was created again, without the job."
            self._update(record, each, state="lost", restarted=True, cause=cause)
        elif each.started:
            self._update(record, each, state="unknown", cause=str(error))
        else:
            self._update(record, each, cause=str(error))

    async def _start_on_host(self, record: JobRecord, host: int, job: str) -> dict[str, Any]:
        if record.stopped:
            # It is not known whether the host has it: a lost answer. It must not be started now.
            return await self._request(
                record.name, host, "stop_job", id=job, patience=record.patience
            )
        request = record.request
        node = self._observed.node(record.name)
        alone = len(record.hosts) == 1
        own = single_host_variables(len(node.endpoints)) if alone and node is not None else {}
        environments = self._desired.environments(record.name)
        python = ""
        if request.environment in environments:
            python = environments[request.environment].host_python
        tokens = await asyncio.to_thread(passed_variables)
        return await self._request(
            record.name,
            host,
            "start_job",
            id=job,
            argv=request.command,
            cwd=request.cwd,
            env={**tokens, **own, "JUPYTER_TPU_HOST": str(host), **request.variables},
            python=python,
        )

    async def _request(
        self, name: NodeName, host: int, op: str, timeout: float = ANSWER, **params: Any
    ) -> dict[str, Any]:
        return await self._connections.request_host(HostName(name, host), op, timeout, **params)

    # ---- the records ----

    async def _views(self, records: Iterable[JobRecord]) -> Sequence[Job]:
        """The jobs as they are now; asks their hosts if no loop follows them."""
        found = list(records)
        if not self._supervised:
            await gather_or_cancel(
                [
                    self._ask_once(record.id, each.host)
                    for record in found
                    if self._observed.is_ready(record.name)
                    for each in record.attempts[-1].hosts
                    if each.state not in FINAL
                ]
            )
        return [view(self._records.get(record.id) or record) for record in found]

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
