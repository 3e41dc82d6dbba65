"""The Cloud Billing Catalog: the list prices of the catalog as Google's SKUs.

With one SKU of a generation that no one knows, and one of a commitment, as Google has them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from ...catalog import SHIPPED, ChipPrice
from ..model import api_errors

#: The services that have TPUs, and how many chips a unit is: v2 to v4 are sold by 8 cores.
_BY_CORES, _BY_CHIP = "E000-3F24-B8AA", "6F81-5844-456A"
_CHIPS = {_BY_CORES: 4, _BY_CHIP: 1}
_OLD = ("v2", "v2 pod", "v3", "v3 pod", "v4")
_PAGE_SKUS = 20  # SKUs; Google's pages have up to 5000


def add_routes(app: web.Application) -> None:
    """``/cloudbilling/v1/services/S/skus``."""

    async def list_skus(request: web.Request) -> web.Response:
        service = request.match_info["service"]
        if service not in _CHIPS:
            raise api_errors.not_found(f"services/{service}")
        skus = [*_skus(service)]
        first = int(request.query.get("pageToken") or 0)
        more = {"nextPageToken": str(first + _PAGE_SKUS)} if first + _PAGE_SKUS < len(skus) else {}
        return web.json_response({"skus": skus[first : first + _PAGE_SKUS], **more})

    app.router.add_get("/cloudbilling/v1/services/{service}/skus", list_skus)


def _skus(service: str) -> Iterator[dict[str, Any]]:
    chips = _CHIPS[service]
    for row in SHIPPED.rows():
        if (row.name in _OLD) is (service == _BY_CORES):
            name = _described(row)
            yield _sku(f"{name} in {row.region}", row.region, row.on_demand * chips)
            if row.spot is not None:
                spot = f"{name} attached to Spot Preemptible VMs running in {row.region}"
                yield _sku(spot, row.region, row.spot * chips, usage="Preemptible")
            if row.flex_start is not None:
                flex = f"DWS Defined Duration {name.removeprefix('Tpu')} running in {row.region}"
                yield _sku(flex, row.region, row.flex_start * chips)
    if service == _BY_CHIP:
        yield _sku("TpuV99x in us-west4", "us-west4", 9.0)
        yield _sku("Commitment v1: TpuV5e in us-west4 for 1 Year", "us-west4", 0.84, "Commit1Yr")
        yield _sku("N2 Instance Core running in us-west4", "us-west4", 0.03, group="CPU")


def _described(row: ChipPrice) -> str:
    """ "TpuV5e", "Tpu-v2 Pod", as Google has it."""
    generation, _, pod = row.name.partition(" ")
    if row.name not in _OLD:
        return f"Tpu{generation.upper()[:-1]}{generation[-1]}"
    return f"Tpu-{generation} Pod" if pod or generation == "v4" else f"Tpu-{generation} Accelerator"


def _sku(
    description: str, region: str, usd: float, usage: str = "OnDemand", *, group: str = "TPU"
) -> dict[str, Any]:
    units, nanos = divmod(round(usd * 10**9), 10**9)
    price = {"currencyCode": "USD", "units": str(units), "nanos": nanos}
    return {
        "description": description,
        "category": {"resourceGroup": group, "resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": [region],
        "pricingInfo": [
            {
                "pricingExpression": {
                    "usageUnit": "h",
                    "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}],
                },
            }
        ],
    }
