"""`Agents`: budgets, plans, and what coding agents may do."""

from __future__ import annotations

from ...cloud import NodeName
from ..core.core import Core
from ..core.records import Snapshot
from ..hunts.subject import Hunts
from ..jobs.subject import Jobs
from ..lifecycle.subject import Lifecycle
from ..models import AGENT
from ..money.subject import Money
from .access import AgentAccess, BegunOperation
from .budget_ends import BudgetEnds
from .budgets import BudgetService
from .plans import PlanService


class Agents:
    def __init__(
        self, core: Core, money: Money, jobs: Jobs, lifecycle: Lifecycle, hunts: Hunts
    ) -> None:
        self._core = core
        self._ledger = money.ledger
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
        ends = BudgetEnds(money.ledger, jobs.guards, lifecycle.power, core.observed)
        self.budgets = BudgetService(core, money, plans, ends.shorten)
        self.access = AgentAccess(core.finder, money.ledger, self._operation)
        core.shared.reloaded.add(self._reload)
        core.changes.register("budgets", self.budgets.find)
        core.loops.register("budgets", ends.run)

    def _reload(self, snapshot: Snapshot) -> None:
        self.plans.take_over(snapshot.plans)

    def _operation(self, call: str, ref: str) -> BegunOperation:
        """Looks for it as *call* does: for a hunt also by the name of its TPU, the newest first."""
        known = self._core.runner.known
        named = (
            candidate
            for candidate in known.all()
            if candidate.kind == "hunt" and ref in (candidate.id, candidate.tpu)
        )
        operation = (next(named, None) if call == "hunts.stop" else None) or known.get(ref)
        name = NodeName(self._core.cloud.project, operation.zone, operation.tpu)
        by_agent = self.plans.began(operation.id) == AGENT or self._ledger.is_of_agent(operation.id)
        return BegunOperation(operation.kind, name, by_agent)
