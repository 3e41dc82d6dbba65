"""What a TPU costs, in words. All prices are estimates; an unknown price is called unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wording import phrase
from .times import age

if TYPE_CHECKING:
    from ..fleet.models import TPU, Cost, Tier

PRICES = "https://cloud.google.com/tpu/pricing"


def hourly(cost: Cost, tier: Tier) -> str:
    """What an hour costs, and by which price list: "about $9.60 an hour (us-west4, spot, …)"."""
    from ..catalog import usd  # with msgspec, which --help does without

    listed = cost.list_usd_per_hour
    reserved = tier == "reserved"
    if listed is None:
        price = phrase(
            f"price not known, see {PRICES}"
            if tier == "on-demand"
            else f"price for reservations not known, see {PRICES}"
            if reserved
            else f"price for {tier} not known, see {PRICES}"
        )
    else:
        shown = phrase("on demand") if tier == "on-demand" else tier
        price = phrase(
            f"about {usd(listed)} an hour ({cost.region}, {shown}, list price of {cost.date})"
        )
    if cost.usd_per_hour == 0:
        return phrase(
            f"in the grant {cost.grant}: $0.00 an hour plus network traffic. Otherwise {price}"
            if cost.grant
            else f"emulated: costs nothing. A real one: {price}"
        )
    return price


def so_far(tpu: TPU) -> str:
    """What it has cost until now: "about $28.80"."""
    if tpu.emulated or tpu.attached:
        return ""
    from ..catalog import usd

    return phrase("not known" if tpu.cost.usd is None else f"about {usd(tpu.cost.usd)}")


def running_for(cost: Cost) -> str:
    """How long it has been READY; "" if it is not."""
    return age(cost.since)
