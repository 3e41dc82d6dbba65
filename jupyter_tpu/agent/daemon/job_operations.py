"""Handles requests about jobs."""

from __future__ import annotations

import os
from typing import Any

from ..protocol import requests
from ..protocol.process_env import process_environment
from ..protocol.records import Job
from .handlers import OperationError, handles
from .jobs import Jobs
from .keepers import StartError


class JobOperations:
    """From requests to `Jobs`, and back."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    @handles(requests.StartJob)
    async def _start(self, request: requests.StartJob) -> Job:
        folder = os.path.join(os.path.expanduser("~"), os.path.expanduser(request.cwd))
        if not os.path.isdir(folder):
            raise OperationError(
                "NO_FOLDER",
                "The folder %s does not exist on the host." % request.cwd,
                "Create it there first, or choose another working folder.",
            )
        env = process_environment(request.python, request.env)
        try:
            return await self._jobs.start(request.id, request.argv, folder, env, request.limit)
        except StartError as error:
            message = "The job could not be started on the host: %s." % str(error).rstrip(".")
            raise OperationError("INTERNAL", message) from error

    @handles(requests.ListJobs)
    async def _list(self, request: requests.ListJobs) -> requests.JobList:
        return {"jobs": await self._jobs.all()}

    @handles(requests.GetJob)
    async def _status(self, request: requests.GetJob) -> Job:
        return _existing(request.id, (await self._jobs.some([request.id])).get(request.id))

    @handles(requests.ReadJobLog)
    async def _log(self, request: requests.ReadJobLog) -> requests.JobLog:
        return _existing(request.id, await self._jobs.log(request))

    @handles(requests.StopJob)
    async def _stop(self, request: requests.StopJob) -> Job:
        return _existing(request.id, await self._jobs.stop(request.id, request.patience))

    @handles(requests.RemoveJob)
    async def _remove(self, request: requests.RemoveJob) -> requests.Removed:
        return {"removed": await self._jobs.remove(request.id)}


def _existing(job: str, value: Any) -> Any:
    if value is None:
        raise OperationError("NOT_FOUND", "The job %s does not exist on the host." % job)
    return value
