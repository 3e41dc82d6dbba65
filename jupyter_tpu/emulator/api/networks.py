"""Compute Engine's networks, subnetworks and firewall rules over REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from ..model.networks import regions
from .compute_operations import ROOT, done, link
from .rest import json_body

_COLLECTIONS = {"networks": "global", "firewalls": "global", "subnetworks": "regions/{region}"}


def add_routes(app: web.Application, engine: Engine) -> None:
    """``global/networks``, ``global/firewalls``, ``regions/R/subnetworks`` and their lists."""
    networks = engine.model.networks

    def shown(request: web.Request, body: dict[str, Any], collection: str, place: str) -> Any:
        project = request.match_info["project"]
        where = place if place == "global" else f"regions/{place}"
        links: dict[str, Any] = {"selfLink": link(request, f"{where}/{collection}/{body['name']}")}
        if "network" in body:
            name = body["network"].partition("/global/")[2]
            links["network"] = link(request, f"global/{name}")
        if collection == "subnetworks":
            links["region"] = link(request, f"regions/{place}")
        if collection == "networks":
            links["subnetworks"] = [
                link(request, f"regions/{region}/subnetworks/{subnetwork['name']}")
                for region in regions()
                for subnetwork in networks.list(project, "subnetworks", region)
                if subnetwork["network"].endswith(f"/networks/{body['name']}")
            ]
        return body | links

    def add(collection: str, where: str) -> None:
        def place(request: web.Request) -> str:
            return request.match_info.get("region", "global")

        async def listed(request: web.Request) -> web.Response:
            bodies = networks.list(request.match_info["project"], collection, place(request))
            items = [shown(request, body, collection, place(request)) for body in bodies]
            return web.json_response(_list(request, collection, items))

        async def get(request: web.Request) -> web.Response:
            project, name = request.match_info["project"], request.match_info["name"]
            body = networks.get(project, collection, place(request), name)
            return web.json_response(shown(request, body, collection, place(request)))

        async def insert(request: web.Request) -> web.Response:
            body = await json_body(request)
            if not isinstance(body, dict):
                raise api_errors.required_field("resource")
            networks.insert(request.match_info["project"], collection, place(request), body)
            engine.save()
            return done(request, "insert", f"{request.path}/{body['name']}")

        async def patch(request: web.Request) -> web.Response:
            project, name = request.match_info["project"], request.match_info["name"]
            networks.patch(project, collection, place(request), name, await json_body(request))
            engine.save()
            return done(request, "patch", request.path)

        async def delete(request: web.Request) -> web.Response:
            project, name = request.match_info["project"], request.match_info["name"]
            used = _users(engine, project, collection, place(request), name)
            networks.delete(project, collection, place(request), name, used)
            engine.save()
            return done(request, "delete", request.path)

        path = f"{ROOT}/{where}/{collection}"
        app.router.add_get(path, listed)
        app.router.add_post(path, insert)
        app.router.add_get(f"{path}/{{name}}", get)
        app.router.add_patch(f"{path}/{{name}}", patch)
        app.router.add_delete(f"{path}/{{name}}", delete)

    for collection, where in _COLLECTIONS.items():
        add(collection, where)

    async def list_all_subnetworks(request: web.Request) -> web.Response:
        items = {
            f"regions/{region}": {
                "subnetworks": [
                    shown(request, body, "subnetworks", region)
                    for body in networks.list(request.match_info["project"], "subnetworks", region)
                ]
            }
            for region in regions()
        }
        return web.json_response(_list(request, "subnetworkAggregated", items))

    async def list_regions(request: web.Request) -> web.Response:
        items = [_region(request, name) for name in regions()]
        return web.json_response(_list(request, "regions", items))

    async def get_region(request: web.Request) -> web.Response:
        return web.json_response(_region(request, request.match_info["region"]))

    app.router.add_get(f"{ROOT}/aggregated/subnetworks", list_all_subnetworks)
    app.router.add_get(f"{ROOT}/regions", list_regions)
    app.router.add_get(f"{ROOT}/regions/{{region}}", get_region)


def _region(request: web.Request, name: str) -> dict[str, Any]:
    if name not in regions():
        project = request.match_info["project"]
        raise api_errors.resource_not_found(f"projects/{project}/regions/{name}")
    path = link(request, f"regions/{name}")
    return {"kind": "compute#region", "name": name, "status": "UP", "selfLink": path}


def _users(engine: Engine, project: str, collection: str, place: str, name: str) -> Iterator[str]:
    """The nodes that are on a network or subnetwork."""
    for node in engine.model.nodes.values():
        region = node.zone.rpartition("-")[0]
        for network in node.networks if node.project == project else ():
            used = {
                ("networks", "global"): network.network,
                ("subnetworks", region): network.subnetwork,
            }
            if used.get((collection, place), "").rpartition("/")[2] == name:
                yield node.path


def _list(request: web.Request, kind: str, items: Any) -> dict[str, Any]:
    kind = f"compute#{kind.removesuffix('s')}List"
    return {"kind": kind, "id": request.path, "items": items, "selfLink": str(request.url)}
