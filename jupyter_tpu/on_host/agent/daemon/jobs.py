"""The daemon's view of jobs: it starts, lists, reads, stops and removes them, as clients request
it.

A job is found by its folder alone, so one that another daemon started, of this version or another,
works as well. See `job_keeper` for what runs next to a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
from typing import Any, AsyncIterator, Dict, List, Optional

from ..keeper.job_keeper import LONGEST_QUERY
from ..keeper.job_log import FINAL, LOST, last_number, read_log, read_state, write_state
from ..keeper.job_stacks import stack_variables
from ..keeper.owned_process import kill_leftovers
from ..protocol import requests
from ..protocol.dates import now
from ..protocol.paths import boot, job_folder, job_socket, jobs_folder, private_folder
from ..protocol.process_env import process_environment
from ..protocol.processes import start_time
from ..protocol.records import JobReport
from ..protocol.timeouts import with_timeout
from .handlers import OperationError, handles
from .job_looks import look_into
from .keeper_process import KeeperProcess
from .keeper_starter import JOB, KeeperStarter
from .keepers import (
    ANSWER_SECONDS,
    NO_PROCESS,
    START_SECONDS,
    StartError,
    kill_process,
    require_free_disk,
)
from .single_process import last_line

#: So many jobs that have ended are kept, and so many bytes of their output.
ENDED_JOBS, ENDED_BYTES = 200, 4 << 30
#: Most seconds that a query waits for lines, and lines in one answer.
WAIT_SECONDS, MOST_LINES = 60.0, 5000
#: So that what a program prints is there at once.
_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


class HostJobs:
    """All jobs of this user on this host.

    starter: of their keepers.
    """

    def __init__(self, starter: KeeperStarter) -> None:
        self._starter = starter
        self._starting: Dict[str, asyncio.Lock] = {}  # one start of a job at a time

    async def start(
        self,
        job: str,
        argv: List[str],
        cwd: str,
        env: Dict[str, str],
        limit: Optional[int],
        serving: Optional[requests.ServerCheck] = None,
    ) -> JobReport:
        """Starts a job, unless it was started before; returns its status.

        Raises StartError, and OSError if the disk is full.
        """
        folder = job_folder(job)
        async with self._starting.setdefault(job, asyncio.Lock()), _starting_alone():
            known = await self._status(folder)
            if known is not None:
                return known
            await self._free_disk()
            shutil.rmtree(folder, ignore_errors=True)  # of a start that failed
            private_folder(folder)
            spec = {
                "id": job,
                "folder": folder,
                "argv": argv,
                "cwd": cwd,
                "env": {**_UNBUFFERED, **env},
                "limit": limit,
                "serving": serving,
            }
            await self._launch(folder, spec)
            started = await self._status(folder)
        if started is None:
            raise StartError("its folder was removed")
        return started

    async def _launch(self, folder: str, spec: Dict[str, Any]) -> None:
        keeper, problem, hint = None, "its keeper ended without a message", ""
        with open(os.path.join(folder, "keeper.log"), "wb") as log:
            try:
                keeper = await KeeperProcess.start(self._starter, JOB, log.fileno())
            except OSError as error:
                problem, hint = "its keeper could not be started: %s" % error, NO_PROCESS
        if keeper is not None:
            # Not as arguments, because the list of processes must not show the variables.
            if await keeper.ask(spec, START_SECONDS):
                return keeper.close()
            keeper.kill()
        kill_leftovers(folder)
        problem = last_line(os.path.join(folder, "keeper.log")) or problem
        try:
            require_free_disk(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        raise StartError(problem, hint)

    async def all(self) -> List[JobReport]:
        """The status of each job."""
        names = [name for name in sorted(os.listdir(jobs_folder())) if name.startswith("j-")]
        folders = [os.path.join(jobs_folder(), name) for name in names]
        statuses = await asyncio.gather(*map(self._status, folders))
        return [status for status in statuses if status is not None]

    async def some(self, jobs: List[str]) -> Dict[str, JobReport]:
        """The status of those of *jobs* that are there, by their ids."""
        statuses = await asyncio.gather(*(self._status(job_folder(job)) for job in jobs))
        return {job: status for job, status in zip(jobs, statuses) if status is not None}

    async def stop(self, job: str, patience: float) -> Optional[JobReport]:
        """Requests a stop; returns the status of the job, None if there is no such job."""
        async with self._starting.setdefault(job, asyncio.Lock()):  # not before a start is done
            folder = job_folder(job)
            try:
                answer = await _ask(folder, {"ask": "stop", "patience": patience})
            except asyncio.TimeoutError:  # its keeper hangs, and the job ends with it
                answer, state = None, read_state(folder)
                if state is not None and state["state"] not in FINAL and state["boot"] == boot():
                    await kill_process(state["keeper"], state["keeper_started"])
            return answer or await self._status(folder)

    async def restart_server(self, job: str, restarts: int) -> Optional[JobReport]:
        """See `RestartServerRequest`; None if there is no such job."""
        return await self._status(job_folder(job), {"ask": "restart", "restarts": restarts})

    async def stop_all(self) -> None:
        """Stops all jobs at once."""
        running = [job["id"] for job in await self.all() if job["state"] not in FINAL]
        await asyncio.gather(*(self.stop(job, 0.0) for job in running))

    async def remove(self, job: str) -> bool:
        """Deletes an ended job with its output; False while it has not ended."""
        folder = job_folder(job)
        known = await self._status(folder)
        if known is not None and known["state"] not in FINAL:
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True

    async def log(self, request: requests.ReadJobLogRequest) -> Optional[requests.JobLogPage]:
        """The answer to *request*; None if there is no such job."""
        folder, start = job_folder(request.id), request.start
        query = {"ask": "log", "after": max(start - 1, 0),
                 "partial": request.partial or {"out": "", "err": ""},
                 "seconds": min(request.seconds, WAIT_SECONDS) if start > 0 else 0.0}  # fmt: skip
        status = await self._status(folder, query)
        if status is None:
            return None
        if start < 0:
            start = max(1, status["last"] + 1 + start)
        limit = min(request.limit, MOST_LINES)
        loop = asyncio.get_running_loop()
        part = await loop.run_in_executor(None, read_log, folder, start, limit, request.search)
        answer: Any = {
            "lines": part.lines,
            "oldest": part.oldest,
            "next": part.next,
            "last": status["last"],
            "partial": status["partial"],
            "status": status,
        }
        return answer

    async def _free_disk(self) -> None:
        """Removes the oldest ended jobs if they are too many."""
        ended = [job_status for job_status in await self.all() if job_status["state"] in FINAL]
        ended.sort(key=lambda job_status: str(job_status["ended"]), reverse=True)
        size = 0
        for number, job in enumerate(ended):
            folder = job_folder(job["id"])
            size += _size(folder)
            if number >= ENDED_JOBS or size > ENDED_BYTES:
                shutil.rmtree(folder, ignore_errors=True)

    async def _status(
        self, folder: str, query: Optional[Dict[str, Any]] = None
    ) -> Optional[JobReport]:
        """A job's status, from its keeper while that lives; None if there is no such job."""
        state = read_state(folder)
        if state is None or state["state"] in FINAL:
            return None if state is None else _status_from_disk(folder, state)
        with contextlib.suppress(asyncio.TimeoutError):
            answer = await _ask(folder, query or {"ask": "status"})
            if answer is not None:
                return answer
        lives = state["boot"] == boot() and start_time(state["keeper"]) == state["keeper_started"]
        state = read_state(folder)  # it may have ended meanwhile
        if state is None or lives or state["state"] in FINAL:
            return None if state is None else _status_from_disk(folder, state)
        return _status_from_disk(folder, _lost(folder, state))

    # ---- requests of clients

    @handles(requests.StartJobRequest)
    async def _handle_start(self, request: requests.StartJobRequest) -> JobReport:
        folder = os.path.join(os.path.expanduser("~"), os.path.expanduser(request.cwd))
        if not os.path.isdir(folder):
            raise OperationError(
                "NO_FOLDER",
                "The folder %s does not exist on the host." % request.cwd,
                "Create it there first, or choose another working folder.",
            )
        env = process_environment(request.python, request.env)
        env = {**env, **stack_variables(env)}
        try:
            return await self.start(
                request.id, request.argv, folder, env, request.limit, request.serving
            )
        except StartError as error:
            message = "The job could not be started on the host: %s." % str(error).rstrip(".")
            raise OperationError("INTERNAL", message, error.hint) from error

    @handles(requests.ListJobsRequest)
    async def _handle_list(self, request: requests.ListJobsRequest) -> requests.JobList:
        return {"jobs": await self.all()}

    @handles(requests.GetJobRequest)
    async def _handle_status(self, request: requests.GetJobRequest) -> JobReport:
        return _existing(request.id, (await self.some([request.id])).get(request.id))

    @handles(requests.ReadJobLogRequest)
    async def _handle_log(self, request: requests.ReadJobLogRequest) -> requests.JobLogPage:
        return _existing(request.id, await self.log(request))

    @handles(requests.GetJobStacksRequest)
    async def _handle_stacks(self, request: requests.GetJobStacksRequest) -> requests.JobStacks:
        report = _existing(request.id, (await self.some([request.id])).get(request.id))
        answer: Any = {"status": report, "silent": report.pop("silent", 0.0), "processes": [],
                       "more": 0, "places": [], "queue": None}  # fmt: skip
        if report["state"] not in FINAL and report.get("keeper"):
            answer.update(await look_into(report["keeper"]))
        return answer

    @handles(requests.StopJobRequest)
    async def _handle_stop(self, request: requests.StopJobRequest) -> JobReport:
        return _existing(request.id, await self.stop(request.id, request.patience))

    @handles(requests.RestartServerRequest)
    async def _handle_restart(self, request: requests.RestartServerRequest) -> JobReport:
        return _existing(request.id, await self.restart_server(request.id, request.restarts))

    @handles(requests.RemoveJobRequest)
    async def _handle_remove(self, request: requests.RemoveJobRequest) -> requests.Removed:
        return {"removed": await self.remove(request.id)}


