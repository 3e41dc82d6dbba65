"""Budgets: set, shown and removed, and TPUs of people that are open to coding agents."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import InvalidInput, Reason, TPUError
from ..core.core import Core
from ..models import TPU, AllowAgents, Budget, BudgetOverview
from ..models.core import validated
from ..money.owners import own_name
from ..money.subject import Money
from .plans import PlanService


class BudgetService:
    """As a :class:`~jupyter_tpu.fleet.api.BudgetsAPI`."""

    def __init__(
        self, core: Core, money: Money, plans: PlanService, shorten: Callable[[], object]
    ) -> None:
        """shorten(): has TPUs end sooner that can cost more than their budget has."""
        self._ledger = money.ledger
        self._owners = money.owners
        self._plans = plans
        self._reload = core.shared.reload
        self._finder = core.finder
        self._observed = core.observed
        self._view = core.tpus.tpu
        self._shorten = shorten

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
                "A budget needs a limit a day or in total.", "Add --day USD or --total USD."
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
