"""What Google says about a project before there is a TPU: permissions and quotas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from .google_apis import GoogleAPIs
from .models import Tier

#: What creating, connecting and deleting a TPU needs.
PERMISSIONS = (
    "tpu.nodes.create",
    "tpu.nodes.delete",
    "tpu.nodes.get",
    "tpu.nodes.list",
    "tpu.nodes.start",
    "tpu.nodes.stop",
    "tpu.nodes.update",
    "tpu.operations.get",
)
#: How the names of quotas ("TPUV5sLitepodPerProjectPerZoneForTPUAPI") call each generation.
_QUOTA_NAMES = {
    "v2": r"TPUV2(?!\d)",
    "v3": r"TPUV3(?!\d)",
    "v4": r"TPUV4(?!\d)",
    "v5e": r"TPUV5(sLitepod|E|sPreemptibleLitepod)",
    "v5p": r"TPUV5P",
    "v6e": r"TPUV6E",
}


#: Tiers that use the quota of preemptible TPUs
#: (cloud.google.com/tpu/docs/request-using-flex-start).
_PREEMPTIBLE = ("spot", "flex-start")


class Quota(Struct, frozen=True, kw_only=True):
    """A limit for TPUs of one generation and tier in one place."""

    name: str  # "TPUV6EPerProjectPerRegionForTPUAPI"
    place: str  # a zone, a region, or "" for the whole project
    limit: int  # -1: unlimited


async def missing_permissions(apis: GoogleAPIs, project: str) -> list[str]:
    """Those of PERMISSIONS that the account does not have. Raises what `GoogleAPIs` raises."""
    answer = await apis.post(
        "cloudresourcemanager",
        f"/v1/projects/{project}:testIamPermissions",
        {"permissions": [*PERMISSIONS]},
    )
    return [each for each in PERMISSIONS if each not in answer.get("permissions", ())]


async def quotas(
    apis: GoogleAPIs, project: str, *, generation: str, tier: Tier, zone: str
) -> list[Quota]:
    """The limits that *zone* has for TPUs of *generation*, as far as their names are understood."""
    found: list[dict[str, Any]] = []
    token = None
    while token != "":
        answer = await apis.get(
            "cloudquotas",
            f"/v1/projects/{project}/locations/global/services/tpu.googleapis.com/quotaInfos",
            pageSize="500",
            **({"pageToken": token} if token else {}),
        )
        found += answer.get("quotaInfos", ())
        token = answer.get("nextPageToken", "")
    return [*understand_quotas(found, generation=generation, tier=tier, zone=zone)]


def understand_quotas(
    infos: Iterable[Mapping[str, Any]], *, generation: str, tier: Tier, zone: str
) -> Iterable[Quota]:
    region = zone.rpartition("-")[0]
    pattern = _QUOTA_NAMES.get(generation)
    for info in infos:
        name = str(info.get("quotaId", ""))
        spot = "Preemptible" in name
        if not pattern or not re.match(pattern, name) or spot is not (tier in _PREEMPTIBLE):
            continue
        for part in info.get("dimensionsInfos", ()):
            places = part.get("applicableLocations") or list(part.get("dimensions", {}).values())
            place = next((each for each in (zone, region) if each in places), None)
            if place is None and places and "global" not in places:
                continue
            value = part.get("details", {}).get("value")
            if value is not None:
                yield Quota(name=name, place=place or "", limit=int(value))