def _existing(job: str, value: Any) -> Any:
    if value is None:
        raise OperationError("NOT_FOUND", "The job %s does not exist on the host." % job)
    return value


@contextlib.asynccontextmanager
async def _starting_alone() -> AsyncIterator[None]:
    """Daemons of other versions start no job meanwhile, which could be the same one."""
    lock = os.open(os.path.join(jobs_folder(), ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.05)
        yield
    finally:
        os.close(lock)


def _lost(folder: str, state: Dict[str, Any]) -> Dict[str, Any]:
    """Notes that a job has ended with its keeper, and ends what is left of it."""
    restarted = state["boot"] != boot()
    if not restarted:
        kill_leftovers(folder)
    cause = "The host was restarted." if restarted else (
        "The process that kept the job was killed, and the job with it.")  # fmt: skip
    changes = {"state": LOST, "cause": cause, "ended": now(), "version": state["version"] + 1,
               "restarted": restarted}  # fmt: skip
    state = {**state, **changes, "paused": ""}
    with contextlib.suppress(OSError):  # it is found out again
        write_state(folder, state)
    return state


def _size(folder: str) -> int:
    """The bytes of its files; another client may remove them meanwhile."""
    size = 0
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):
                size += entry.stat().st_size
    return size


def _status_from_disk(folder: str, state: Any) -> Any:
    return {**state, "last": last_number(folder), "partial": {"out": "", "err": ""}}


async def _ask(folder: str, query: Dict[str, Any]) -> Optional[JobReport]:
    """The keeper's answer; None if there is none. Raises asyncio.TimeoutError."""
    try:
        reader, writer = await asyncio.open_unix_connection(job_socket(folder), limit=LONGEST_QUERY)
    except OSError:
        return None
    try:
        writer.write(json.dumps(query).encode() + b"\n")
        line = await with_timeout(reader.readline(), ANSWER_SECONDS + query.get("seconds", 0.0))
        return json.loads(line) if line else None
    except asyncio.TimeoutError:  # which is an OSError since Python 3.11
        raise
    except (OSError, ValueError):
        return None
    finally:
        writer.close()
