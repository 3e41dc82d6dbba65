"""Which grant covers a TPU, and whether its price has to be confirmed. Pure: no I/O, no clock.

A TPU is inside a grant if that has its project, type, zone and tier, has not ended, and has enough
chips left. What runs already comes first, then what was asked for, then what is about to be asked.
Nothing outside of a grant is created unless its price was confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from ... import catalog
from ...catalog import PriceTable
from ...errors import Reason, TPUError
from ...wording import count
from ..core.known_operations import Demand
from ..models import Cost, Grant
from ..models.core import known_type
from ..models.money import cost_of

_HINT = (
    "Confirm the price: --yes or --max-price USD on the command line, "
    '"confirm_price" or "max_price" over REST.'
)


class PriceDecision(Struct, frozen=True, kw_only=True):
    """What something costs, and what has to be confirmed before it is created.

    question: a sentence with the price; "" if nothing has to be confirmed. uncovered: why no grant
    covers it; "" if one does, or there is none.
    """

    cost: Cost
    question: str = ""
    uncovered: str = ""

    def require(self, *, confirm_price: bool = False, max_price: float | None = None) -> None:
        """Raises PRICE unless it costs nothing, or the user has agreed to what it costs.

        confirm_price: to any price; max_price: to at most so many USD an hour, whatever
        *confirm_price* is.
        """
        if not self.question or (confirm_price and max_price is None):
            return
        price, limit = self.cost.usd_per_hour, ""
        if max_price is not None:
            if price is not None and price <= max_price + 0.005:  # prices are shown in cents
                return
            limit = f"You allowed at most {catalog.usd(max_price)} an hour."
        sentences = filter(None, (self.question, self.uncovered, limit))
        raise TPUError(" ".join(sentences), Reason.PRICE, _HINT)


def decide(
    demand: Demand,
    grants: Sequence[Grant],
    used: Iterable[Demand] | None,
    *,
    today: str,
    emulated: bool = False,
    prices: PriceTable = catalog.SHIPPED,
) -> PriceDecision:
    """Whether *demand* is inside one of *grants*, and what it costs.

    used: what has or asks for chips already, the oldest first; None: not known, so that a grant
    may be used up. today: "2026-12-31", in UTC.
    """
    cost = partial(cost_of, demand.type, demand.zone, demand.tier, prices=prices)
    if emulated:
        return PriceDecision(cost=cost(emulated=True))
    in_use = None if used is None else used_chips(grants, used, today=today)
    reasons = []  # why each grant does not cover it
    for grant in grants:
        why = _outside(demand, grant, today)
        if not why:
            left = None if in_use is None else grant.chips - in_use[grant.name]
            if left is not None and demand.chips <= left:
                return PriceDecision(cost=cost(emulated=False, grant=grant.name))
            why = [_used_up(demand, grant, left)]
        reasons.append(why)
    nearest = min(reasons, key=len, default=[])
    full = cost(emulated=False)
    return PriceDecision(
        cost=full,
        question=_question(demand, full),
        uncovered=nearest[0] if len(nearest) == 1 else "No grant covers it." if grants else "",
    )


def covering(demand: Demand, grants: Iterable[Grant], *, today: str) -> str:
    """The grant that covers *demand* while it has enough chips left; "" if none ever does."""
    return next((grant.name for grant in grants if not _outside(demand, grant, today)), "")


def assign(used: Iterable[Demand], grants: Sequence[Grant], *, today: str) -> list[str]:
    """The grant that covers each of *used*, "" where none does; the first ones get it first."""
    left = {grant.name: grant.chips for grant in grants}
    names = []
    for demand in used:
        for grant in grants:
            if not _outside(demand, grant, today) and demand.chips <= left[grant.name]:
                left[grant.name] -= demand.chips
                names.append(grant.name)
                break
        else:
            names.append("")
    return names


def used_chips(grants: Sequence[Grant], used: Iterable[Demand], *, today: str) -> dict[str, int]:
    """How many chips of each grant *used* has, by the grant's name."""
    used = list(used)
    in_use = {grant.name: 0 for grant in grants}
    for demand, name in zip(used, assign(used, grants, today=today), strict=True):
        if name:
            in_use[name] += demand.chips
    return in_use


def has_ended(grant: Grant, today: str) -> bool:
    return bool(grant.until) and grant.until < today


def _outside(demand: Demand, grant: Grant, today: str) -> list[str]:
    """Why a grant is not for something; empty if it is, apart from its number of chips."""
    accelerator = known_type(demand.type)
    generation = accelerator.generation if accelerator else ""
    reasons = []
    if accelerator is None or not {demand.type, generation} & set(grant.types):
        reasons.append(f"The grant {grant.name} is for {_list(grant.types)}.")
    if demand.zone not in grant.zones:
        reasons.append(f"The grant {grant.name} is for {_list(grant.zones)}.")
    if demand.tier not in grant.tiers:
        reasons.append(
            f"The grant {grant.name} is for {_list(grant.tiers)}, not for {demand.tier}."
        )
    if demand.project != grant.project:
        reasons.append(f"The grant {grant.name} is for the project {grant.project}.")
    if has_ended(grant, today):
        reasons.append(f"The grant {grant.name} ended on {grant.until}.")
    return reasons


def _used_up(demand: Demand, grant: Grant, left: int | None) -> str:
    chips = count(grant.chips, "chip")
    if left is None:
        return (
            f"The grant {grant.name} has {chips}, and how many of them are in use is not known now."
        )
    return f"The grant {grant.name} has {left} of its {chips} left, and it needs {demand.chips}."


def _name(demand: Demand) -> str:
    accelerator = known_type(demand.type)
    return f"{demand.type} ({accelerator.meaning})" if accelerator else demand.type


def _question(demand: Demand, cost: Cost) -> str:
    name = _name(demand)
    if cost.usd_per_hour is None:
        return f"{name} costs money, and its price is not known."
    return (
        f"{name} costs about {catalog.usd(cost.usd_per_hour)} an hour "
        f"({cost.region}, {demand.tier}, list price of {cost.date})."
    )


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and others" if len(names) > 4 else shown
