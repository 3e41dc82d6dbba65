"""The REST/JSON transport: a table from method and path to the API's calls, in protobuf's JSON.

``v2`` is what `Calls` answers. ``v2alpha1`` (gcloud's alpha and beta) is the same with a few other
names.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from google.protobuf import field_mask_pb2, json_format

from ..model import api_errors
from ..state_folder import Token
from . import messages, v2alpha1
from .v2 import LOCATIONS, OPERATIONS, TPU, Calls

_P = r"projects/[^/:]+"
_L = rf"{_P}/locations/[^/:]+"
_N = rf"{_L}/nodes/[^/:]+"
_O = rf"{_L}/operations/[^/:]+"

#: (method, path, verb after the colon, service, call, field that the path fills, field of the
#: body: "*" for the whole request, "" for none)
_ROUTES: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    ("GET", rf"{_L}/nodes", "", TPU, "ListNodes", "parent", ""),
    ("POST", rf"{_L}/nodes", "", TPU, "CreateNode", "parent", "node"),
    ("GET", _N, "", TPU, "GetNode", "name", ""),
    ("DELETE", _N, "", TPU, "DeleteNode", "name", ""),
    ("PATCH", _N, "", TPU, "UpdateNode", "node.name", "node"),
    ("POST", _N, "start", TPU, "StartNode", "name", "*"),
    ("POST", _N, "stop", TPU, "StopNode", "name", "*"),
    ("POST", _N, "getGuestAttributes", TPU, "GetGuestAttributes", "name", "*"),
    ("GET", rf"{_L}/acceleratorTypes", "", TPU, "ListAcceleratorTypes", "parent", ""),
    ("GET", rf"{_L}/acceleratorTypes/[^/:]+", "", TPU, "GetAcceleratorType", "name", ""),
    ("GET", rf"{_L}/runtimeVersions", "", TPU, "ListRuntimeVersions", "parent", ""),
    ("GET", rf"{_L}/runtimeVersions/[^/:]+", "", TPU, "GetRuntimeVersion", "name", ""),
    ("GET", rf"{_L}/operations", "", OPERATIONS, "ListOperations", "name", ""),
    ("GET", _O, "", OPERATIONS, "GetOperation", "name", ""),
    ("DELETE", _O, "", OPERATIONS, "DeleteOperation", "name", ""),
    ("POST", _O, "cancel", OPERATIONS, "CancelOperation", "name", ""),
    ("GET", rf"{_P}/locations", "", LOCATIONS, "ListLocations", "name", ""),
    ("GET", _L, "", LOCATIONS, "GetLocation", "name", ""),
)
_COMPILED = [(route[0], re.compile(route[1]), *route[2:]) for route in _ROUTES]
#: Query parameters that are fields of requests; the rest (alt, $alt, filter…) changes nothing.
_QUERY = {"nodeId": "node_id", "pageSize": "page_size", "pageToken": "page_token"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application, calls: Calls) -> None:
    """The Cloud TPU API under ``/v2/`` and ``/v2alpha1/``."""

    async def answer(request: web.Request) -> web.Response:
        version = request.match_info["version"]
        path, _, verb = request.match_info["path"].partition(":")
        body = await json_body(request)
        if (
            version == "v2alpha1"
            and verb in v2alpha1.MAINTENANCE_VERBS
            and request.method == "POST"
        ):
            node = messages.NodeMessage(name=path)
            message = await calls.call("PerformMaintenance", calls.maintain_node, node)
        else:
            message = await _call(calls, request, path, verb, body)
        found = json_format.MessageToDict(message)
        return web.json_response(v2alpha1.from_v2(found) if version == "v2alpha1" else found)

    app.router.add_route("*", "/{version:v2|v2alpha1}/{path:projects/.+}", answer)


async def _call(calls: Calls, request: web.Request, path: str, verb: str, body: Any) -> Any:
    for method, pattern, route_verb, service, name, path_field, body_field in _COMPILED:
        if (method, route_verb) != (request.method, verb) or not pattern.fullmatch(path):
            continue
        request_class, answer = calls.table[service][name]
        message = request_class()
        target = {"": None, "*": message}.get(body_field) if body_field != "node" else message.node
        try:
            if target is not None and body is not None:
                json_format.ParseDict(body, target, ignore_unknown_fields=True)
            _fill_from_query(message, request)
        except (json_format.ParseError, ValueError) as error:
            raise api_errors.invalid_field(f"Invalid JSON payload received. {error}") from None
        if path_field == "node.name":
            message.node.name = path
        else:
            setattr(message, path_field, path)
        return await calls.call(name, answer, message)
    raise api_errors.not_found(f"{request.method} {request.path}")


def _fill_from_query(message: Any, request: web.Request) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for parameter, field in _QUERY.items():
        if parameter in request.query and field in fields:
            value = request.query[parameter]
            setattr(message, field, int(value) if field == "page_size" else value)
    if "updateMask" in request.query and "update_mask" in fields:
        mask = field_mask_pb2.FieldMask()
        mask.FromJsonString(request.query["updateMask"])
        message.update_mask.CopyFrom(mask)


async def json_body(request: web.Request) -> Any:
    """The decoded body; None if it is empty."""
    content = await request.read()
    if not content:
        return None
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise api_errors.invalid_field(f"Invalid JSON payload received. {error}") from None


def guard(token: Token) -> Any:
    """A middleware that demands the token and puts API errors into Google's JSON form."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if not token.allows(request.headers.get("Authorization", "")):
                raise api_errors.unauthenticated()
            return await handler(request)
        except api_errors.ApiError as error:
            return error_response(error)
        except web.HTTPException as error:
            return web.json_response(
                {"error": {"code": error.status, "message": error.reason}}, status=error.status
            )

    return check


def error_response(api_error: api_errors.ApiError) -> web.Response:
    name, status = api_errors.CODES[api_error.code]
    error: dict[str, Any] = {"code": status, "message": api_error.message, "status": name}
    details = json_format.MessageToDict(messages.status_message(api_error)).get("details")
    if details:
        error["details"] = details
    return web.json_response({"error": error}, status=status)
