"""What an agent may call, and what it may set there.

An agent calls methods by their names, as the routes have them. Whatever is not named here is for
people only, so that a new route, and a new field of a plan, is closed to agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import NODEFAULT, Struct, structs

from ...cloud import NodeName
from ...errors import InvalidInput, Reason, TPUError
from ...files.agent_files import check_folder, open_destination, open_path
from ..core.core import Core
from ..models import AGENT, ConnectTPU, CopyFiles, PlanTPU, SyncProject
from ..money.ledger import Ledger
from .plans import PlanService

#: Without a further condition. None of them costs money, ends anything, or changes a limit.
_FREE = """
    status catalog tpus tpu consequences quote hunts.list hunts.get hunts.quote usage.show
    grants.list prices.list budgets.show plans.make plans.get plans.carry_out operations.list
    operations.get environments.list environments.list_packages kernels.list chips.list
    metrics.get metrics.list guards.get jobs.list jobs.all jobs.get runs.list runs.get
    doctor.preflight queued.list queued.get tunnels.list tunnels.all shares.list tokens.list
    logs.show serving.list serving.all serving.get
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
#: On a TPU that an agent has created, or on which a person lets agents run commands. Some of it
#: only reads, but starts programs there, or shows what a person's programs have written.
ON_OPEN_TPU = {
    "connect": "connect",
    "environments.get_kernelspec": "run code on",
    "runs.output": "read the output of commands on",
    "jobs.log": "read the output of jobs on",
    "jobs.why": "look into jobs on",
    "environments.get_lock": "read how environments were made on",
    "pythons.list": "look for Pythons on",
    "profiles.memory": "look into programs on",
    "doctor.check": "start JAX on",
    "runs.start": "run commands on",
    "jobs.start": "start jobs on",
    "profiles.start": "trace",
    "copies.start": "copy files to or from",
    "sync.start": "copy files to",
}
#: Only of an operation that an agent has begun, or that is on a TPU which an agent has created.
OF_OWN_OPERATION = frozenset({"operations.cancel", "hunts.stop"})
#: Operations that limit what a TPU costs: no agent cancels them.
LIMITING = frozenset({"guard", "stop", "delete"})
#: What an agent may set in a plan, and of its TPU. All else lets others in, reaches what is not the
#: TPU's, says whose it is, or costs what no budget counts.
PLAN = frozenset(("tpu", "zones", "types", "tiers", "time", "max_cost", "who"))
PLANNED_TPU = frozenset(
    (
        *("name", "type", "zone", "version", "tier", "api", "confirm_price", "max_price"),
        *("options", "connect", "guard", "once"),
    )
)
PLANNED_OPTIONS = frozenset(
    ("topology", "internal_ips", "startup_script", "description", "secure_boot")
)


class BegunOperation(NamedTuple):
    """An operation, and whether an agent has begun it by a plan."""

    kind: str
    tpu: NodeName
    by_agent: bool


class AgentAccess:
    """folder: where this process began; agents may copy its files unless a person chose another."""

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
            for argument in arguments:
                require_open_plan(argument)
            return
        if call in ON_OPEN_TPU:
            name = await self._finder.find(arguments[0])
            self._ledger.require_use_by_agents(name, ON_OPEN_TPU[call])
            for argument in arguments:
                if isinstance(argument, CopyFiles | SyncProject):
                    await asyncio.to_thread(_keep_in, self._files_folder(), argument)
                if isinstance(argument, ConnectTPU) and argument.then_run:
                    # On a person's TPU the job would be a person's, with their tokens.
                    self._ledger.require_of_agent(name, "start a job by connecting")
        elif call in ON_OWN_TPU:
            name = await self._finder.find(arguments[0])
            self._ledger.require_of_agent(name, ON_OWN_TPU[call])
        elif call in OF_OWN_OPERATION:
            operation = self._operation(call, arguments[0])
            if operation.kind in LIMITING:
                raise _for_people()
            if not operation.by_agent:
                self._ledger.require_of_agent(operation.tpu, "end an operation on")
        else:
            raise _for_people()

    def _files_folder(self) -> Path:
        """Raises PERMISSION where no person chose one, and this process did not begin in one."""
        budget = self._ledger.budget(AGENT)
        chosen = Path(budget.folder) if budget is not None and budget.folder else self.folder
        try:
            return check_folder(chosen)
        except InvalidInput as error:
            raise TPUError(
                f"Coding agents may copy no files yet. {error.message}",
                Reason.PERMISSION,
                "A person can choose their folder: jupyter tpu budget set agent --folder DIR",
            ) from None

    def _operation(self, call: str, ref: str) -> BegunOperation:
        """Looks for it as *call* does: for a hunt also by the name of its TPU, the newest first."""
        named = (
            candidate
            for candidate in self._known.all()
            if candidate.kind == "hunt" and ref in (candidate.id, candidate.tpu)
        )
        operation = (next(named, None) if call == "hunts.stop" else None) or self._known.get(ref)
        name = NodeName(self._cloud.project, operation.zone, operation.tpu)
        id = operation.id
        by_agent = self._plans.began(id) == AGENT or self._ledger.is_of_agent(id)
        return BegunOperation(operation.kind, name, by_agent)


def _for_people() -> TPUError:
    return TPUError(
        "Only a person may do this, not a coding agent.",
        Reason.PERMISSION,
        "Ask a person to do it.",
    )


def require_open_plan(request: Any) -> None:
    """Raises PERMISSION for a plan in which something is set that is for people only."""
    if isinstance(request, PlanTPU):
        _require_open(request, PLAN)
        _require_open(request.tpu, PLANNED_TPU)
        _require_open(request.tpu.options, PLANNED_OPTIONS)


def _require_open(request: Struct, fields: Collection[str]) -> None:
    for field in structs.fields(request):
        make = field.default_factory
        default = field.default if make is NODEFAULT else make()
        if field.name not in fields and getattr(request, field.name) != default:
            raise TPUError(
                f"Only a person may choose {field.name} of a TPU, not a coding agent.",
                Reason.PERMISSION,
                "Leave it out, or ask a person to create the TPU.",
            )


def _keep_in(root: Path, request: CopyFiles | SyncProject) -> None:
    """Keeps what is copied in the folder for agents; raises PERMISSION for paths that are not."""
    request.agents_folder = str(root)
    if isinstance(request, SyncProject):
        opened = open_destination if request.pull else open_path
        request.folder = opened(root, request.folder)
    elif request.download:
        request.destination = open_destination(root, request.destination)
    else:
        request.sources = [open_path(root, path) for path in request.sources]
