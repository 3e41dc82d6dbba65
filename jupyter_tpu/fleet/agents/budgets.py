"""Budgets, TPUs that are open to coding agents, their ends, and what an agent may call.

An agent calls methods by their names, as the routes have them. Whatever is not named here is for
people only, so that a new route is closed to agents.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from ...cloud import Node, NodeName
from ...errors import InvalidInput, Reason, TPUError
from ..core.core import Core
from ..core.records import SpendRecord
from ..jobs.guard import Guards
from ..lifecycle.power import PowerService
from ..models import (
    AGENT,
    TPU,
    AllowAgents,
    Budget,
    BudgetOverview,
    CopyFiles,
    PlanTPU,
    SetGuard,
    SyncProject,
)
from ..models.core import seconds_of, timestamp, validated
from ..money.budget_rules import whose
from ..money.ledger import NOTICE, Ledger
from ..money.owners import TPUOwners, own_name
from .plans import PlanService


class BudgetService:
    """As a :class:`~jupyter_tpu.fleet.api.BudgetsAPI`."""

    def __init__(
        self, core: Core, ledger: Ledger, owners: TPUOwners, plans: PlanService, ends: BudgetEnds
    ) -> None:
        self._ledger = ledger
        self._owners = owners
        self._plans = plans
        self._reload = core.shared.reload
        self._finder = core.finder
        self._observed = core.observed
        self._view = core.tpus.tpu
        self._shorten = ends.shorten
        core.changes.register("budgets", self.find)

    async def show(self) -> BudgetOverview:
        await self._reload()
        return self.find()

    def find(self, _: str = "") -> BudgetOverview:
        """As `show`, at once: for events."""
        return BudgetOverview(
            me=own_name(),
            emulated=self._ledger.emulated,
            budgets=self._ledger.uses(),
            spending=self._ledger.spending()[:100],
            questions=self._plans.questions(),
        )

    async def set(self, request: Budget) -> BudgetOverview:
        budget = validated(request)
        if budget.day is None and budget.total is None:
            raise InvalidInput(
                "A budget needs a limit a day or in total.",
                "Set USD a day, or USD in total (in a terminal: --day or --total).",
            )
        await self._reload()
        await self._ledger.set_budget(budget)
        self._shorten()
        return self.find()

    async def allow(self, ref: str, request: AllowAgents | None = None) -> TPU:
        request = request or AllowAgents()
        name = await self._finder.find(ref)
        node = self._observed.node(name)
        if node is None:
            raise TPUError(f"{name.node} does not exist yet.", Reason.CONFLICT, "Try again later.")
        self._owners.require_consent(node, request.confirm_name)
        await self._ledger.allow_agents(node, request.allowed)
        return self._view(name)

    async def remove(self, who: str) -> None:
        await self._reload()
        await self._ledger.remove_budget(who)


log = logging.getLogger(__name__)

#: Seconds between two looks.
LOOK = 15.0
#: A guard that ends a TPU so much later is set again; seconds.
_LATE = 30.0
#: A clock that is wrong by more than this has jumped; seconds.
JUMP = 60.0
#: For how long nothing is ended after a jump forwards: the clock may be set right; seconds.
HOLD = 600.0


def running_time() -> float:
    """Seconds that only pass, also while the computer sleeps where the system counts that."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ClockWatch:
    """Whether the clock can be believed: one that has jumped forwards must end no TPU at once.

    Pure: both times come with each question.
    """

    def __init__(self) -> None:
        self._offset: float | None = None  # of the clock to the time that only passes
        self._held_until = 0.0

    def is_trusted(self, clock: float, running: float) -> bool:
        before, self._offset = self._offset, clock - running
        jump = 0.0 if before is None else self._offset - before
        if jump > JUMP:
            log.warning("The clock of this computer has jumped forwards by %.0f s.", jump)
            self._held_until = running + HOLD
        elif jump < -JUMP:
            self._held_until = 0.0  # it was set right
        return running >= self._held_until


