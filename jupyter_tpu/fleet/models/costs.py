"""What TPUs cost, about."""

from __future__ import annotations

from msgspec import Struct, structs

from ... import catalog
from ...catalog import PriceTable
from ...cloud.models import Node, NodeState, Tier
from .catalog import known_type
from .times import timestamp


class Cost(Struct, kw_only=True):
    """What a TPU costs, about: by a dated list price, in USD.

    Discounts, taxes, network traffic and additional disks are not in it. A TPU is charged while it
    is READY, used or not. What a grant covers costs nothing but its network traffic.
    """

    #: While it is READY: 0 of an emulated TPU and inside a grant, None if the price is not known.
    usd_per_hour: float | None = None
    #: Google's price, also where the TPU is emulated or inside a grant.
    list_usd_per_hour: float | None = None
    #: Where and when that was the price: "us-west4", and "2024-12-23" or the year.
    region: str = ""
    date: str = ""
    #: The grant that covers it; "" if none does.
    grant: str = ""
    #: Since when it is READY; "" if it is not, or where that is not known.
    since: str = ""
    #: What it has cost until now, in steps of six minutes; None if that is not known.
    usd: float | None = None


def cost_of(
    type: str,
    zone: str,
    tier: Tier,
    *,
    emulated: bool,
    grant: str = "",
    prices: PriceTable = catalog.SHIPPED,
) -> Cost:
    """What a TPU would cost that does not run yet. A reservation's price is not known.

    grant: the one that covers it, "" if none does.
    """
    accelerator = known_type(type)
    price = catalog.price_in(prices.of(accelerator), zone) if accelerator is not None else None
    listed = None
    if price is not None:
        listed = {"on-demand": price.on_demand, "spot": price.spot}.get(tier)
    return Cost(
        usd_per_hour=0.0 if emulated or grant else listed,
        list_usd_per_hour=listed,
        region=price.region if price is not None and listed is not None else "",
        date=price.date if price is not None and listed is not None else "",
        grant=grant,
    )


def running_cost(cost: Cost, *, since: float | None, seconds: float | None) -> Cost:
    """*cost* with what it comes to: READY *since* (seconds since the epoch), *seconds* in all."""
    usd = None
    if cost.usd_per_hour == 0:
        usd = 0.0
    elif cost.usd_per_hour is not None and seconds is not None:
        # In steps: a sum that grows with each look would be a change of the TPU each time.
        usd = round(cost.usd_per_hour * (seconds // 360) / 10, 2)
    return structs.replace(
        cost, since="" if since is None else timestamp("seconds", at=since), usd=usd
    )


def billing_words(node: Node, cost: Cost) -> str:
    """ "Google bills it about $9.60 an hour"; "" for one that costs nothing now."""
    price = cost.usd_per_hour
    if price == 0 or node.state is NodeState.STOPPED:
        return ""
    return "Google bills it" + (f" about {catalog.usd(price)} an hour" if price is not None else "")
