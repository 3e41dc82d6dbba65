"""What may be asked before a TPU is created: Resource Manager's permissions, and Cloud Quotas.

The faults ``permission`` and ``quota`` show here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from ...catalog import types
from ..engine import Engine
from ..model.faults import Fault, Faults
from ..model.machine_types import MACHINE_TYPES
from .rest import json_body


def add_routes(app: web.Application, engine: Engine) -> None:
    """``projects/P:testIamPermissions``, and the ``quotaInfos`` of the Cloud TPU API."""
    faults = engine.model.faults

    async def test_permissions(request: web.Request) -> web.Response:
        asked = (await json_body(request) or {}).get("permissions", [])
        denied = any(fault.kind == "permission" for fault in faults.list())
        allowed = [
            permission
            for permission in asked
            if not denied or permission.endswith((".get", ".list"))
        ]
        return web.json_response({"permissions": allowed} if allowed else {})

    async def list_quotas(request: web.Request) -> web.Response:
        return web.json_response({"quotaInfos": [*_quotas(faults)]})

    async def list_compute_quotas(request: web.Request) -> web.Response:
        return web.json_response({"quotaInfos": [*_compute_quotas(faults)]})

    app.router.add_get(
        "/cloudquotas/v1/projects/{project}/locations/global/services/compute.googleapis.com/"
        "quotaInfos",
        list_compute_quotas,
    )
    app.router.add_post(
        "/cloudresourcemanager/v1/projects/{project:[^/:]+}:testIamPermissions", test_permissions
    )
    app.router.add_get(
        "/cloudquotas/v1/projects/{project}/locations/global/services/tpu.googleapis.com/quotaInfos",
        list_quotas,
    )


def _quotas(faults: Faults) -> Iterator[dict[str, Any]]:
    """One of each generation and tier; -1 is unlimited."""
    quotas = [fault for fault in faults.list() if fault.kind == "quota"]
    for generation in sorted({type_.generation for type_ in types("tpu")}):
        for tier, name in (("on-demand", ""), ("spot", "Preemptible")):
            limits = [_limit(fault) for fault in quotas if _is_about(fault, generation, tier)]
            yield {
                "quotaId": f"TPU{generation.upper()}{name}PerProjectPerRegionForTPUAPI",
                "service": "tpu.googleapis.com",
                "dimensionsInfos": [*limits, _dimension("global", -1)],
            }


def _compute_quotas(faults: Faults) -> Iterator[dict[str, Any]]:
    """Compute Engine's: of families on demand (v5p has its own), of generations preemptible."""
    quotas = [fault for fault in faults.list() if fault.kind == "quota"]
    for machine in sorted({type_.name.partition("-")[0] for type_ in MACHINE_TYPES}):
        family = next(
            type_ for type_ in MACHINE_TYPES if type_.name.startswith(f"{machine}-")
        ).family
        generation = family.generation
        for tier, preemptible in (("on-demand", False), ("spot", True)):
            limits = [
                _limit(fault)
                for fault in quotas
                if fault.tier in (None, tier)
                and fault.type in (None, generation, machine, *_types_of(machine))
            ]
            name = f"TPU-{generation.removeprefix('tpu').upper()}-per-project-region"
            own = preemptible or generation == "v5p"
            dimensions = [*limits, _dimension("global", -1)]
            for entry in dimensions if not own else ():
                entry["dimensions"] = {**entry.get("dimensions", {}), "tpu_family": machine.upper()}
            yield {
                "quotaId": f"{'PREEMPTIBLE-' if preemptible else ''}{name}"
                if own
                else "TPUS-PER-TPU-FAMILY-per-project-region",
                "service": "compute.googleapis.com",
                "dimensionsInfos": dimensions,
            }


def _types_of(machine: str) -> list[str]:
    return [type_.name for type_ in MACHINE_TYPES if type_.name.startswith(f"{machine}-")]


def _limit(fault: Fault) -> dict[str, Any]:
    return _dimension(fault.zone.rpartition("-")[0] if fault.zone else "global", fault.chips)


def _dimension(place: str, limit: int) -> dict[str, Any]:
    entry = {"details": {"value": str(limit)}, "applicableLocations": [place]}
    return entry if place == "global" else {**entry, "dimensions": {"region": place}}


def _is_about(fault: Fault, generation: str, tier: str) -> bool:
    of = {
        type_.generation
        for type_ in types("tpu")
        if fault.type in (None, type_.name, type_.generation)
    }
    return generation in of and fault.tier in (None, tier)
