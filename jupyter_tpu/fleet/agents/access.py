"""What a coding agent may call: by the name of the method, as the routes have it.

Whatever is not named here is for people only, so that a new route is closed to agents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..core.core import Core
from ..models import CopyFiles, Operation, SyncProject
from ..money.ledger import Ledger
from .plans import PlanService

#: Without a further condition. None of them costs money, ends anything, or changes a limit.
_FREE = """
    status catalog tpus tpu quote hunts.list hunts.get hunts.quote usage.show grants.list
    prices.list budgets.show plans.make plans.get plans.carry_out operations.list operations.get
    environments.list environments.list_packages environments.get_lock pythons.list kernels.list
    chips.list metrics.get metrics.list guards.get jobs.list jobs.all jobs.get jobs.log
    profiles.memory runs.list runs.get runs.output doctor.check doctor.preflight queued.list
    queued.get tunnels.list tunnels.all shares.list tokens.list logs.show
"""
FREE = frozenset(_FREE.split())
#: Only on a TPU that an agent has created.
ON_OWN_TPU = {
    "delete": "delete",
    "stop": "stop",
    "disconnect": "disconnect",
    "runs.write": "write to a command on",
    "runs.stop": "stop a command on",
    "jobs.stop": "stop a job on",
    "jobs.remove": "remove a job of",
    "kernels.shut_down": "shut down a kernel of",
    "environments.change_packages": "change the packages of",
}
#: On a TPU that an agent has created, or on which a person lets agents run commands.
ON_OPEN_TPU = {
    "connect": "connect",
    "runs.start": "run commands on",
    "jobs.start": "start jobs on",
    "profiles.start": "trace",
    "copies.start": "copy files to or from",
    "sync.start": "copy files to",
}
#: Only of an operation that an agent has begun, or that is on a TPU which an agent has created.
OF_OWN_OPERATION = frozenset({"operations.cancel", "hunts.stop"})


class AgentAccess:
    """folder: the files of this computer that agents may copy are in it."""

    def __init__(self, core: Core, ledger: Ledger, plans: PlanService) -> None:
        self.folder = Path.cwd()
        self._cloud = core.cloud
        self._known = core.runner.known
        self._finder = core.finder
        self._ledger = ledger
        self._plans = plans

    async def require(self, call: str, arguments: tuple[Any, ...]) -> None:
        """Raises PERMISSION for what an agent may not do."""
        if call in FREE:
            return
        if call in ON_OPEN_TPU:
            name = await self._finder.find(arguments[0])
            self._ledger.require_use_by_agents(name, ON_OPEN_TPU[call])
            for argument in arguments:
                _require_files_in(self.folder, argument)
        elif call in ON_OWN_TPU:
            name = await self._finder.find(arguments[0])
            self._ledger.require_of_agent(name, ON_OWN_TPU[call])
        elif call in OF_OWN_OPERATION:
            operation = self._operation(arguments[0])
            if not self._is_begun_by_agent(operation.id):
                name = NodeName(self._cloud.project, operation.zone, operation.tpu)
                self._ledger.require_of_agent(name, "end an operation on")
        else:
            raise TPUError(
                "Only a person may do this, not a coding agent.",
                Reason.PERMISSION,
                "Ask a person to do it.",
            )

    def _operation(self, id: str) -> Operation:
        """The one with this id, or the newest on a TPU of this name."""
        operations = self._known.all()
        named = (operation for operation in operations if id in (operation.id, operation.tpu))
        return next(named, None) or self._known.get(id)

    def _is_begun_by_agent(self, id: str) -> bool:
        return bool(self._plans.began(id)) or self._ledger.is_of_agent(id)


def _require_files_in(folder: Path, request: Any) -> None:
    """Raises PERMISSION for files of this computer outside of *folder*."""
    paths: list[str] = []
    if isinstance(request, SyncProject):
        paths = [request.folder]
    elif isinstance(request, CopyFiles):
        paths = [request.destination] if request.download else request.sources
    root = folder.resolve()
    for path in paths:
        here = Path(path or "~").expanduser().resolve()
        if not here.is_relative_to(root):
            raise TPUError(
                f"{here} is not in {root}, and an agent may only copy files of that folder.",
                Reason.PERMISSION,
                "Start Jupyter in a folder that has the files, or ask a person to copy them.",
            )
