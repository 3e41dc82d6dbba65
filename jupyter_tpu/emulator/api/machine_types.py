"""Compute Engine's machine types with TPUs, and the images for them."""

from __future__ import annotations

import hashlib
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from ..model.instances import check_zone
from ..model.machine_types import (
    IMAGE_FAMILIES,
    IMAGES,
    MachineType,
    compute_zones,
    machine_types_in,
)
from .compute_calls import ComputeRoutes
from .compute_operations import ROOT, fits, link, page

_GB = 1024


def add_routes(app: web.Application, engine: Engine) -> None:
    """``machineTypes`` of a zone and of all, ``global/images/family/F`` and ``global/images/I``."""
    calls = ComputeRoutes(app, engine)

    async def listed(request: web.Request) -> web.Response:
        zone = request.match_info["zone"]
        check_zone(request.match_info["project"], zone)
        shown = [_shown(request, zone, type_) for type_ in machine_types_in(zone)]
        return page(request, "machineType", shown)

    async def get(request: web.Request) -> web.Response:
        zone, name = request.match_info["zone"], request.match_info["name"]
        for type_ in machine_types_in(zone):
            if type_.name == name:
                return web.json_response(_shown(request, zone, type_))
        project = request.match_info["project"]
        raise api_errors.resource_not_found(f"projects/{project}/zones/{zone}/machineTypes/{name}")

    async def list_all(request: web.Request) -> web.Response:
        by_zone = {
            f"zones/{zone}": [_shown(request, zone, type_) for type_ in machine_types_in(zone)]
            for zone in compute_zones()
        }
        return aggregated(request, "machineType", "machineTypes", by_zone)

    async def get_family(request: web.Request) -> web.Response:
        family = request.match_info["family"]
        _check_project(request)
        if family not in IMAGE_FAMILIES:
            raise api_errors.resource_not_found(f"projects/{IMAGES}/global/images/family/{family}")
        return web.json_response(_image(request, family))

    async def get_image(request: web.Request) -> web.Response:
        _check_project(request)
        for family, image in IMAGE_FAMILIES.items():
            if image == request.match_info["name"]:
                return web.json_response(_image(request, family))
        raise api_errors.resource_not_found(request.path.partition("/v1/")[2])

    def _check_project(request: web.Request) -> None:
        if request.match_info["project"] != IMAGES:
            raise api_errors.resource_not_found(request.path.partition("/v1/")[2])

    types = f"{ROOT}/zones/{{zone}}/machineTypes"
    calls.add("machineTypes.list", "GET", types, listed)
    calls.add("machineTypes.get", "GET", f"{types}/{{name}}", get)
    calls.add("machineTypes.aggregatedList", "GET", f"{ROOT}/aggregated/machineTypes", list_all)
    images = f"{ROOT}/global/images"
    calls.add("images.getFromFamily", "GET", f"{images}/family/{{family}}", get_family)
    calls.add("images.get", "GET", f"{images}/{{name}}", get_image)


def aggregated(
    request: web.Request,
    kind: str,
    collection: str,
    by_place: dict[str, list[dict[str, Any]]],
    unreachable: set[str] | None = None,
) -> web.Response:
    """The list over all places: those without an item say so in a warning.

    *unreachable*: places that did not answer.
    """
    text = request.query.get("filter", "")
    items: dict[str, Any] = {}
    for place, all_of_place in by_place.items():
        items[place] = {collection: [item for item in all_of_place if fits(item, text)]}
        if not items[place][collection]:
            code = "UNREACHABLE" if place in (unreachable or ()) else "NO_RESULTS_ON_PAGE"
            message = f"There are no results for scope '{place}' on this page."
            items[place] = {"warning": {"code": code, "message": message}}
    kind = f"compute#{kind}AggregatedList"
    answer = {"kind": kind, "id": request.path, "items": items, "selfLink": str(request.url)}
    if unreachable:
        answer["unreachables"] = [link(request, place) for place in sorted(unreachable)]
    return web.json_response(answer)


def _shown(request: web.Request, zone: str, machine: MachineType) -> dict[str, Any]:
    return {
        "kind": "compute#machineType",
        "id": _number(f"{zone}/{machine.name}"),
        "name": machine.name,
        "description": f"{machine.cpus} vCPUs, {machine.memory_gb} GB RAM, {machine.chips} TPUs",
        "guestCpus": machine.cpus,
        "memoryMb": machine.memory_gb * _GB,
        "maximumPersistentDisks": 128,
        "zone": zone,
        "accelerators": [
            {
                "guestAcceleratorType": machine.name.partition("-")[0],
                "guestAcceleratorCount": machine.chips,
            }
        ],
        "selfLink": link(request, f"zones/{zone}/machineTypes/{machine.name}"),
    }


def _image(request: web.Request, family: str) -> dict[str, Any]:
    name = IMAGE_FAMILIES[family]
    return {
        "kind": "compute#image",
        "id": _number(name),
        "name": name,
        "family": family,
        "status": "READY",
        "architecture": "X86_64",
        "diskSizeGb": "10",
        "selfLink": link(request, f"global/images/{name}"),
    }


def _number(text: str) -> str:
    return str(int(hashlib.sha256(text.encode()).hexdigest()[:15], 16))
