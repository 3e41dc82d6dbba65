"""Prices and grants as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .grammar import program
from .tables import table

if TYPE_CHECKING:
    from ..fleet.models import GrantUse, PriceList


def price_table(prices: PriceList) -> str:
    """The prices of one chip, and what was not understood."""
    from ..catalog import usd

    heads = ("CHIP", "REGION", "ON DEMAND", "SPOT", "DATE")
    rows = [
        (row.name, row.region, usd(row.on_demand), usd(row.spot) if row.spot else "", row.date)
        for row in prices.prices
    ]
    lines = [str(table(heads, rows)), "USD for an hour of one chip. Reservations: not known."]
    if prices.unknown:
        lines.append(f"Not understood, and left out: {'; '.join(prices.unknown)}")
    return "\n".join(lines)


def grant_table(grants: Sequence[GrantUse]) -> str:
    """The grants, and what is in use of each."""
    if not grants:
        return (
            "No grants: each TPU is created only after you confirmed its price. To add one: "
            f"{program()} grant add NAME --type TYPE --zone ZONE --tier TIER --chips N"
        )
    heads = ("NAME", "PROJECT", "TYPES", "ZONES", "TIERS", "CHIPS", "IN USE", "UNTIL")
    return str(table(heads, [_grant_row(grant_use) for grant_use in grants]))


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
