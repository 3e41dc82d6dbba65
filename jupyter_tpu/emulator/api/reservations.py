"""Compute Engine's reservations, future reservations, zones and advice about capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..instances import InstanceEngine
from ..model import api_errors
from ..model.instance_records import ComputeOperation
from ..model.instances import check_zone
from ..model.machine_types import compute_zones
from ..model.reservations import EmulatedReservations
from .compute_calls import ComputeRoutes, body_of
from .compute_operations import ROOT, link, page, shown
from .machine_types import aggregated

Body = dict[str, Any]


def add_routes(app: web.Application, engine: Engine, machines: InstanceEngine) -> None:
    calls, reservations = ComputeRoutes(app, engine), EmulatedReservations(engine.model)
    operations = engine.model.compute_operations
    zonal = f"{ROOT}/zones/{{zone}}"

    def begun(
        request: web.Request, collection: str, name: str, kind: str, change: Callable[[], None]
    ) -> web.Response:
        """The operation of *change*, which is done at once, unless *request* repeats it."""
        info, id = request.match_info, request.query.get("requestId", "")
        target = f"projects/{info['project']}/zones/{info['zone']}/{collection}/{name}"
        operation: ComputeOperation | None = operations.repeated(id, target, kind)
        if operation is None:
            change()
            operation = operations.begin(kind, target, request_id=id)
            operations.end(operation)
        return web.json_response(shown(request, machines.begin(operation)))

    def add(collection: str, kind: str, message: str, model: dict[str, Callable[..., Any]]) -> None:
        def resource(request: web.Request, body: Body) -> Body:
            zone = str(body["zone"])
            path = f"zones/{zone}/{collection}/{body['name']}"
            hidden = ("cancelled",)
            return {
                **{key: value for key, value in body.items() if key not in hidden},
                "kind": f"compute#{kind}",
                "zone": link(request, f"zones/{zone}"),
                "selfLink": link(request, path),
            }

        def where(request: web.Request) -> tuple[str, str, str]:
            info = request.match_info
            return info["project"], info["zone"], info["name"]

        async def insert(request: web.Request) -> web.Response:
            body, info = await body_of(request, message), request.match_info
            make = model["insert"]
            return begun(
                request,
                collection,
                str(body.get("name")),
                "insert",
                lambda: make(info["project"], info["zone"], body),
            )

        async def get(request: web.Request) -> web.Response:
            return web.json_response(resource(request, model["get"](*where(request))))

        async def listed(request: web.Request) -> web.Response:
            info = request.match_info
            check_zone(info["project"], info["zone"])
            items = model["list"](info["project"], info["zone"])
            return page(request, kind, [resource(request, item) for item in items])

        async def list_all(request: web.Request) -> web.Response:
            places: dict[str, list[Body]] = {f"zones/{zone}": [] for zone in compute_zones()}
            for reservation in model["list"](request.match_info["project"]):
                places[f"zones/{reservation['zone']}"].append(resource(request, reservation))
            return aggregated(request, kind, collection, places)

        def changes(verb: str) -> Callable[[web.Request], Any]:
            async def change(request: web.Request) -> web.Response:
                name = request.match_info["name"]
                act = model[verb]
                return begun(request, collection, name, verb, lambda: act(*where(request)))

            return change

        one = f"{zonal}/{collection}/{{name}}"
        calls.add(f"{collection}.insert", "POST", f"{zonal}/{collection}", insert)
        calls.add(f"{collection}.list", "GET", f"{zonal}/{collection}", listed)
        calls.add(f"{collection}.get", "GET", one, get)
        calls.add(f"{collection}.delete", "DELETE", one, changes("delete"))
        path = f"{ROOT}/aggregated/{collection}"
        calls.add(f"{collection}.aggregatedList", "GET", path, list_all)
        if "cancel" in model:
            calls.add(f"{collection}.cancel", "POST", f"{one}/cancel", changes("cancel"))

    add(
        "reservations",
        "reservation",
        "Reservation",
        {
            "insert": reservations.insert,
            "get": reservations.get,
            "list": reservations.list_in,
            "delete": reservations.delete,
        },
    )
    add(
        "futureReservations",
        "futureReservation",
        "FutureReservation",
        {
            "insert": reservations.insert_future,
            "get": reservations.get_future,
            "list": reservations.list_future,
            "delete": reservations.delete_future,
            "cancel": reservations.cancel_future,
        },
    )

    async def get_zone(request: web.Request) -> web.Response:
        info = request.match_info
        check_zone(info["project"], info["zone"])
        return web.json_response(_zone(request, info["zone"]))

    async def list_zones(request: web.Request) -> web.Response:
        return page(request, "zone", [_zone(request, zone) for zone in compute_zones()])

    calls.add("zones.get", "GET", zonal, get_zone)
    calls.add("zones.list", "GET", f"{ROOT}/zones", list_zones)

    async def no_advice(request: web.Request) -> web.Response:
        """As users have seen it: not for everybody, and not for TPUs."""
        kind = request.path.rpartition("/")[2]
        message = {"capacity": "CapacityAdviceRequest", "calendarMode": "CalendarModeAdviceRequest"}
        await body_of(request, message[kind])
        if kind == "capacity":
            raise api_errors.permission("compute.advice.capacity", request.match_info["project"])
        raise api_errors.compute_invalid(  # our wording
            "Advice about calendar mode is not available for TPUs."
        )

    advice = f"{ROOT}/regions/{{region}}/advice"
    calls.add("advice.capacity", "POST", f"{advice}/capacity", no_advice)
    calls.add("advice.calendarMode", "POST", f"{advice}/calendarMode", no_advice)


def _zone(request: web.Request, zone: str) -> Body:
    return {
        "kind": "compute#zone",
        "name": zone,
        "description": zone,
        "status": "UP",
        "region": link(request, f"regions/{zone.rpartition('-')[0]}"),
        "selfLink": link(request, f"zones/{zone}"),
    }
