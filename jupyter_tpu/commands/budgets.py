"""Budgets, the ledger and plans as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .grammar import program
from .tables import state_text, table
from .times import local_time

if TYPE_CHECKING:
    from ..fleet.models import BudgetOverview, BudgetUse, Plan, Spending


def overview_text(overview: BudgetOverview) -> str:
    """All of it: a table of budgets, the questions, and what was spent."""
    parts = []
    if overview.emulated:
        parts.append("Emulated TPUs cost nothing. Here they count with the price of real ones.")
    if overview.budgets:
        heads = ("WHO", "SPENT", "MAY STILL COST", "LEFT", "TYPES", "ZONES", "UNTIL")
        parts.append(str(table(heads, [_row(use) for use in overview.budgets])))
    else:
        parts.append(
            "No budgets. Coding agents have to ask for each TPU. To set one: "
            f"{program()} budget set agent --day 20"
        )
    parts += [question_text(plan) for plan in overview.questions]
    if overview.spending:
        parts.append(spending_table(overview.spending))
    return "\n\n".join(parts)


def _row(use: BudgetUse) -> tuple[str, ...]:
    from ..catalog import usd

    budget = use.budget
    return (
        budget.who,
        use.text.removeprefix("spent "),
        usd(use.committed),
        "ended" if use.expired else usd(use.left),
        ", ".join(budget.types) or "all",
        ", ".join(budget.zones) or "all",
        budget.until,
    )


def spending_table(spending: list[Spending]) -> str:
    from ..catalog import usd

    heads = ("TPU", "WHO", "TYPE", "ZONE", "STATE", "COST", "AT MOST", "ENDS")
    rows = [
        (
            line.tpu,
            line.who,
            f"{line.type} ({line.tier})",
            line.zone,
            state_text(line.state),
            usd(line.usd),
            usd(line.most),
            local_time(line.ends) if line.ends and line.state != "ended" else "",
        )
        for line in spending
    ]
    return str(table(heads, rows))


def question_text(plan: Plan) -> str:
    """What a person is asked."""
    return (
        f"{_who(plan)} asks for {_what(plan)}. {price_text(plan)} {plan.outside}\n"
        f"To agree: {program()} budget approve {plan.id}\n"
        f"To refuse: {program()} budget refuse {plan.id}"
    )


def plan_text(plan: Plan) -> str:
    inside = f"Outside of the budget: {plan.outside}" if plan.outside else "Inside the budget."
    return (
        f"Plan {plan.id}: {_what(plan)}\n{price_text(plan)}\n{inside}\n"
        f"To create it, within an hour: {program()} create --plan {plan.id}"
    )


def price_text(plan: Plan) -> str:
    """ "$1.20 an hour, at most $1.24. It is deleted 1 h after …"."""
    from ..catalog import usd

    real = " (the price of a real one; it is emulated)" if plan.emulated else ""
    most = f"at most {usd(plan.most)}"
    return f"About {usd(plan.usd_per_hour)} an hour{real}, {most}. {plan.guard}"


def _who(plan: Plan) -> str:
    return "A coding agent" if plan.who == "agent" else plan.who


def _what(plan: Plan) -> str:
    meaning = f" = {plan.meaning}" if plan.meaning else ""
    where = "the first zone, type or tier that is available" if plan.hunt else plan.zone
    return f"{plan.name}, {plan.type}{meaning} ({plan.tier}), in {where}"
