"""The daemon's operations about jobs: from a request's parameters to `Jobs`, and back."""

from __future__ import annotations

import os
from typing import Any, Awaitable, Callable, Dict, Optional

from ..protocol.process_env import process_environment
from .jobs import Jobs
from .keepers import StartError
from .operation_error import OperationError

Operation = Callable[[Dict[str, Any]], Awaitable[Dict[str, Any]]]


def job_operations(jobs: Jobs) -> Dict[str, Operation]:
    """The operations by their names."""

    async def start(params: Dict[str, Any]) -> Dict[str, Any]:
        """Starts a job; one with the same ``id`` that was started before is left as it is.

        Parameters: ``id``, ``argv``. Optional: ``cwd`` (relative to the home folder), ``env``
        (variables), ``python`` (of the environment whose commands come first), ``limit`` (bytes of
        output that are kept). Returns its status, see `JobKeeper`.
        """
        cwd = str(params.get("cwd") or "")
        folder = os.path.join(os.path.expanduser("~"), os.path.expanduser(cwd))
        if not os.path.isdir(folder):
            raise OperationError(
                "NO_FOLDER",
                "The folder %s does not exist on the host." % cwd,
                "Create it there first, or choose another working folder.",
            )
        given = {str(name): str(value) for name, value in params.get("env", {}).items()}
        environment = process_environment(str(params.get("python") or ""), given)
        argv = [str(each) for each in params["argv"]]
        limit = params.get("limit")
        try:
            return await jobs.start(str(params["id"]), argv, folder, environment, limit)
        except StartError as error:
            message = "The job could not be started on the host: %s." % str(error).rstrip(".")
            raise OperationError("INTERNAL", message) from error

    async def list_all(params: Dict[str, Any]) -> Dict[str, Any]:
        return {"jobs": await jobs.all()}

    async def status(params: Dict[str, Any]) -> Dict[str, Any]:
        """The status of the job ``id``."""
        job = str(params["id"])
        return _found(job, (await jobs.some([job])).get(job))

    async def log(params: Dict[str, Any]) -> Dict[str, Any]:
        """Lines of the job ``id``: see `Jobs.log`."""
        job = str(params["id"])
        found = await jobs.log(
            job,
            int(params.get("from", 1)),
            int(params.get("limit", 1000)),
            str(params.get("search", "")),
            float(params.get("seconds", 0.0)),
            params.get("partial") or {"out": "", "err": ""},
        )
        return _found(job, found)

    async def stop(params: Dict[str, Any]) -> Dict[str, Any]:
        """Begins to stop the job ``id``: SIGTERM, and SIGKILL after ``patience`` seconds."""
        job = str(params["id"])
        return _found(job, await jobs.stop(job, float(params["patience"])))

    async def remove(params: Dict[str, Any]) -> Dict[str, Any]:
        """Deletes the job ``id`` and its output, if it has ended or is not there."""
        return {"removed": await jobs.remove(str(params["id"]))}

    return {
        "start_job": start,
        "jobs": list_all,
        "job_status": status,
        "job_log": log,
        "stop_job": stop,
        "remove_job": remove,
    }


def _found(job: str, found: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    if found is None:
        raise OperationError("NOT_FOUND", "The job %s does not exist on the host." % job)
    return found
