"""The REST/JSON transport: a table from method and path to the API's calls, in protobuf's JSON."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from google.protobuf import json_format

from ..model import api_errors
from ..state_folder import EmulatorToken
from . import messages, strict
from .calls import LOCATIONS, OPERATIONS, Api, Calls
from .schema import VERSIONS

_P = r"projects/[^/:]+"
_L = rf"{_P}/locations/[^/:]+"
_N = rf"{_L}/nodes/[^/:]+"
_Q = rf"{_L}/queuedResources/[^/:]+"
_O = rf"{_L}/operations/[^/:]+"
#: The service of a version.
TPU = "Tpu"

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
    ("POST", _N, "performMaintenance", TPU, "PerformMaintenance", "name", "*"),
    ("POST", _N, "simulateMaintenanceEvent", TPU, "SimulateMaintenanceEvent", "name", "*"),
    ("GET", rf"{_L}/queuedResources", "", TPU, "ListQueuedResources", "parent", ""),
    (
        *("POST", rf"{_L}/queuedResources", "", TPU),
        *("CreateQueuedResource", "parent", "queued_resource"),
    ),
    ("GET", _Q, "", TPU, "GetQueuedResource", "name", ""),
    ("DELETE", _Q, "", TPU, "DeleteQueuedResource", "name", ""),
    ("POST", _Q, "reset", TPU, "ResetQueuedResource", "name", "*"),
    (
        *("POST", _Q, "performMaintenanceQueuedResource", TPU),
        *("PerformMaintenanceQueuedResource", "name", "*"),
    ),
    ("GET", rf"{_L}/reservations", "", TPU, "ListReservations", "parent", ""),
    ("POST", _L, "generateServiceIdentity", TPU, "GenerateServiceIdentity", "parent", "*"),
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

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application, api: Api) -> None:
    """The Cloud TPU API under ``/v2/`` and ``/v2alpha1/``."""

    async def answer(request: web.Request) -> web.Response:
        calls = api.version(request.match_info.get("version", "v2"))
        assert calls is not None
        path, _, verb = request.match_info["path"].partition(":")
        message = await _call(calls, request, path, verb, await json_body(request))
        pool = calls.messages.schema.pool
        return web.json_response(json_format.MessageToDict(message, descriptor_pool=pool))

    # gcloud asks v1 for the locations, which are the same in all versions.
    app.router.add_get(f"/v1/{{path:{_P}/locations(?:/[^/:]+)?}}", answer)
    app.router.add_route("*", f"/{{version:{'|'.join(VERSIONS)}}}/{{path:projects/.+}}", answer)


async def _call(calls: Calls, request: web.Request, path: str, verb: str, body: Any) -> Any:
    schema = calls.messages.schema
    for method, pattern, route_verb, service, name, path_field, body_field in _COMPILED:
        if (method, route_verb) != (request.method, verb) or not pattern.fullmatch(path):
            continue
        full_service = schema.service if service == TPU else service
        if (request_class := calls.request_class(full_service, name)) is None:
            continue
        message = request_class()
        if body_field == "*":
            strict.fill(message, {} if body is None else body, "", schema.pool)
        elif body_field and body is not None:
            strict.fill(getattr(message, body_field), body, body_field, schema.pool)
        strict.fill_from_query(message, list(request.query.items()))
        if path_field == "node.name":
            message.node.name = path
        else:
            setattr(message, path_field, path)
        return await calls.call(full_service, name, message)
    raise api_errors.not_found(f"{request.method} {request.path}")


async def json_body(request: web.Request) -> Any:
    """The decoded body; None if it is empty."""
    content = await request.read()
    if not content:
        return None
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise api_errors.invalid_field(f"Invalid JSON payload received. {error}") from None


def guard(token: EmulatorToken, also: Callable[[web.Request], bool] = lambda _: False) -> Any:
    """A middleware that demands the token and puts API errors into Google's JSON form.

    also(request): whether it is allowed without that token.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if not token.allows(request.headers.get("Authorization", "")) and not also(request):
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
    name, status = api_errors.CODES[api_error.code][0], api_error.status
    error: dict[str, Any] = {"code": status, "message": api_error.message, "status": name}
    details = json_format.MessageToDict(messages.status_message(api_error)).get("details")
    if details:
        error["details"] = details
    if reason := api_error.reason:
        error["errors"] = [{"message": api_error.message, "domain": "global", "reason": reason}]
    if status == 304:  # has no body
        return web.Response(status=status)
    return web.json_response({"error": error}, status=status)
