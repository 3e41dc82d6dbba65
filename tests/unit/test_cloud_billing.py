"""What is understood of Google's price list, and what is listed as not understood."""

from typing import Any

import pytest

from jupyter_tpu.catalog import ChipPrice, PriceTable, accelerator_type
from jupyter_tpu.cloud.billing import understand
from jupyter_tpu.fleet.models.money import cost_of

TODAY = "2026-11-22"


def sku(description: str, usd: float = 1.0, **more: Any) -> dict[str, Any]:
    usage, unit = more.get("usage", "OnDemand"), more.get("unit", "h")
    price = {"currencyCode": "USD", "units": str(int(usd)), "nanos": round(usd % 1 * 1e9)}
    rates = [{"unitPrice": price}] * more.get("rates", 1)
    return {
        "description": description,
        "category": {"resourceGroup": more.get("group", "TPU"), "usageType": usage},
        "serviceRegions": more.get("regions", ["us-west4"]),
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": rates}}],
    }


def test_prices_are_per_chip_also_where_google_sells_eight_cores():
    listing = understand(
        [
            (1, sku("TpuV5e in Las Vegas", 1.25, regions=["us-west4", "us-west1"])),
            (1, sku("TpuV5e attached to Spot Preemptible VMs running in Las Vegas", 0.5)),
            (4, sku("Tpu-v2 Accelerator USA", 4.5)),
            (4, sku("Tpu-v2 Pod USA", 24.0)),
            (4, sku("Tpu-v4 Pod", 12.88, usage="OnDemand")),
            (4, sku("Tpu-v4 Pod Preemptible", 4.0, usage="OnDemand")),
        ],
        today=TODAY,
    )
    assert listing.prices == (
        ChipPrice("v2", "us-west4", 1.125, None, TODAY),
        ChipPrice("v2 pod", "us-west4", 6.0, None, TODAY),
        ChipPrice("v4", "us-west4", 3.22, 1.0, TODAY),
        ChipPrice("v5e", "us-west1", 1.25, None, TODAY),
        ChipPrice("v5e", "us-west4", 1.25, 0.5, TODAY),
    )
    assert listing.unknown == ()


def test_the_price_of_flex_start_has_no_tpu_in_its_name():
    listing = understand(
        [
            (1, sku("TpuV6e running in Columbus", 2.7, regions=["us-east5"])),
            (1, sku("DWS Defined Duration V6e in Columbus", 1.35, regions=["us-east5"], group="")),
            (1, sku("Reserved DWS Defined Duration V6e in Columbus", 1.0, regions=["us-east5"])),
            (1, sku("DWS Defined Duration A3 Core in Columbus", 0.1, group="CPU")),
        ],
        today=TODAY,
    )
    assert listing.prices == (ChipPrice("v6e", "us-east5", 2.7, None, TODAY, 1.35),)
    assert listing.unknown == ()


@pytest.mark.parametrize(
    "strange",
    [
        sku("TpuV99x in Las Vegas"),
        sku("Cloud TPU in Las Vegas"),
        sku("TpuV5e in Las Vegas", unit="mo"),
        sku("TpuV5e in Las Vegas", rates=2),
        sku("TpuV5e in Las Vegas", 0.0),
    ],
)
def test_what_is_not_understood_is_listed_and_not_guessed(strange):
    listing = understand([(1, strange)], today=TODAY)
    assert (listing.prices, listing.unknown) == ((), (strange["description"],))


@pytest.mark.parametrize(
    "other",
    [
        sku("Commitment v1: TpuV5e for 1 Year", usage="Commit1Yr"),
        sku("Reserved TpuV5e in Las Vegas"),
        sku("DWS Flex-start TpuV5e in Las Vegas"),
        sku("N2 Instance Core", group="CPU"),
    ],
)
def test_commitments_reservations_and_other_machines_are_left_out(other):
    listing = understand([(1, other)], today=TODAY)
    assert (listing.prices, listing.unknown) == ((), ())


def test_newer_prices_replace_those_of_their_regions_only():
    table = PriceTable([ChipPrice("v5e", "us-west4", 1.5, None, TODAY)])
    v5e = table.of(accelerator_type("v5litepod-8"))
    by_region = {price.region: price for price in v5e.prices}
    assert (by_region["us-west4"].on_demand, by_region["us-west4"].spot) == (12.0, None)
    assert by_region["us-central1"].date == "2024-12-23"
    cost = cost_of("v5litepod-8", "us-west4-a", "on-demand", emulated=False, prices=table)
    assert (cost.usd_per_hour, cost.date) == (12.0, TODAY)
