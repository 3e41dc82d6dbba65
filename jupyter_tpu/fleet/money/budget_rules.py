"""Whether something new is inside a budget, and what TPUs have cost. Pure: no I/O, no clock.

From its request until it is gone, a TPU counts with the most that it can cost, so several requests
at once can't overspend together. After that it counts with what it has cost. What it may still cost
counts for today, although a part of that may be spent tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct, structs

from ... import catalog
from ...errors import Reason, TPUError
from ..core.operation_records import OperationRecord, PlanTerms
from ..core.records import SpendRecord
from ..models import AGENT, Budget
from ..models.core import known_type

#: Seconds that a deletion at the end of a TPU's time may take, and still be within its maximum.
MARGIN_SECONDS = 120.0
#: Amounts are compared in tenths of a cent.
_EXACT_USD = 0.001
_DAY_SECONDS = 86_400.0


class BudgetSum(Struct, frozen=True):
    """USD: spent today (in UTC) and in total, and what TPUs that exist may still cost."""

    today: float = 0.0
    total: float = 0.0
    committed: float = 0.0


def day_of(moment: float) -> str:
    """The day in UTC of *moment*, seconds since the epoch: "2026-12-31"."""
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def most_for(price: float, seconds: float) -> float:
    """USD that a TPU can cost that is deleted after *seconds*; *price*: USD an hour."""
    return price * (seconds + MARGIN_SECONDS) / 3600.0


def time_within(terms: PlanTerms, price: float) -> float:
    """Seconds that a TPU of *price* USD an hour may exist within the limits of its plan."""
    if terms.max_cost is None or price == 0:
        return terms.time
    return min(terms.time, terms.max_cost / price * 3600.0 - MARGIN_SECONDS)


def add_ready(days: dict[str, float], since: float, until: float) -> dict[str, float]:
    """*days* with the seconds from *since* to *until*, by the day in UTC.

    A clock that was set back adds nothing.
    """
    added = dict(days)
    while since < until:
        midnight = (since // _DAY_SECONDS + 1) * _DAY_SECONDS
        end = min(midnight, until)
        day = day_of(since)
        added[day] = added.get(day, 0.0) + end - since
        since = end
    return added


def usd_of(line: SpendRecord, now: float) -> tuple[float, float]:
    """What a TPU has cost in total and today, in USD."""
    days = line.days if line.since is None else add_ready(line.days, line.since, now)
    hourly = line.usd_per_hour / 3600.0
    return sum(days.values()) * hourly, days.get(day_of(now), 0.0) * hourly


def is_unmade(line: SpendRecord, operations: Iterable[OperationRecord]) -> bool:
    """Whether what was to create it has ended without it; False while that is not known."""
    if line.node_id:
        return False
    id, _, attempt = line.id.partition("-")
    for record in operations:
        if record.operation.id == id:
            trying = record.claim is not None and record.claim.label == line.id
            if attempt and not trying:
                return True  # the hunt is past this attempt
            return record.operation.state in ("failed", "cancelled")
    return False


def add_up(
    who: str,
    lines: Iterable[SpendRecord],
    now: float,
    unmade: Callable[[SpendRecord], bool] = lambda _: False,
) -> BudgetSum:
    """What counts for the budget of *who*: all but what a person has agreed to beside it."""
    today = total = committed = 0.0
    for line in lines:
        if line.who != who or line.approved or unmade(line):
            continue
        spent, spent_today = usd_of(line, now)
        total += spent
        today += spent_today
        if not line.ended:
            committed += max(0.0, line.most - spent)
    return BudgetSum(today, total, committed)


def left_of(budget: Budget, sums: BudgetSum) -> float:
    """USD that may still be asked for."""
    limits = []
    if budget.day is not None:
        limits.append(budget.day - sums.today - sums.committed)
    if budget.total is not None:
        limits.append(budget.total - sums.total - sums.committed)
    return max(0.0, min(limits))


def shortened_ends(
    budget: Budget, lines: Iterable[SpendRecord], now: float, notice: float
) -> dict[str, float]:
    """When TPUs have to end so that together they cost no more than is left of *budget*, by the
    ids of their lines; only of those that have to end sooner than they would.

    The newest ones give way. None ends before *notice* seconds have passed: it is told before.
    What Google has not created yet is left out, since it may never be.
    """
    own = sorted(
        (
            line
            for line in lines
            if line.who == budget.who and not line.approved and (line.node_id or line.days)
        ),
        key=lambda line: (line.asked, line.id),
    )
    spent = add_up(budget.who, [structs.replace(line, most=0.0) for line in own], now)
    left = left_of(budget, spent)
    ends = {}
    for line in own:
        if line.ended:
            continue
        may_cost = max(0.0, line.most - usd_of(line, now)[0])
        left -= may_cost
        if left >= -_EXACT_USD or not line.usd_per_hour:
            continue
        share = max(0.0, may_cost + left)
        end = now + max(notice, share / line.usd_per_hour * 3600.0 - MARGIN_SECONDS)
        if line.ends is None or end < line.ends - MARGIN_SECONDS:
            ends[line.id] = end
        left = 0.0
    return ends


def outside(
    who: str,
    spend: SpendRecord,
    budgets: Iterable[Budget],
    lines: Iterable[SpendRecord],
    now: float,
    unmade: Callable[[SpendRecord], bool] = lambda _: False,
) -> str:
    """Why *spend* is outside the budget of *who*, in sentences; "" if it is inside."""
    budget = next((candidate for candidate in budgets if candidate.who == who), None)
    if budget is None and who != AGENT:
        return ""  # people are limited by their budgets only
    if budget is None:
        return f"There is no budget for {whose(who)}."
    if budget.until and budget.until < day_of(now):
        return f"The budget of {whose(who)} ended on {budget.until}."
    accelerator = known_type(spend.type)
    names = {spend.type, accelerator.generation if accelerator else ""}
    if budget.types and not names & set(budget.types):
        return f"The budget of {whose(who)} is for {', '.join(budget.types)}, not {spend.type}."
    if budget.zones and spend.zone not in budget.zones:
        return f"The budget of {whose(who)} is for {', '.join(budget.zones)}, not {spend.zone}."
    left = left_of(budget, add_up(who, lines, now, unmade))
    if spend.most > left + _EXACT_USD:
        return (
            f"It can cost {catalog.usd(spend.most)}, and the budget of {whose(who)} has "
            f"{catalog.usd(left)} left."
        )
    return ""


def require_inside(
    spend: SpendRecord,
    budgets: Sequence[Budget],
    lines: Sequence[SpendRecord],
    operations: Sequence[OperationRecord],
    now: float,
) -> None:
    """Raises BUDGET unless *spend* is inside its budget, or a person has agreed to it."""
    if spend.approved:
        return
    why = outside(spend.who, spend, budgets, lines, now, lambda line: is_unmade(line, operations))
    if why:
        raise refusal(why)


def require_later_end(
    before: SpendRecord,
    after: SpendRecord,
    budgets: Sequence[Budget],
    others: Sequence[SpendRecord],
    now: float,
) -> None:
    """Raises BUDGET where a TPU that exists can cost more than its budget has, because a person
    lets it run longer: *before* is its line until now, *others* are all other lines.
    """
    if after.approved or after.most <= before.most + _EXACT_USD:
        return
    left = structs.replace(after, most=after.most - usd_of(before, now)[0])
    lines = [*others, structs.replace(before, most=0.0)]
    if why := outside(after.who, left, budgets, lines, now):
        raise TPUError(
            why,
            Reason.BUDGET,
            f"Raise the budget first: `jupyter tpu budget set {after.who}`.",
        )


def refusal(why: str) -> TPUError:
    return TPUError(
        why,
        Reason.BUDGET,
        "Plan something smaller or shorter, delete a TPU, or ask a person to change the budget: "
        "jupyter tpu budget",
    )


def whose(who: str) -> str:
    return "coding agents" if who == AGENT else who


def text_of(budget: Budget, sums: BudgetSum) -> str:
    """ "spent $3.20 of $20.00 today"."""
    parts = []
    if budget.day is not None:
        parts.append(f"{catalog.usd(sums.today)} of {catalog.usd(budget.day)} today")
    if budget.total is not None:
        parts.append(f"{catalog.usd(sums.total)} of {catalog.usd(budget.total)} in total")
    return f"spent {', '.join(parts)}"
