"""Prices of TPUs from Google's Cloud Billing Catalog (cloudbilling.googleapis.com, services.skus).

The catalog has no field for a TPU's generation, so a price (SKU) is known by words of its
description: "TpuV5e …", "Tpu-v2 Pod …". What is not understood is listed and never guessed.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ..catalog import ChipPrice
from .google_apis import GoogleAPIs
from .models import Tier

#: The services with TPUs, and how many chips a unit of each is: v2 to v4 are sold by 8 cores.
SERVICES = {"E000-3F24-B8AA": 4, "6F81-5844-456A": 1}
#: Pages of one service: it has some thousands of SKUs, 5000 a page.
_MOST_PAGES = 20
#: "TpuV5e", "Tpu-v3", "TPU v6e"; not "Cloud TPU" alone.
_GENERATION = re.compile(r"\btpu[- ]?v(\d+[ep]?)\b", re.IGNORECASE)
#: Flex-start, which Google also calls Dynamic Workload Scheduler: it has no "Tpu" in it.
_FLEX_START = re.compile(r"^DWS Defined Duration V(\d+[ep])\b", re.IGNORECASE)
_KNOWN = frozenset({"v2", "v3", "v4", "v5e", "v5p", "v6e"})
_WITH_PODS = frozenset({"v2", "v3"})  # whose pods have another price than single hosts
#: Prices of other kinds: commitments, reservations, and flex-start in other words than above.
_OTHER_KINDS = re.compile(
    r"\b(commit\w*|reserv\w*|calendar|dws|defined duration|flex\w*|subscription|fixed price"
    r"|capacity optimized)\b",
    re.IGNORECASE,
)
_SPOT = re.compile(r"\b(preemptible|spot)\b", re.IGNORECASE)


class CatalogPrices(Struct, frozen=True, kw_only=True):
    """What the catalog says: prices, and the descriptions of TPU's SKUs that are not understood."""

    prices: tuple[ChipPrice, ...]
    unknown: tuple[str, ...]


async def read_prices(apis: GoogleAPIs, *, today: str) -> CatalogPrices:
    """All prices of TPUs, as of *today*. Raises what `GoogleAPIs` raises."""
    skus: list[tuple[int, dict[str, Any]]] = []
    for service, chips in SERVICES.items():
        page, token = 0, ""
        while page == 0 or (token and page < _MOST_PAGES):
            answer = await apis.get(
                "cloudbilling",
                f"/v1/services/{service}/skus",
                currencyCode="USD",
                pageSize="5000",
                **({"pageToken": token} if token else {}),
            )
            skus += [(chips, sku) for sku in answer.get("skus", ())]
            page, token = page + 1, answer.get("nextPageToken", "")
    return understand(skus, today=today)


def understand(skus: list[tuple[int, dict[str, Any]]], *, today: str) -> CatalogPrices:
    """The prices per chip in *skus*, each with the chips that one unit of it is."""
    prices: dict[tuple[str, str], dict[Tier, float]] = {}  # by name and region
    unknown = set()
    for chips, sku in skus:
        text = str(sku.get("description", ""))
        of_tpus = sku.get("category", {}).get("resourceGroup") == "TPU" or _FLEX_START.match(text)
        if not of_tpus or _is_other_kind(sku, text):
            continue
        name, price = _name(text), _price(sku)
        if name is None or price is None:
            unknown.add(text)
            continue
        tier: Tier = "on-demand"
        if _FLEX_START.match(text):
            tier = "flex-start"
        elif _SPOT.search(text) or sku["category"].get("usageType") == "Preemptible":
            tier = "spot"
        for region in sku.get("serviceRegions", ()):
            prices.setdefault((name, region), {})[tier] = round(price / chips, 6)
    return CatalogPrices(
        prices=tuple(
            ChipPrice(
                name=name,
                region=region,
                on_demand=by["on-demand"],
                spot=by.get("spot"),
                date=today,
                flex_start=by.get("flex-start"),
            )
            for (name, region), by in sorted(prices.items())
            if "on-demand" in by
        ),
        unknown=tuple(sorted(unknown)),
    )


def _is_other_kind(sku: dict[str, Any], text: str) -> bool:
    if _FLEX_START.match(text):
        return False
    usage = sku["category"].get("usageType", "OnDemand")
    return usage not in ("OnDemand", "Preemptible") or bool(_OTHER_KINDS.search(text))


def _name(text: str) -> str | None:
    """ "v5e", "v2 pod"; None for a generation that the catalog of types does not have."""
    match = _FLEX_START.match(text) or _GENERATION.search(text)
    generation = f"v{match[1].lower()}" if match else ""
    if generation not in _KNOWN:
        return None
    pod = generation in _WITH_PODS and re.search(r"\bpod\b", text, re.IGNORECASE)
    return f"{generation} pod" if pod else generation


def _price(sku: dict[str, Any]) -> float | None:
    """USD for an hour of one unit; None for another unit or a price in steps."""
    try:
        expression = sku["pricingInfo"][-1]["pricingExpression"]
        (rate,) = expression["tieredRates"]
        price = rate["unitPrice"]
        if expression["usageUnit"] != "h" or price.get("currencyCode", "USD") != "USD":
            return None
        amount = int(price.get("units", 0)) + int(price.get("nanos", 0)) / 1e9
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    return amount if amount > 0 else None