class BudgetEnds:
    def __init__(self, core: Core, ledger: Ledger, guards: Guards, power: PowerService) -> None:
        self._ledger = ledger
        self._guards = guards
        self._power = power
        self._observed = core.observed
        self._look = asyncio.Event()
        self._refused: dict[NodeName, str] = {}
        self._clock = ClockWatch()
        core.loops.register("budgets", self.run)

    def shorten(self) -> None:
        """Has TPUs end sooner that can cost more than their budget has, and says so."""
        for line in self._ledger.shorten(time.time()):
            assert line.ends is not None
            log.warning(
                "The budget of %s does not cover %s any more: its guard deletes it at %s.",
                whose(line.who),
                line.tpu,
                timestamp("seconds", at=line.ends),
            )
            self._look.set()

    async def run(self) -> None:
        """Sets guards, and acts for those that do not, until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(LOOK):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            if not self._clock.is_trusted(time.time(), running_time()):
                continue  # the guards of the hosts have clocks of their own
            self.shorten()
            for line in self._ledger.shortened():
                await self._set_guard(line)
            for line in self._ledger.overdue(time.time()):
                try:
                    await self._end(line)
                except TPUError as error:
                    if error.reason is not Reason.CONFLICT:
                        self._note(line.name, f"{line.tpu} has reached its limit, but: {error}")

    async def _end(self, line: SpendRecord) -> None:
        """The guard should have deleted the TPU by now. It is asked first, if its host answers."""
        node = self._observed.node(line.name)
        if node is None or node.id != line.node_id:
            return
        if line.shortened or not await self._goes_by_guard(node):
            await self._power.act_for_guard(line.name, "delete", "cost")

    async def _goes_by_guard(self, node: Node) -> bool:
        """Whether the guard of a TPU, asked now, has a later end than the ledger, which somebody
        has chosen elsewhere. The ledger follows it, or the TPU is deleted after a notice.
        """
        now, name = time.time(), node.name.node
        ends = None
        try:
            guard = await self._guards.get(f"{node.name.zone}~{name}")
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                return False  # its host can't be asked
            followed = False
        else:
            if guard.action == "delete" and guard.ends:
                ends = seconds_of(guard.ends, "ends")
            if guard.phase != "watching" or (ends is not None and ends <= now):
                return False
            followed = await self._ledger.follow_guard(node, ends)
        if followed:
            log.warning("%s ends later than was planned: its guard was changed elsewhere.", name)
        else:
            self._ledger.give_notice(node, now)
            log.warning(
                "%s has reached its limit, but its guard does not delete it: it is deleted in "
                "%.0f min.",
                name,
                NOTICE / 60,
            )
            self._look.set()
        return True

    async def _set_guard(self, line: SpendRecord) -> None:
        node = self._observed.node(line.name)
        if node is None or node.id != line.node_id or line.since is None or line.ends is None:
            return  # it costs nothing now
        guard = self._guards.last_known(node)
        latest = line.ends + _LATE
        times = [guard.until, guard.ends or guard.until] if guard is not None else [""]
        if all(time and seconds_of(time, "ends") <= latest for time in times):
            return  # it is not kept for longer, either
        request = SetGuard(
            action="delete",
            idle=guard.idle if guard is not None else None,
            until=timestamp("seconds", at=line.ends),
            notice=NOTICE,
        )
        try:
            await self._guards.set_at_creation(line.name, request)
        except TPUError as error:  # its host can't be reached, say: it is tried again
            self._note(line.name, f"The guard of {line.tpu} can't be set to its budget: {error}")

    def _note(self, name: NodeName, text: str) -> None:
        """Logs it once, although it is tried again."""
        if self._refused.get(name) != text:
            self._refused[name] = text
            log.warning("%s", text)


#: Without a further condition. None of them costs money, ends anything, or changes a limit.
_FREE = """
    status catalog tpus tpu quote hunts.list hunts.get hunts.quote usage.show grants.list
    prices.list budgets.show plans.make plans.get plans.carry_out operations.list operations.get
    environments.list environments.list_packages kernels.list chips.list metrics.get metrics.list
    guards.get jobs.list jobs.all jobs.get runs.list runs.get doctor.preflight queued.list
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
#: On a TPU that an agent has created, or on which a person lets agents run commands. Some of it
#: only reads, but starts programs there, or shows what a person's programs have written.
ON_OPEN_TPU = {
    "connect": "connect",
    "environments.get_kernelspec": "run code on",
    "runs.output": "read the output of commands on",
    "jobs.log": "read the output of jobs on",
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
#: Of a TPU that an agent plans: they let others in, reach what is not the TPU's, or cost what no
#: budget counts.
_FOR_PEOPLE = ("service_account", "scopes", "data_disks", "tags", "metadata", "disk_gb")


class BegunOperation(NamedTuple):
    """An operation, and whether an agent has begun it by a plan."""

    kind: str
    tpu: NodeName
    by_agent: bool


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
            for argument in arguments:
                _require_plain(argument)
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
            operation = self._operation(call, arguments[0])
            if operation.kind in LIMITING:
                raise _for_people()
            if not operation.by_agent:
                self._ledger.require_of_agent(operation.tpu, "end an operation on")
        else:
            raise _for_people()

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


def _require_plain(request: Any) -> None:
    """Raises PERMISSION for a plan with options that are for people only."""
    if not isinstance(request, PlanTPU):
        return
    tpu = request.tpu
    for option in _FOR_PEOPLE:
        if getattr(tpu if option == "disk_gb" else tpu.options, option):
            raise TPUError(
                f"Only a person may choose {option} of a TPU, not a coding agent.",
                Reason.PERMISSION,
                "Leave it out, or ask a person to create the TPU.",
            )


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
