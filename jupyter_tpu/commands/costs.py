"""What a TPU costs, in words. All prices are estimates; an unknown price is called unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .grammar import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..fleet.models import TPU, Cost, GrantUse, PriceList, Tier

PRICES = "https://cloud.google.com/tpu/pricing"


def hourly(cost: Cost, tier: Tier) -> str:
    """What an hour costs, and by which price list: "about $9.60 an hour (us-west4, spot, …)"."""
    from ..catalog import usd  # with msgspec, which --help does without

    listed = cost.list_usd_per_hour
    if listed is None:
        tiers = {"on-demand": "", "reserved": " for reservations"}
        price = f"price{tiers.get(tier, f' for {tier}')} not known, see {PRICES}"
    else:
        shown = "on demand" if tier == "on-demand" else tier
        price = f"about {usd(listed)} an hour ({cost.region}, {shown}, list price of {cost.date})"
    if cost.usd_per_hour == 0:
        if cost.grant:
            return f"in the grant {cost.grant}: $0.00 an hour and its network traffic. Else {price}"
        return f"emulated: costs nothing. A real one: {price}"
    return price


def so_far(tpu: TPU) -> str:
    """What it has cost until now: "about $28.80"."""
    if tpu.emulated or tpu.attached:
        return ""
    from ..catalog import usd

    return "not known" if tpu.cost.usd is None else f"about {usd(tpu.cost.usd)}"


def running_for(cost: Cost) -> str:
    """How long it has been READY; "" if it is not."""
    return age(cost.since)


def age(time: str) -> str:
    """How long ago *time* is, as kubectl says it: "12m", "3h5m", "4d"; "" if that is not known."""
    try:
        started = datetime.fromisoformat(time)
    except ValueError:
        return ""
    minutes = max(0, int((datetime.now(UTC) - started).total_seconds() // 60))
    hours, days = minutes // 60, minutes // 1440
    if days >= 2:
        return f"{days}d"
    return f"{hours}h{minutes % 60}m" if hours else f"{minutes}m"


def price_table(found: PriceList) -> str:
    """The prices of one chip, and what was not understood."""
    from ..catalog import usd
    from .tables import table

    heads = ("CHIP", "REGION", "ON DEMAND", "SPOT", "DATE")
    rows = [
        (row.name, row.region, usd(row.on_demand), usd(row.spot) if row.spot else "", row.date)
        for row in found.prices
    ]
    lines = [str(table(heads, rows)), "USD for an hour of one chip. Reservations: not known."]
    if found.unknown:
        lines.append(f"Not understood, and left out: {'; '.join(found.unknown)}")
    return "\n".join(lines)


def grant_table(found: Sequence[GrantUse]) -> str:
    """The grants, and what is in use of each."""
    if not found:
        return (
            "No grants: each TPU is created only after you confirmed its price. To add one: "
            f"{program()} grant add NAME --type TYPE --zone ZONE --tier TIER --chips N"
        )
    from .tables import table

    heads = ("NAME", "PROJECT", "TYPES", "ZONES", "TIERS", "CHIPS", "IN USE", "UNTIL")
    return str(table(heads, [_grant_row(each) for each in found]))


def _grant_row(use: GrantUse) -> tuple[str, ...]:
    grant = use.grant
    return (
        grant.name,
        grant.project,
        ", ".join(grant.types),
        ", ".join(grant.zones),
        ", ".join(grant.tiers),
        str(grant.chips),
        "not known" if use.used is None else str(use.used),
        f"{grant.until} (ended)" if use.expired else grant.until,
    )
