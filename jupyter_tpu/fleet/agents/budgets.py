"""Budgets, TPUs that are open to coding agents, and their ends."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path

from msgspec import structs

from ...cloud import Node, NodeName
from ...errors import InvalidInput, Reason, TPUError
from ...files.agent_files import check_folder
from ..core.core import Core
from ..core.records import SpendRecord
from ..jobs.guard import Guards
from ..lifecycle.power import PowerService
from ..models import AGENT, TPU, AllowAgents, Budget, BudgetOverview, SetGuard
from ..models.core import seconds_of, timestamp, validated
from ..money.budget_rules import whose
from ..money.ledger import NOTICE_SECONDS, Ledger
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
        budget = await asyncio.to_thread(_with_folder, validated(request))
        await self._reload()
        earlier = self._ledger.budget(budget.who)
        if budget.day is None and budget.total is None:
            if earlier is None or not budget.folder:
                raise InvalidInput(
                    "A budget needs a limit a day or in total.",
                    "Set USD a day, or USD in total (in a terminal: --day or --total).",
                )
            budget = structs.replace(earlier, folder=budget.folder)
        elif earlier is not None and not budget.folder:
            budget = structs.replace(budget, folder=earlier.folder)
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


def _with_folder(budget: Budget) -> Budget:
    """With the folder's full path. Raises INVALID for one that is not for agents."""
    if not budget.folder:
        return budget
    if budget.who != AGENT:
        raise InvalidInput("Only the budget of coding agents has a folder.", field="folder")
    return structs.replace(budget, folder=str(check_folder(Path(budget.folder))))


log = logging.getLogger(__name__)

#: Seconds between two looks.
LOOK_SECONDS = 15.0
#: A guard that ends a TPU so much later is set again; seconds.
_LATE_SECONDS = 30.0
#: A clock that is wrong by more than this has jumped; seconds.
JUMP_SECONDS = 60.0
#: For how long nothing is ended after a jump forwards: the clock may be set right; seconds.
HOLD_SECONDS = 600.0


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
        if jump > JUMP_SECONDS:
            log.warning("The clock of this computer has jumped forwards by %.0f s.", jump)
            self._held_until = running + HOLD_SECONDS
        elif jump < -JUMP_SECONDS:
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
                async with asyncio.timeout(LOOK_SECONDS):
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
                NOTICE_SECONDS / 60,
            )
            self._look.set()
        return True

    async def _set_guard(self, line: SpendRecord) -> None:
        node = self._observed.node(line.name)
        if node is None or node.id != line.node_id or line.since is None or line.ends is None:
            return  # it costs nothing now
        guard = self._guards.last_known(node)
        latest = line.ends + _LATE_SECONDS
        times = [guard.until, guard.ends or guard.until] if guard is not None else [""]
        if all(time and seconds_of(time, "ends") <= latest for time in times):
            return  # it is not kept for longer, either
        request = SetGuard(
            action="delete",
            idle=guard.idle if guard is not None else None,
            until=timestamp("seconds", at=line.ends),
            notice=NOTICE_SECONDS,
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
