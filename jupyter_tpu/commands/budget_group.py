"""``jupyter tpu budget``: what coding agents and people may spend, and has been spent."""

from __future__ import annotations

from typing import Any

import click

from .budgets import overview_text, spending_table
from .field_options import options_of
from .grammar import Group, argument, examples
from .owners import confirm_name_option, confirmed_names
from .parameters import project_option, tpu_argument
from .printing import json_option, list_options, print_json, print_list
from .session import open_session
from .times import local_time

_who_argument = argument(
    "who", metavar="WHO", help="agent (all coding agents), or a person, as TPUs are labeled."
)
_plan_argument = argument("plan", metavar="PLAN", help="The plan's ID.")


@click.group("budget", cls=Group)
def budget() -> None:
    """Say how much coding agents, or people, may spend on TPUs.

    A coding agent plans a TPU, and creates it by its plan. Inside its budget that needs no
    question. Outside, you are asked. Each such TPU has a guard that deletes it at the plan's limits
    of time and cost. An agent can stop and delete only TPUs that agents have created.
    """


@budget.command("show")
@project_option
@json_option
def show(as_json: bool) -> None:
    """Show budgets, what was spent, and what agents ask for."""
    with open_session() as session:
        overview = session.call(session.fleet.budgets.show())
    if as_json:
        print_json(overview)
    else:
        print(overview_text(overview))


@budget.command(
    "set",
    epilog=examples(
        "jupyter tpu budget set agent --day 20",
        "jupyter tpu budget set agent --day 20 --total 100 --until 2026-12-31 --type v5e "
        "--zone us-west4-a",
    ),
)
@_who_argument
@options_of("Budget", "day", "total", "until", "types", "zones")
@project_option
@json_option
def set_budget(who: str, fields: dict[str, Any], as_json: bool) -> None:
    """Set a budget, in place of an earlier one."""
    from ..fleet.models import Budget

    with open_session() as session:
        overview = session.call(session.fleet.budgets.set(Budget(who=who, **fields)))
    use = next(use for use in overview.budgets if use.budget.who == who)
    if as_json:
        print_json(use)
    else:
        print(f"{who}: {use.text}.")
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
    with open_session() as session:
        session.call(session.fleet.budgets.remove(who))
    print(f"Removed the budget of {who}.")


@budget.command("spending")
@project_option
@list_options
def spending() -> None:
    """List the TPUs that were created inside a budget or by a plan, and what they cost."""
    with open_session() as session:
        overview = session.call(session.fleet.budgets.show())
    print_list(overview, lambda shown: spending_table(shown.spending), "spending")


@budget.command("approve", epilog=examples("jupyter tpu budget approve 1a2b3c4d"))
@_plan_argument
@project_option
def approve(plan: str) -> None:
    """Agree to a plan that is outside of its budget. The agent can then carry it out."""
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

    with open_session() as session:
        session.call(session.fleet.plans.answer(plan, AnswerPlan(approve=approve)))


@budget.command(
    "allow",
    epilog=examples("jupyter tpu budget allow my-tpu", "jupyter tpu budget allow my-tpu --off"),
)
@tpu_argument()
@click.option("--off", is_flag=True, help="No longer allow it.")
@confirm_name_option
def allow(name: str, off: bool, confirmed: tuple[str, ...]) -> None:
    """Let coding agents run commands on a TPU that a person has created.

    It counts for this TPU, not for a later one of the same name. Agents still can't stop or delete
    it.
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

    It is for REST requests of agents that do not run on this computer: the header
    `Authorization: token …`. It opens no kernel, terminal or file of Jupyter.
    """
    from ..agent_token import agent_token, token_file

    agent_token()
    print(token_file())
