"""Compute Engine's operations: what the emulator does there is done before it answers."""

from __future__ import annotations

import secrets
from typing import Any

from aiohttp import web

from ..model import api_errors

#: Of all calls on a project.
ROOT = "/compute/{version:v1|beta|alpha}/projects/{project}"
_KEPT = 100
_OPERATIONS = web.AppKey("compute_operations", dict[str, dict[str, Any]])


def add_routes(app: web.Application) -> None:
    """The operations of a project and of its regions, and waiting for them."""
    app[_OPERATIONS] = {}

    async def get(request: web.Request) -> web.Response:
        name = request.match_info["operation"]
        if (found := request.app[_OPERATIONS].get(name)) is None:
            raise api_errors.resource_not_found(request.path.partition("/projects/")[2])
        return web.json_response(found)

    for where in ("global", "regions/{region}"):
        path = f"{ROOT}/{where}/operations/{{operation}}"
        app.router.add_get(path, get)
        app.router.add_post(f"{path}/wait", get)


def link(request: web.Request, path: str) -> str:
    """The URL of *path* in the project of *request*."""
    version, project = request.match_info["version"], request.match_info["project"]
    return f"{request.scheme}://{request.host}/compute/{version}/projects/{project}/{path}"


def done(request: web.Request, kind: str, target: str) -> web.Response:
    """A new operation that is DONE, on the resource at the path *target*."""
    region = request.match_info.get("region")
    where = f"regions/{region}" if region else "global"
    name = f"operation-{secrets.token_hex(12)}"
    operation = {
        "kind": "compute#operation",
        "id": str(secrets.randbits(60)),
        "name": name,
        "operationType": kind,
        "status": "DONE",
        "progress": 100,
        "targetLink": f"{request.scheme}://{request.host}{target}",
        "selfLink": link(request, f"{where}/operations/{name}"),
    }
    if region:
        operation["region"] = link(request, where)
    kept = request.app[_OPERATIONS]
    kept[name] = operation
    for old in list(kept)[:-_KEPT]:
        del kept[old]
    return web.json_response(operation)
