"""The calls of Compute Engine that TPUs need: Google's names of them, the faults that hit them, and
their JSON bodies. What Compute Engine does not know, it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from .compute_fields import FIELDS
from .rest import json_body

Handler = Callable[[web.Request], Awaitable[web.Response]]

_GROUPS = "insert get list patch resize delete listManagedInstances listErrors recreateInstances"
#: What faults may name.
COMPUTE_METHODS = frozenset(
    f"{collection}.{call}"
    for collection, calls in {
        "machineTypes": "get list aggregatedList",
        "images": "get getFromFamily",
        "instances": "insert get list aggregatedList delete setMetadata setLabels setScheduling "
        "getGuestAttributes stop start reportHostAsFaulty performMaintenance "
        "simulateMaintenanceEvent bulkInsert",
        "resourcePolicies": "insert get list aggregatedList delete",
        "instanceTemplates": "insert get list aggregatedList delete",
        "regionInstanceTemplates": "insert get list delete",
        "instanceGroupManagers": f"aggregatedList {_GROUPS}",
        "regionInstanceGroupManagers": _GROUPS,
        "instanceGroups": "list",
        "autoscalers": "list",
        "reservations": "insert get list aggregatedList delete",
        "futureReservations": "insert get list aggregatedList delete cancel",
        "zones": "get list",
        "advice": "capacity calendarMode",
    }.items()
    for call in calls.split()
)


class ComputeRoutes:
    """Adds calls to *app*."""

    def __init__(self, app: web.Application, engine: Engine) -> None:
        self._app = app
        self._faults = engine.model.faults

    def add(self, name: str, method: str, path: str, handler: Handler) -> None:
        assert name in COMPUTE_METHODS, name
        faults = self._faults

        async def call(request: web.Request) -> web.Response:
            zone = request.match_info.get("zone", "")
            if silent := faults.consume("silent", zone, name):
                await faults.wait_silence(silent)
            if failing := faults.consume("error", zone, name):
                raise failing.error()
            answer = await handler(request)
            if lost := faults.consume("lost-answer", zone, name):
                raise lost.error()
            return answer

        self._app.router.add_route(method, path, call)


_UNKNOWN = "Invalid JSON payload received. Unknown name"


async def body_of(request: web.Request, message: str) -> dict[str, Any]:
    """The body of *request*, which is a *message* of `FIELDS`; ApiError for anything else."""
    body = await json_body(request)
    if body is None:
        raise api_errors.required_field("resource")
    if violations := [*_check(body, message, "resource")]:
        raise api_errors.invalid_payload(violations)
    assert isinstance(body, dict)
    return body


def _check(value: Any, kind: str, path: str) -> Iterator[tuple[str, str]]:
    if kind == "any" or value is None:
        return
    if kind.endswith("[]"):
        if not isinstance(value, list):
            yield path, _invalid(path, kind, value)
            return
        for number, item in enumerate(value):
            yield from _check(item, kind[:-2], f"{path}[{number}]")
    elif kind in FIELDS or kind == "map":
        if not isinstance(value, dict):
            yield path, _invalid(path, kind, value)
            return
        fields = FIELDS.get(kind)
        for name, item in value.items():
            if fields is None:
                yield from _check(item, "str", f"{path}[{name}]")
            elif name in fields:
                yield from _check(item, fields[name], f"{path}.{name}")
            else:
                yield path, f"{_UNKNOWN} \"{name}\" at '{path}': Cannot find field."
    elif not _fits(value, kind):
        yield path, _invalid(path, kind, value)


def _fits(value: Any, kind: str) -> bool:
    if kind in ("str", "bool"):
        return isinstance(value, str if kind == "str" else bool)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        float(value) if kind == "num" else int(value)
    except ValueError:
        return False
    return True


def _invalid(path: str, kind: str, value: Any) -> str:
    shown = "Starting an object" if isinstance(value, dict | list) else json.dumps(value)
    names = {"str": "TYPE_STRING", "bool": "TYPE_BOOL", "int": "TYPE_INT64", "num": "TYPE_DOUBLE"}
    return f"Invalid value at '{path}' ({names.get(kind, kind)}), {shown}"
