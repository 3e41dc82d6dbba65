"""`Agents`: budgets, plans, and what coding agents may do."""

from __future__ import annotations

import asyncio
import logging
import time

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..core.core import Core
from ..core.records import Snapshot
from ..hunts.subject import Hunts
from ..lifecycle.subject import Lifecycle
from ..money.subject import Money
from .access import AgentAccess
from .plans import BudgetService, PlanService

log = logging.getLogger(__name__)

#: Seconds between two looks for TPUs whose guards have not deleted them.
LOOK = 15.0


class Agents:
    def __init__(self, core: Core, money: Money, lifecycle: Lifecycle, hunts: Hunts) -> None:
        self._core = core
        self._ledger = money.ledger
        self._power = lifecycle.power
        plans = self.plans = PlanService(
            core.cloud,
            core.store,
            lifecycle.create,
            hunts.service,
            money.grants,
            money.ledger,
            core.shared.reload,
            changed=lambda: core.changes.mark_changed("budgets", "budgets"),
        )
        self.budgets = BudgetService(money.ledger, plans, core.shared.reload)
        self.access = AgentAccess(core.finder, money.ledger, self._begun_by)
        core.shared.reloaded.add(self._reload)
        core.changes.register("budgets", self.budgets.find)
        core.loops.register("budgets", self._run)

    def _reload(self, snapshot: Snapshot) -> None:
        self.plans.take_over(snapshot.plans)

    def _begun_by(self, id: str) -> tuple[str, NodeName]:
        known = self._core.runner.known
        operation = next(
            (candidate for candidate in known.all() if id in (candidate.id, candidate.tpu)), None
        ) or known.get(id)
        name = NodeName(self._core.cloud.project, operation.zone, operation.tpu)
        begun = self.plans.began(operation.id) or self._ledger.is_of_agent(operation.id)
        return "agent" if begun else "", name

    async def _run(self) -> None:
        """Deletes the TPUs whose time has ended although their guards have not: a guard may be
        ended by what runs on its host.
        """
        refused: dict[NodeName, str] = {}
        while True:
            await asyncio.sleep(LOOK)
            for name in self._ledger.overdue(time.time()):
                try:
                    await self._power.act_for_guard(name, "delete", "cost")
                except TPUError as error:
                    if error.reason is not Reason.CONFLICT and refused.get(name) != str(error):
                        refused[name] = str(error)
                        log.warning("%s has reached its limit, but: %s", name.node, error)
