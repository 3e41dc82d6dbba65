"""Which kernel, job or run a process of this host belongs to."""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Optional

from ..keeper.job_log import FINAL
from ..pod.present import members_here
from ..protocol.process_tree import descendants
from ..protocol.records import KernelReport, Owner
from .jobs import HostJobs
from .keepers import Keepers
from .runs import Runs

_NOBODY: Owner = {"kernel": "", "notebook": "", "job": "", "run": ""}


class ProcessOwners:
    """Looks at all that the daemon knows of."""

    def __init__(self, keepers: Keepers, jobs: HostJobs, runs: Runs) -> None:
        self._keepers = keepers
        self._jobs = jobs
        self._runs = runs

    async def of(
        self, pids: Collection[int], kernels: Optional[List[KernelReport]] = None
    ) -> Dict[int, Owner]:
        """The ``kernel`` (an id) with its ``notebook``, ``job`` or ``run`` of each of *pids*.

        kernels: their statuses, if the caller has them.
        """
        owners: Dict[int, Owner] = {}

        def add(process: int, owner: Owner) -> None:
            owners.update(dict.fromkeys((process, *descendants(process)), owner))

        if pids:
            for run, pid in (await self._runs.processes()).items():
                add(pid, {**_NOBODY, "run": run})
            for job in await self._jobs.all():
                if job["state"] not in FINAL:
                    # Its id is JOB-ATTEMPT.
                    id = job["id"].rpartition("-")[0] or job["id"]
                    add(job["keeper"], {**_NOBODY, "job": id})
            for member in members_here():  # of pod kernels, kept on another host
                named: Any = {name: member[name] for name in ("kernel", "notebook")}
                add(member["pid"], {**_NOBODY, **named})
            for status in await self._keepers.statuses() if kernels is None else kernels:
                notebook = status["notebook"] or ""
                add(status["keeper"], {**_NOBODY, "kernel": status["id"], "notebook": notebook})
        return {pid: owners.get(pid, _NOBODY) for pid in pids}

    async def name(
        self, held: List[Dict[str, Any]], kernels: Optional[List[KernelReport]] = None
    ) -> List[Dict[str, Any]]:
        """Adds to holders of chips what each belongs to."""
        owners = await self.of([holder["pid"] for holder in held], kernels)
        return [{**holder, **owners[holder["pid"]]} for holder in held]
