"""What clients want to know of this host all the time, in one answer, once it has changed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from typing import Any, Awaitable, Callable, Dict, Hashable

from .jobs import Jobs
from .packages import RequestedPackages
from .warm_kernels import WarmKernels

#: Seconds between two looks for changes, and most seconds that a request waits for one.
LOOK, WAIT = 1.0, 60.0
#: What is reported of a kernel.
_KERNEL = ("id", "environment", "notebook", "state", "pid", "started", "last_activity", "attached",
           "holder", "chips")  # fmt: skip
#: What changes with each line that a job prints, and is in its log.
_JOB_LOG = ("last", "partial")


class HostStatus:
    """Answers the operation ``status``.

    kernels: what answers the operation ``kernels``.
    """

    def __init__(
        self,
        warm: WarmKernels,
        jobs: Jobs,
        kernels: Callable[[Dict[str, Any]], Awaitable[Dict[str, Any]]],
    ) -> None:
        self._warm = warm
        self._jobs = jobs
        self._kernels = kernels
        self._packages = RequestedPackages()
        self._requests: Dict[Hashable, object] = {}  # the latest one, by client
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Something has changed: those who wait hear of it now."""
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def forget(self, who: Hashable) -> None:
        """The client *who* is gone: nobody waits any more."""
        self._requests.pop(who, None)
        self.look()

    async def wait(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """The ``kernels`` and which of them hold ``chips``, the ``warm`` kernels, the status of
        those of the ``jobs`` (ids) that are there, and the ``packages`` that were asked for in each
        environment.

        Their ``version`` is the whole answer if it is still *version* after so many *seconds*, or
        when the client asks again.
        """
        request = self._requests[params["who"]] = object()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(float(params.get("seconds", 0.0)), WAIT)
        while True:
            changed = self._changed
            report = await self._report([str(job) for job in params.get("jobs", ())])
            version = _version(report)
            if version != params.get("version"):
                return {**report, "version": version}
            left = deadline - loop.time()
            if left <= 0 or self._requests.get(params["who"]) is not request:
                return {"version": version}
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), min(LOOK, left))

    async def _report(self, wanted: "list[str]") -> Dict[str, Any]:
        kernels = (await self._kernels({}))["kernels"]
        jobs = {
            job: {name: value for name, value in status.items() if name not in _JOB_LOG}
            for job, status in (await self._jobs.some(wanted)).items()
        }
        return {
            "kernels": [{name: each.get(name) for name in _KERNEL} for each in kernels],
            "warm": self._warm.statuses(),
            "jobs": jobs,
            "packages": self._packages.all(),
        }


def _version(report: Dict[str, Any]) -> str:
    """Another one for another report; what a kernel prints is news once a minute."""
    kernels = [
        {**each, "last_activity": str(each["last_activity"])[: len("2026-01-01T00:00")]}
        for each in report["kernels"]
    ]
    text = json.dumps({**report, "kernels": kernels}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
