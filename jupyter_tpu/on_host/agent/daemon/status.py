"""The status of this host for clients: one answer, sent when something has changed."""

from __future__ import annotations

import asyncio
import glob
import json
import os
from typing import Any, Awaitable, Callable, Dict, Hashable, List, Optional, Tuple, cast

from ..protocol.digests import sha256
from ..protocol.paths import base_folder
from ..protocol.records import DaemonStatus, HomeReport, KernelReport
from ..protocol.requests import DaemonLoadQuery, GetStatusRequest
from ..protocol.timeouts import is_set_within
from .jobs import HostJobs
from .load import LoadSampler
from .metadata import Announced
from .warm_kernels import WarmKernels

_FILE = "jupyter-tpu-packages.json"


class RequestedPackages:
    """{environment: {"revision", "packages"}} of all environments that jupyter-tpu created."""

    def __init__(self) -> None:
        self._read: Dict[str, Any] = {}  # by path: when it was written, and its content

    def all(self) -> Dict[str, Dict[str, Any]]:
        packages, read = {}, {}
        pattern = os.path.join(glob.escape(base_folder()), "environments", "*", _FILE)
        for path in glob.glob(pattern):
            try:
                written = os.stat(path).st_mtime_ns
                known = self._read.get(path)
                if known is None or known[0] != written:
                    with open(path, encoding="utf-8") as file:
                        state = json.load(file)
                    fields = {"revision": state["revision"], "packages": state["packages"]}
                    known = (written, fields)
            except (OSError, ValueError, KeyError, TypeError):
                continue  # removed meanwhile
            read[path] = known
            packages[os.path.basename(os.path.dirname(path))] = known[1]
        self._read = read
        return packages


#: Seconds between two looks for changes, and most seconds that a request waits for one.
LOOK_SECONDS, WAIT_SECONDS = 1.0, 60.0
#: What is reported of a kernel.
_KERNEL = ("id", "environment", "notebook", "state", "pid", "started", "last_activity", "attached",
           "holder", "chips", "booked", "hosts", "saved", "cell")  # fmt: skip
#: What changes with each line that a job prints, and is in its log.
_JOB_LOG = ("last", "partial", "silent")


class HostStatus:
    """Answers `GetStatusRequest`.

    kernels: lists all kernels, with the chips that they hold; guard: what the guard says, see
    `GuardOperations.report`; home: see `HomeFolders.report`.
    """

    def __init__(
        self,
        warm: WarmKernels,
        jobs: HostJobs,
        kernels: Callable[[], Awaitable[List[KernelReport]]],
        guard: Callable[[], Optional[Dict[str, Any]]],
        announced: Announced,
        home: Callable[[], Optional[HomeReport]],
    ) -> None:
        self._warm = warm
        self._jobs = jobs
        self._kernels = kernels
        self._guard = guard
        self._announced = announced
        self._home = home
        self._packages = RequestedPackages()
        self.load = LoadSampler(self.notify_changed, kernels)
        self._requests: Dict[Hashable, object] = {}  # the latest one, by client
        self._changed = asyncio.Event()

    def notify_changed(self) -> None:
        """Something has changed: the requests that wait are answered now."""
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def forget(self, who: Hashable) -> None:
        """The client *who* is gone: no one waits any more."""
        self._requests.pop(who, None)
        self.notify_changed()

    async def wait(self, request: GetStatusRequest) -> DaemonStatus:
        """The ``kernels`` and which of them hold ``chips``, the ``warm`` kernels, the status of
        those of the ``jobs`` that are there, the ``packages`` that were asked for in each
        environment, the ``guard``, the announced ``interruption`` of this host, and its ``home``
        folders.
        """
        latest = self._requests[request.client] = object()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(request.seconds, WAIT_SECONDS)
        while True:
            changed = self._changed
            samples, due = self._sample(request.load)
            report = await self._report(request.jobs or [])
            answer: DaemonStatus = {"version": _version(report)}
            if samples:
                answer["load"] = samples
            if answer["version"] != request.version:
                return cast(DaemonStatus, {**report, **answer})
            left = deadline - loop.time()
            if samples or left <= 0 or self._requests.get(request.client) is not latest:
                return answer
            await is_set_within(changed, min(LOOK_SECONDS, left, due))

    def _sample(self, query: Optional[DaemonLoadQuery]) -> "Tuple[List[Any], float]":
        """The samples that a client does not have yet, and the seconds until the next one."""
        if query is None:
            return [], WAIT_SECONDS
        due = self.load.sample(query["every"])
        return self.load.since(query.get("after", 0)), due

    async def _report(self, ids: List[str]) -> Dict[str, Any]:
        kernels = await self._kernels()
        jobs = {
            job: {name: value for name, value in status.items() if name not in _JOB_LOG}
            for job, status in (await self._jobs.some(ids)).items()
        }
        return {
            "kernels": [{name: kernel.get(name) for name in _KERNEL} for kernel in kernels],
            "warm": self._warm.statuses(),
            "jobs": jobs,
            "packages": self._packages.all(),
            "guard": self._guard(),
            "interruption": self._interruption(kernels),
            "home": self._home(),
        }

    def _interruption(self, kernels: List[Any]) -> Optional[Dict[str, Any]]:
        """What is announced, and what the user lets run then."""
        announced = self._announced.interruption
        if announced is None:
            return None
        run = [
            {**kernel["checkpoint"], "notebook": kernel["notebook"]}
            for kernel in kernels
            if kernel.get("checkpoint")  # not of an older keeper
        ]
        return {**announced, "checkpoints": run}


def _version(report: Dict[str, Any]) -> str:
    """Another one for another report; what a kernel prints is news once a minute."""
    kernels = [
        {**kernel, "last_activity": str(kernel["last_activity"])[: len("2026-01-01T00:00")]}
        for kernel in report["kernels"]
    ]
    text = json.dumps({**report, "kernels": kernels}, sort_keys=True)
    return sha256(text.encode())[:16]
