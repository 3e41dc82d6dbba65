"""Compute Engine's operations over REST, in their three scopes."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from ..model.compute_operations import ComputeOperations
from ..model.instance_records import ComputeOperation
from ..model.operations import paginate

#: The path of all calls on a project.
ROOT = "/compute/{version:v1|beta|alpha}/projects/{project}"
PLACES = ("global", "regions/{region}", "zones/{zone}")
_OPERATIONS = web.AppKey("compute_operations", ComputeOperations)
_LONGEST_WAIT = 120.0  # seconds of one call
_AND = re.compile(r"\)?\s+AND\s+\(?|\)\s*\(")
_TERM = re.compile(r"(?P<field>[\w.-]+)(?P<how>\s*(?:!=|=|:|~)\s*|\s+(?:eq|ne)\s+)(?P<value>.*)")


def add_routes(app: web.Application, engine: Engine) -> None:
    """The operations of a project, of its regions and zones, their lists, and waiting for them."""
    app[_OPERATIONS] = engine.model.compute_operations
    operations = engine.model.compute_operations

    def find(request: web.Request) -> ComputeOperation:
        path = request.path.partition("/projects/")[2].removesuffix("/wait")
        return operations.get(f"projects/{path}")

    async def get(request: web.Request) -> web.Response:
        return web.json_response(shown(request, find(request)))

    async def wait(request: web.Request) -> web.Response:
        operation = find(request)
        await operations.wait(operation, _LONGEST_WAIT)
        return web.json_response(shown(request, operation))

    async def listed(request: web.Request) -> web.Response:
        compute_operations = operations.list_in(request.match_info["project"], place_of(request))
        return page(
            request,
            "operation",
            [shown(request, compute_operation) for compute_operation in compute_operations],
        )

    for where in PLACES:
        path = f"{ROOT}/{where}/operations"
        app.router.add_get(path, listed)
        app.router.add_get(f"{path}/{{operation}}", get)
        app.router.add_post(f"{path}/{{operation}}/wait", wait)


def place_of(request: web.Request) -> str:
    """ "global", "regions/R" or "zones/Z", which the request is about."""
    info = request.match_info
    if "zone" in info:
        return f"zones/{info['zone']}"
    return f"regions/{info['region']}" if "region" in info else "global"


def link(request: web.Request, path: str) -> str:
    """The URL of *path* in the project of *request*."""
    return full_link(request, f"projects/{request.match_info['project']}/{path}")


def full_link(request: web.Request, path: str) -> str:
    """The URL of the resource at *path* (projects/P/…)."""
    version = request.match_info["version"]
    return f"{request.scheme}://{request.host}/compute/{version}/{path}"


def shown(request: web.Request, operation: ComputeOperation) -> dict[str, Any]:
    """compute.Operation."""
    body: dict[str, Any] = {
        "kind": "compute#operation",
        "id": operation.id,
        "name": operation.name,
        "operationType": operation.kind,
        "status": operation.status,
        "progress": 100 if operation.status == "DONE" else 0,
        "targetLink": full_link(request, operation.target),
        "selfLink": full_link(request, operation.path),
        "insertTime": operation.inserted,
        "startTime": operation.inserted,
        "user": operation.user or "you@example.com",
    }
    if operation.target_id:
        body["targetId"] = operation.target_id
    if operation.ended:
        body["endTime"] = operation.ended
    if operation.place != "global":
        body[operation.place.partition("/")[0][:-1]] = link(request, operation.place)
    if operation.errors:
        body["error"] = {"errors": operation.errors}
        body["httpErrorStatusCode"] = 400
        body["httpErrorMessage"] = "BAD REQUEST"
    return body


def done(request: web.Request, kind: str, target: str) -> web.Response:
    """A new operation that is DONE, on the resource at the URL's path *target*."""
    operations = request.app[_OPERATIONS]
    operation = operations.begin(kind, f"projects/{target.partition('/projects/')[2]}")
    operations.end(operation)
    return web.json_response(shown(request, operation))


def page(request: web.Request, kind: str, items: list[dict[str, Any]]) -> web.Response:
    """A list of those *items* that ``filter`` wants, as ``maxResults`` and ``pageToken`` say."""
    matching = [item for item in items if fits(item, request.query.get("filter", ""))]
    size = int(request.query.get("maxResults") or 0)
    part, token = paginate(matching, size, request.query.get("pageToken", ""))
    body: dict[str, Any] = {"kind": f"compute#{kind}List", "id": request.path, "items": list(part)}
    if token:
        body["nextPageToken"] = token
    return web.json_response({**body, "selfLink": str(request.url)})


def fits(item: dict[str, Any], text: str) -> bool:
    """Whether *item* fits a filter: ``FIELD=VALUE``, ``!=``, ``:`` or ``eq`` and ``ne`` (with a
    regular expression), which may be joined by AND and be in parentheses. FIELD may be a path.
    """
    return all(_fits_one(item, part) for part in _AND.split(text) if part.strip(" ()"))


def _fits_one(item: dict[str, Any], part: str) -> bool:
    match = _TERM.fullmatch(part.strip(" ()"))
    if match is None:
        raise api_errors.compute_invalid(f"Invalid value for field 'filter': '{part.strip()}'.")
    value: Any = item
    for name in match["field"].split("."):
        value = value.get(name) if isinstance(value, dict) else None
    text, pattern = "" if value is None else str(value), match["value"].strip("\"' ")
    kind = match["how"].strip()
    if kind in ("eq", "ne"):
        return (re.fullmatch(pattern, text) is not None) is (kind == "eq")
    if kind == "~":
        return re.search(pattern, text) is not None
    if kind == ":":
        return value is not None and (pattern == "*" or pattern.lower() in text.lower())
    return (text == pattern) is (kind == "=")
