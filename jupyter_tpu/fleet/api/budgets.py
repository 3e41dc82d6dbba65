"""What others may spend, and plans of what that would be."""

from __future__ import annotations

from typing import Protocol

from .. import models


class BudgetsAPI(Protocol):
    """Budgets: of coding agents, and of people."""

    async def show(self) -> models.BudgetOverview:
        """The budgets, what they are spent on, and the plans that wait for a person's yes."""

    async def set(self, request: models.Budget) -> models.BudgetOverview:
        """Sets a budget, in place of an earlier one of the same name. Raises INVALID.

        Where TPUs that exist could cost more than is left of it, the newest of them end sooner:
        their guards delete them, five minutes from now at the soonest.
        """

    async def allow(self, ref: str, request: models.AllowAgents | None = None) -> models.TPU:
        """Lets coding agents run commands on a TPU that a person has created, or no longer.

        It counts for this TPU, not for a later one of the same name. They can't stop or delete it.
        """

    async def remove(self, who: str) -> None:
        """Removes a budget. Agents without one have to ask; people are not limited."""


class PlansAPI(Protocol):
    """Plans: the first of two steps to a TPU. One is valid for an hour."""

    async def make(self, request: models.PlanTPU) -> models.Plan:
        """What a TPU would cost at most; creates nothing.

        Raises what creating it raises, and PRICE for a price that is not known or too high.
        """

    async def get(self, id: str) -> models.Plan:
        """One plan. Raises NOT_FOUND."""

    async def carry_out(self, id: str, options: models.CarryOutPlan | None = None) -> models.Plan:
        """Creates what was planned, or hunts for it; the plan then has the operation's id.

        Raises BUDGET for what is outside of the budget: of an agent's plan, a person is asked.
        """

    async def answer(self, id: str, answer: models.AnswerPlan) -> models.Plan:
        """Agrees to a plan that is outside of its budget, or refuses it."""
