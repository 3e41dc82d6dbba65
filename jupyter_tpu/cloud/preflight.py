"""What Google says about a project before there is a TPU: permissions and quotas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ..catalog import API
from .google_apis import GoogleAPIs
from .models import Tier

#: What creating, connecting and deleting a TPU needs, of each control plane.
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
COMPUTE_PERMISSIONS = (
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.getGuestAttributes",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instanceGroupManagers.create",
    "compute.instanceGroupManagers.delete",
    "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.list",
    "compute.instanceTemplates.create",
    "compute.instanceTemplates.delete",
    "compute.resourcePolicies.create",
    "compute.resourcePolicies.delete",
    "compute.zoneOperations.get",
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
_SERVICES: dict[API, str] = {"tpu": "tpu.googleapis.com", "compute": "compute.googleapis.com"}
#: Compute Engine has quotas of generations ("PREEMPTIBLE-TPU-V6E-per-project-region"), and one of
#: families ("TPUS-PER-TPU-FAMILY-per-project-region", dimension "tpu_family").
_COMPUTE_QUOTAS = {"v5p": r"TPU-V5P\b", "v6e": r"TPU-V6E\b", "tpu7x": r"TPU-(V|TPU)?7X\b"}
_COMPUTE_FAMILIES = {"v5p": "CT5P", "v6e": "CT6E", "tpu7x": "TPU7X"}
_FAMILY_QUOTA = "TPUS-PER-TPU-FAMILY"


class Quota(Struct, frozen=True, kw_only=True):
    """A limit for chips of one generation and tier in one place."""

    name: str  # "TPUV6EPerProjectPerRegionForTPUAPI"
    place: str  # a zone, a region, or "" for the whole project
    limit: int  # -1: unlimited
    api: API = "tpu"
    #: Whether it is of preemptible TPUs.
    preemptible: bool = False


async def missing_permissions(apis: GoogleAPIs, project: str, api: API = "tpu") -> list[str]:
    """Those that *api* needs and the account lacks. Raises what `GoogleAPIs` raises."""
    needed = PERMISSIONS if api == "tpu" else COMPUTE_PERMISSIONS
    answer = await apis.post(
        "cloudresourcemanager",
        f"/v1/projects/{project}:testIamPermissions",
        {"permissions": [*needed]},
    )
    return [permission for permission in needed if permission not in answer.get("permissions", ())]


async def quotas(
    apis: GoogleAPIs, project: str, *, generation: str, tier: Tier, zone: str, api: API = "tpu"
) -> list[Quota]:
    """The limits of *api* that *zone* has for TPUs of *generation*, as far as their names are
    understood.
    """
    quota_infos: list[dict[str, Any]] = []
    token = None
    while token != "":
        answer = await apis.get(
            "cloudquotas",
            f"/v1/projects/{project}/locations/global/services/{_SERVICES[api]}/quotaInfos",
            pageSize="500",
            **({"pageToken": token} if token else {}),
        )
        quota_infos += answer.get("quotaInfos", ())
        token = answer.get("nextPageToken", "")
    understand = understand_quotas if api == "tpu" else understand_compute_quotas
    return [*understand(quota_infos, generation=generation, tier=tier, zone=zone)]


def understand_quotas(
    infos: Iterable[Mapping[str, Any]], *, generation: str, tier: Tier, zone: str
) -> Iterable[Quota]:
    """The Cloud TPU API's."""
    pattern = _QUOTA_NAMES.get(generation)
    for info in infos:
        name = str(info.get("quotaId", ""))
        spot = "Preemptible" in name
        if not pattern or not re.match(pattern, name) or spot is not (tier in _PREEMPTIBLE):
            continue
        for part in info.get("dimensionsInfos", ()):
            place, limit = _limit_in(zone, part)
            if limit is not None:
                yield Quota(name=name, place=place, limit=limit, preemptible=spot)


def understand_compute_quotas(
    infos: Iterable[Mapping[str, Any]], *, generation: str, tier: Tier, zone: str
) -> Iterable[Quota]:
    """Compute Engine's. Flex-start uses the preemptible quota, and the other one if that has no
    room: it gets both.
    """
    pattern = _COMPUTE_QUOTAS.get(generation)
    for info in infos:
        name = str(info.get("quotaId", ""))
        preemptible = name.startswith("PREEMPTIBLE-")
        of_families = name.startswith(_FAMILY_QUOTA)
        if not pattern or not (of_families or re.search(pattern, name)):
            continue
        if tier != "flex-start" and preemptible is not (tier == "spot"):
            continue
        for part in info.get("dimensionsInfos", ()):
            family = str(part.get("dimensions", {}).get("tpu_family", ""))
            if of_families and family.upper() != _COMPUTE_FAMILIES[generation]:
                continue
            place, limit = _limit_in(zone, part, besides=family)
            if limit is not None:
                yield Quota(
                    name=name, place=place, limit=limit, api="compute", preemptible=preemptible
                )


def allowed(known_quotas: Iterable[Quota], tier: Tier) -> int | None:
    """How many chips these quotas allow at most, -1 for no limit; None if that is not known."""
    limits = [*known_quotas]
    if not limits:
        return None

    def lowest(some: list[Quota]) -> int:
        return min((quota.limit for quota in some if quota.limit >= 0), default=-1)

    if tier == "flex-start" and any(not limit.preemptible for limit in limits):
        parts = [
            lowest([limit for limit in limits if limit.preemptible is preemptible])
            for preemptible in (True, False)
            if any(limit.preemptible is preemptible for limit in limits)
        ]
        return -1 if -1 in parts else max(parts)
    return lowest(limits)


def _limit_in(zone: str, part: Mapping[str, Any], *, besides: str = "") -> tuple[str, int | None]:
    """The place of a limit that holds in *zone*, and the limit; None for one that does not."""
    region = zone.rpartition("-")[0]
    dimensions = [
        dimension for dimension in part.get("dimensions", {}).values() if dimension != besides
    ]
    places = part.get("applicableLocations") or dimensions
    place = next((scope for scope in (zone, region) if scope in places), None)
    if place is None and places and "global" not in places:
        return "", None
    value = part.get("details", {}).get("value")
    return place or "", None if value is None else int(value)
