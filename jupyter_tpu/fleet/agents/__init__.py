"""What coding agents may do: plans, which are carried out inside a budget, and nothing of others.

A person sets the budget. What an agent asks for outside of it becomes a question to that person.
"""

from __future__ import annotations

from ...cloud import NodeName
from ..core.core import Core
from ..core.records import Snapshot
from ..hunts import Hunts
from ..jobs import Jobs
from ..lifecycle import Lifecycle
from ..money import Money
from .access import AgentAccess
from .budgets import BudgetEnds, BudgetService
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
        self.access = AgentAccess(core.finder, money.ledger, self._begun_by)
        core.shared.reloaded.add(self._reload)
        core.changes.register("budgets", self.budgets.find)
        core.loops.register("budgets", ends.run)

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
