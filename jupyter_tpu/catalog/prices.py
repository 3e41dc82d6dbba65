"""List prices, dated: good for an order of types by cost, never for a bill.

In USD per chip and hour, on demand, in the cheapest region noted. They were read from gpuhunt's
``tpu_pricing.json`` (copied there by hand from Google's price list) of that day; those of v5p and
v6e were the same in skypilot-catalog's ``v8/gcp/vms.csv`` of 2026. Reservations, spot and grants
cost less, and a TPU is charged while it is READY, used or not.
"""

from __future__ import annotations

from msgspec import Struct

from .models import AcceleratorType

PRICES_READ = "2024-12-23"
PRICES_SOURCE = "gpuhunt's copy of Google's list prices, on demand, in the cheapest region"


class ListPrice(Struct, kw_only=True, frozen=True):
    """What a chip of one generation costs."""

    generation: str
    usd_per_chip_hour: float
    region: str  # "" where the list named none


PRICES: tuple[ListPrice, ...] = (
    ListPrice(generation="v2", usd_per_chip_hour=1.2375, region=""),
    ListPrice(generation="v3", usd_per_chip_hour=2.20, region="europe-west4"),
    ListPrice(generation="v4", usd_per_chip_hour=3.22, region="us-central2"),
    ListPrice(generation="v5e", usd_per_chip_hour=1.20, region="us-central1"),
    ListPrice(generation="v5p", usd_per_chip_hour=4.20, region="us-east5"),
    ListPrice(generation="v6e", usd_per_chip_hour=2.70, region="us-east1"),
)


def usd_per_hour(accelerator: AcceleratorType) -> float | None:
    """The list price of all chips of *accelerator* for an hour; None if its generation has none."""
    for price in PRICES:
        if price.generation == accelerator.generation:
            return round(price.usd_per_chip_hour * accelerator.chips, 4)
    return None
