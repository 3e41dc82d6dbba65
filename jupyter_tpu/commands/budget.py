"""``jupyter tpu budget`` and ``%tpu budget``; budgets, the ledger and plans as text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples, program
from ..terminal.parameters import project_option, tpu_argument
from ..terminal.printing import json_option, list_options, print_list, print_result
from ..terminal.questions import confirm_name_option, confirmed_names
from ..terminal.session import fleet_call, open_session
from ..terminal.tables import state_text, table
from ..terminal.times import local_time

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


_who_argument = argument(
    "who", metavar="WHO", help="agent (all coding agents), or a person, as TPUs are labeled."
)
_plan_argument = argument("plan", metavar="PLAN", help="The plan's ID.")


@click.group("budget", cls=Group)
def budget() -> None:
    """Say how much coding agents, or people, may spend on TPUs.

    A coding agent plans a TPU, and creates it by its plan. Inside its budget that needs no
    question. Outside, you are asked. Each such TPU has a guard that deletes it at the plan's limits
    of time and cost. A coding agent can stop and delete only TPUs that coding agents have created.
    """


@budget.command("show")
@project_option
@json_option
def show(as_json: bool) -> None:
    """Show budgets, what was spent, and what coding agents ask for."""
    overview = fleet_call(lambda fleet: fleet.budgets.show())
    print_result(overview, overview_text(overview), as_json)


@budget.command(
    "set",
    epilog=examples(
        "jupyter tpu budget set agent --day 20",
        "jupyter tpu budget set agent --day 20 --total 100 --until 2026-12-31 --type v5e "
        "--zone us-west4-a",
        "jupyter tpu budget set agent --folder ~/project",
    ),
)
@_who_argument
@options_of("Budget", "day", "total", "until", "types", "zones", "folder")
@project_option
@json_option
def set_budget(who: str, fields: dict[str, Any], as_json: bool) -> None:
    """Set a budget, in place of an earlier one. With --folder alone, only the folder changes."""
    from ..fleet.models import Budget

    if fields.get("folder"):
        fields["folder"] = os.path.abspath(os.path.expanduser(fields["folder"]))
    overview = fleet_call(lambda fleet: fleet.budgets.set(Budget(who=who, **fields)))
    use = next(use for use in overview.budgets if use.budget.who == who)
    print_result(use, f"{who}: {use.text}.", as_json)
    for line in overview.spending:
        if line.who == who and line.shortened and line.state == "ready":
            print(
                f"The budget does not cover {line.tpu}: it is deleted at {local_time(line.ends)}."
            )


@budget.command("remove", epilog=examples("jupyter tpu budget remove agent"))
@_who_argument
@project_option
def remove(who: str) -> None:
    """Remove a budget. TPUs that exist continue until their guards delete them."""
    fleet_call(lambda fleet: fleet.budgets.remove(who))
    print(f"Removed the budget of {who}.")


@budget.command("spending")
@project_option
@list_options
def spending() -> None:
    """List the TPUs that were created inside a budget or by a plan, and what they cost."""
    overview = fleet_call(lambda fleet: fleet.budgets.show())
    print_list(overview, lambda shown: spending_table(shown.spending), "spending")


@budget.command("approve", epilog=examples("jupyter tpu budget approve 1a2b3c4d"))
@_plan_argument
@project_option
def approve(plan: str) -> None:
    """Agree to a plan that is outside of its budget. The coding agent can then carry it out."""
    _answer(plan, approve=True)
    print(f"Agreed to the plan {plan}.")


@budget.command("refuse", epilog=examples("jupyter tpu budget refuse 1a2b3c4d"))
@_plan_argument
@project_option
def refuse(plan: str) -> None:
    """Refuse a plan that is outside of its budget."""
    _answer(plan, approve=False)
    print(f"Refused the plan {plan}.")


def _answer(plan: str, *, approve: bool) -> None:
    from ..fleet.models import AnswerPlan

    fleet_call(lambda fleet: fleet.plans.answer(plan, AnswerPlan(approve=approve)))


@budget.command(
    "allow",
    epilog=examples("jupyter tpu budget allow my-tpu", "jupyter tpu budget allow my-tpu --off"),
)
@tpu_argument()
@click.option("--off", is_flag=True, help="No longer allow it.")
@confirm_name_option
def allow(name: str, off: bool, confirmed: tuple[str, ...]) -> None:
    """Let coding agents run commands on a TPU that a person has created.

    It counts for this TPU, not for a later one of the same name. Coding agents can then read what
    your own programs there have in memory and variables. They still can't stop or delete it.
    """
    from ..fleet.models import AllowAgents

    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        typed = confirmed_names([tpu], confirmed)
        request = AllowAgents(allowed=not off, confirm_name=tpu.name if tpu.name in typed else "")
        shown = session.call(session.fleet.budgets.allow(f"{tpu.zone}~{tpu.name}", request))
    allowed = shown.agents_may_use
    print(f"Coding agents {'may' if allowed else 'may no longer'} run commands on {shown.name}.")


@budget.command("token")
def token() -> None:
    """Show where the token for coding agents is.

    It is for REST requests of coding agents that do not run on this computer: the header
    `Authorization: token …`. It opens no kernel, terminal or file of Jupyter.
    """
    from ..agent_token import agent_token, token_file

    agent_token()
    print(token_file())
