"""Shows what a TPU costs, and asks before it is created; or creates it in two steps, by a plan."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import Reason, TPUError
from ..terminal.costs import hourly
from ..terminal.printing import print_result
from ..terminal.questions import can_ask, confirm
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import type_text
from ..terminal.waiting import finish_all, leave_and_print, progress_stream
from .budget import plan_text, price_text

if TYPE_CHECKING:
    from ..fleet.models import TPU, Cost, CreateTPU, Operation, Plan, Quote


def approve_cost(quote: Quote, *, yes: bool, as_json: bool) -> None:
    """Says what will be created and what that costs. Asks if it costs anything, as `confirm` does.

    yes: it is not to ask; as_json: stdout is for a program.
    """
    price = hourly(quote.cost, quote.tier)
    ask = bool(quote.question) and not yes
    if can_ask() if ask else not as_json:
        meaning = f"{quote.type} = {quote.meaning}" if quote.meaning else quote.type
        where = f"{meaning}{' (emulated)' if quote.emulated else ''}, in {quote.zone}"
        out = sys.stderr if as_json else sys.stdout
        print(where, _sentence(price, quote.cost), sep="\n", file=out, flush=True)
        notes = (
            quote.zone_reason,
            quote.other_form,
            quote.api_reason,
            quote.uncovered,
            quote.warning,
        )
        for more in filter(None, notes):
            print(more, file=out, flush=True)
    if ask:
        shown = "" if can_ask() else f", {price}"
        confirm(
            f"Create {quote.name}{shown}?",
            "Add --yes to create it without asking, or --max-price USD.",
        )


def approve_start(tpus: Sequence[TPU], *, yes: bool, as_json: bool) -> None:
    """As `approve_cost`, for stopped TPUs that are about to be started."""
    prices = [(tpu, hourly(tpu.cost, tpu.tier)) for tpu in tpus if not tpu.emulated]
    ask = any(tpu.cost.usd_per_hour != 0 for tpu in tpus) and not yes
    if can_ask() if ask else not as_json:
        out = sys.stderr if as_json else sys.stdout
        for tpu, price in prices:
            which = f"{tpu.name}: " if len(tpus) > 1 else ""
            print(f"{which}{_sentence(price, tpu.cost)}", file=out, flush=True)
    if ask:
        shown = "" if can_ask() else f", {'; '.join(price for _, price in prices)}"
        confirm(
            f"Start {', '.join(tpu.name for tpu in tpus)}{shown}?",
            "Add --yes to start without asking, or --max-price USD.",
        )


def _sentence(price: str, cost: Cost) -> str:
    billed = "" if cost.usd_per_hour == 0 else " You pay while it is READY, used or not."
    return f"{price[:1].upper()}{price[1:]}.{billed}"


def is_several(zone: str | None) -> bool:
    """Whether a --zone names several zones, or all."""
    return zone is not None and ("," in zone or zone == "-")


def plan_of(
    session: FleetSession, tpu: CreateTPU, zone: str | None, fields: dict[str, Any]
) -> Plan:
    """A plan for *tpu*, whose guard has limits of the plan. zone: perhaps several."""
    from ..fleet.models import PlanTPU
    from ..fleet.models.core import seconds_of

    guard = tpu.guard
    if guard is not None:
        if guard.max_cost is not None:
            fields = {**fields, "max_cost": guard.max_cost}
        if guard.until:
            fields = {"time": seconds_of(guard.until, "until") - time.time(), **fields}
    zones = (zone or "").split(",") if is_several(zone) else []
    return session.call(session.fleet.plans.make(PlanTPU(tpu=tpu, zones=zones, **fields)))


def print_plan(tpu: CreateTPU, zone: str | None, fields: dict[str, Any], *, as_json: bool) -> None:
    with open_session() as session:
        plan = plan_of(session, tpu, zone, fields)
    print_result(plan, plan_text(plan), as_json)


def carry_out(session: FleetSession, plan: Plan, *, yes: bool) -> Operation:
    """Begins what was planned; asks a person at the terminal if it is outside of a budget.

    Raises BUDGET for an agent's, and CONFLICT where no one can answer.
    """
    from ..agent_token import acts_as_agent
    from ..fleet.models import CarryOutPlan

    approve = False
    if plan.outside and not acts_as_agent():
        if not yes:
            shown = "" if can_ask() else f", {price_text(plan)}"
            confirm(
                f"{price_text(plan)} {plan.outside}\nCreate {plan.name}{shown}?",
                "Add --yes to create it without asking.",
            )
        approve = True
    done = session.call(session.fleet.plans.carry_out(plan.id, CarryOutPlan(approve=approve)))
    return session.call(session.fleet.operations.get(done.operation))


def create_planned(id: str, *, yes: bool, no_wait: bool, as_json: bool) -> None:
    with open_session() as session:
        if no_wait and session.server is None:
            raise TPUError(
                "--no-wait needs a running Jupyter server, which sets the TPU's guard.",
                Reason.CONFLICT,
                "Omit --no-wait, or start `jupyter lab` first.",
            )
        plan = session.call(session.fleet.plans.get(id))
        operation = carry_out(session, plan, yes=yes)
        if no_wait:
            return leave_and_print(session, operation, as_json)
        ended = finish_all(session, operation, progress_stream(as_json))
        tpu = session.call(session.fleet.tpu(f"{ended.zone}~{ended.tpu}"))
        print_result(
            tpu, f"{tpu.name} is ready: {type_text(tpu)}, in {tpu.zone}. {plan.guard}", as_json
        )
