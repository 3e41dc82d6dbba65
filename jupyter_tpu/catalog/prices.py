"""List prices, dated, in USD per chip and hour: good for "about", never for a bill.

Those of v2 to v5e were read from gpuhunt's ``tpu_pricing.json`` (copied there by hand from Google's
price list), those of v5p and v6e from skypilot-catalog's ``v8/gcp/vms.csv`` at commit 006059e0 of
2026 (made from Google's Cloud Billing Catalog; its day was not noted), and those of v6e in three
regions from the same catalog by a user in August 2026 (github.com/xbill9/gemma4-dev, beside a
benchmark of 2026-08-10). They do not depend on the API that makes the TPU. No price of TPU7x is
known. Spot prices change up to once a month. Reservations and grants have prices of their own. A
TPU is charged while it is READY, used or not.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from .models import AcceleratorType, ChipPrice, RegionPrice

_GPUHUNT, _SKYPILOT, _USER = "2024-12-23", "2026", "2026-08"

PRICES_READ = (
    f"{_GPUHUNT} (v2 to v5e), {_SKYPILOT} (v5p and v6e, day not known) and {_USER} "
    "(v6e in europe-west2, europe-west4 and us-east5)"
)
PRICES_SOURCE = (
    "Google's list prices by gpuhunt and skypilot-catalog, on demand, in the cheapest region"
)

#: The fields of `ChipPrice`, in its order. v2 and v3 have another price for a slice of a pod than
#: for one host alone.
_PER_CHIP: tuple[
    tuple[str, str, float, float | None, str]
    | tuple[str, str, float, float | None, str, float | None],
    ...,
] = (
    ("v2", "asia-east1", 1.305, None, _GPUHUNT),
    ("v2", "europe-west4", 1.2375, None, _GPUHUNT),
    ("v2 pod", "europe-west4", 1.65, None, _GPUHUNT),
    ("v2 pod", "us-central1", 1.50, None, _GPUHUNT),
    ("v3", "europe-west4", 2.20, None, _GPUHUNT),
    ("v3 pod", "europe-west4", 2.00, None, _GPUHUNT),
    ("v4", "us-central2", 3.22, None, _GPUHUNT),
    ("v5e", "asia-southeast1", 1.56, 0.78, _GPUHUNT),
    ("v5e", "europe-west1", 1.3213, 0.66, _GPUHUNT),
    ("v5e", "europe-west4", 1.56, 0.663, _GPUHUNT),
    ("v5e", "us-central1", 1.20, 0.63, _GPUHUNT),
    ("v5e", "us-east5", 1.20, 0.60, _GPUHUNT),
    ("v5e", "us-south1", 1.416, 0.708, _GPUHUNT),
    ("v5e", "us-west1", 1.20, 0.63, _GPUHUNT),
    ("v5e", "us-west4", 1.20, 0.51, _GPUHUNT),
    ("v5p", "europe-west1", 4.459, 1.784, _SKYPILOT),
    ("v5p", "europe-west4", 4.2525, 1.3485, _SKYPILOT),
    ("v5p", "us-central1", 4.20, 0.836, _SKYPILOT),
    ("v5p", "us-east1", 4.20, 0.836, _SKYPILOT),
    ("v5p", "us-east5", 4.20, 1.68, _SKYPILOT),
    ("v5p", "us-south1", 4.779, 1.316, _SKYPILOT),
    ("v6e", "asia-northeast1", 3.24, 0.944, _SKYPILOT),
    ("v6e", "asia-south1", 3.24, 2.27, _SKYPILOT),
    ("v6e", "asia-southeast1", 2.97, 0.363, _SKYPILOT),
    ("v6e", "europe-west2", 3.24, None, _USER),
    ("v6e", "europe-west4", 2.97, 1.782, _USER, 1.35),
    ("v6e", "us-central1", 2.70, 0.544, _SKYPILOT),
    ("v6e", "us-east1", 2.70, 0.544, _SKYPILOT),
    ("v6e", "us-east4", 2.70, 0.578, _SKYPILOT),
    ("v6e", "us-east5", 2.70, 1.4033, _USER, 1.35),
    ("v6e", "us-south1", 2.70, 1.35, _SKYPILOT),
    ("v6e", "us-west1", 2.70, 0.544, _SKYPILOT),
)


class PriceTable:
    """Prices per chip and hour: those that are shipped, but for the regions that *newer* has."""

    def __init__(self, newer: Iterable[ChipPrice] = ()) -> None:
        rows = [*(ChipPrice(*row) for row in _PER_CHIP), *newer]
        self._rows = {(row.name, row.region): row for row in rows}

    def rows(self) -> Iterable[ChipPrice]:
        """By name and region."""
        return sorted(self._rows.values(), key=lambda row: (row.name, row.region))

    def region_prices(self, generation: str, chips: int, hosts: int) -> tuple[RegionPrice, ...]:
        """What an hour of *chips* chips costs, for each region with a known price."""
        pods = f"{generation} pod"
        pod = hosts > 1 and any(name == pods for name, _ in self._rows)
        return tuple(
            RegionPrice(
                region=row.region,
                on_demand=round(row.on_demand * chips, 4),
                spot=_times(row.spot, chips),
                date=row.date,
                flex_start=_times(row.flex_start, chips),
            )
            for row in self._rows.values()
            if row.name == (pods if pod else generation)
        )

    def of(self, accelerator: AcceleratorType) -> AcceleratorType:
        """The same type with the prices of this table."""
        prices = self.region_prices(accelerator.generation, accelerator.chips, accelerator.hosts)
        return structs.replace(accelerator, prices=prices)


def _times(price: float | None, chips: int) -> float | None:
    return None if price is None else round(price * chips, 4)


SHIPPED = PriceTable()


def price_in(accelerator: AcceleratorType, zone: str) -> RegionPrice | None:
    """The price of *accelerator* in the region of *zone*; None if it is not known."""
    region = zone.rpartition("-")[0]
    return next((price for price in accelerator.prices if price.region == region), None)


def usd_per_hour(accelerator: AcceleratorType) -> float | None:
    """What an hour costs on demand, in the cheapest region; None if it is not known."""
    return min((price.on_demand for price in accelerator.prices), default=None)


def usd(amount: float) -> str:
    """ "$9.60", "$12,345"."""
    return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"
