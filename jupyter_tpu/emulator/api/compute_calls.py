"""The calls of Compute Engine that TPUs need, by Google's names of them, and the faults that hit
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from ..engine import Engine

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


class ComputeCalls:
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
