"""Compute Engine's instances over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..instances import InstanceEngine
from ..model import api_errors
from ..model.guest_attributes import published
from ..model.instance_records import ComputeOperation, InstanceRecord
from ..model.instances import check_zone, fingerprint
from ..model.machine_types import compute_zones
from ..model.operations import rfc3339
from .compute_calls import ComputeRoutes, body_of
from .compute_operations import ROOT, full_link, link, page, shown
from .machine_types import aggregated

#: (project, zone, name, request id) → the operation that a call has begun.
Begin = Callable[[str, str, str, str], ComputeOperation]


def add_routes(app: web.Application, engine: Engine, machines: InstanceEngine) -> None:
    """``zones/Z/instances``, their calls, and ``aggregated/instances``."""
    calls, instances, model = ComputeRoutes(app, engine), machines.instances, engine.model
    collection = f"{ROOT}/zones/{{zone}}/instances"

    def find(request: web.Request) -> InstanceRecord:
        info = request.match_info
        return instances.get(info["project"], info["zone"], info["name"])

    def repeated(request: web.Request, name: str, kind: str) -> ComputeOperation | None:
        info = request.match_info
        target = f"projects/{info['project']}/zones/{info['zone']}/instances/{name}"
        return model.compute_operations.repeated(request.query.get("requestId", ""), target, kind)

    def answer(request: web.Request, operation: ComputeOperation) -> web.Response:
        return web.json_response(shown(request, machines.begin(operation)))

    async def insert(request: web.Request) -> web.Response:
        body, info = await body_of(request, "Instance"), request.match_info
        operation = repeated(request, str(body.get("name")), "insert")
        if operation is None:
            id = request.query.get("requestId", "")
            operation = instances.insert(info["project"], info["zone"], body, id)
        return answer(request, operation)

    def begins(kind: str, begin: Begin) -> Callable[[web.Request], Any]:
        async def call(request: web.Request) -> web.Response:
            info, id = request.match_info, request.query.get("requestId", "")
            operation = repeated(request, info["name"], kind)
            if operation is None:
                operation = begin(info["project"], info["zone"], info["name"], id)
            return answer(request, operation)

        return call

    def sets(
        kind: str, message: str, change: Callable[[InstanceRecord, dict[str, Any]], None]
    ) -> Callable[[web.Request], Any]:
        async def call(request: web.Request) -> web.Response:
            body, instance = await body_of(request, message), find(request)
            operation = repeated(request, instance.name, kind)
            if operation is None:
                change(instance, body)
                id = request.query.get("requestId", "")
                operation = instances.changed(kind, instance, id)
                await machines.set_users(instance)
            return answer(request, operation)

        return call

    async def get(request: web.Request) -> web.Response:
        return web.json_response(_instance(request, find(request)))

    async def listed(request: web.Request) -> web.Response:
        info = request.match_info
        check_zone(info["project"], info["zone"])
        records = instances.list_in(info["project"], info["zone"])
        return page(request, "instance", [_instance(request, record) for record in records])

    async def list_all(request: web.Request) -> web.Response:
        by_zone: dict[str, list[dict[str, Any]]] = {f"zones/{zone}": [] for zone in compute_zones()}
        for record in instances.list_in(request.match_info["project"]):
            by_zone[f"zones/{record.zone}"].append(_instance(request, record))
        silent = model.faults.unreachable_zones()
        places = {place for place in by_zone if silent & {None, place.removeprefix("zones/")}}
        return aggregated(request, "instance", "instances", by_zone, places)

    async def guest_attributes(request: web.Request) -> web.Response:
        instance, query = find(request), request.query.get("queryPath", "")
        items = published(model.faults, instance, instance.host, query)
        if not items or not model.publishes(instance):
            raise api_errors.ApiError(
                api_errors.NOT_FOUND,
                f"The resource '{query}' of type 'Guest Attribute' was not found.",
            )
        values = [{"namespace": n, "key": key, "value": value} for n, key, value in items]
        return web.json_response(
            {
                "kind": "compute#guestAttributes",
                "queryPath": query,
                "queryValue": {"items": values},
                "selfLink": str(request.url),
            }
        )

    async def restarts(
        request: web.Request, kind: str, begin: Callable[[InstanceRecord, str], ComputeOperation]
    ) -> web.Response:
        """Calls that end a host, and have it started again."""
        instance = find(request)
        operation = repeated(request, instance.name, kind)
        if operation is None:
            operation = begin(instance, request.query.get("requestId", ""))
            await machines.restart(instance)
        return answer(request, operation)

    async def report_faulty(request: web.Request) -> web.Response:
        body = await body_of(request, "InstancesReportHostAsFaultyRequest")
        return await restarts(
            request,
            "reportHostAsFaulty",
            lambda instance, id: instances.report_faulty(instance, body, id),
        )

    async def perform_maintenance(request: web.Request) -> web.Response:
        return await restarts(request, "performMaintenance", instances.perform_maintenance)

    async def simulate_maintenance(request: web.Request) -> web.Response:
        return await restarts(request, "simulateMaintenanceEvent", instances.simulate_maintenance)

    async def bulk_insert(request: web.Request) -> web.Response:
        await body_of(request, "BulkInsertInstanceResource")
        raise api_errors.compute_invalid(  # our wording: Google makes no slice of such instances
            "The emulator does not insert instances with TPUs in bulk. Use a managed instance "
            "group in BULK mode."
        )

    one = f"{collection}/{{name}}"
    for kind, handler in (
        ("reportHostAsFaulty", report_faulty),
        ("performMaintenance", perform_maintenance),
        ("simulateMaintenanceEvent", simulate_maintenance),
    ):
        calls.add(f"instances.{kind}", "POST", f"{one}/{kind}", handler)
    calls.add("instances.bulkInsert", "POST", f"{collection}/bulkInsert", bulk_insert)
    calls.add("instances.insert", "POST", collection, insert)
    calls.add("instances.list", "GET", collection, listed)
    calls.add("instances.get", "GET", one, get)
    calls.add("instances.delete", "DELETE", one, begins("delete", instances.delete))
    calls.add("instances.stop", "POST", f"{one}/stop", begins("stop", instances.stop))
    calls.add("instances.start", "POST", f"{one}/start", begins("start", instances.start))
    calls.add("instances.getGuestAttributes", "GET", f"{one}/getGuestAttributes", guest_attributes)
    calls.add("instances.aggregatedList", "GET", f"{ROOT}/aggregated/instances", list_all)
    for name, message, change in (
        ("setMetadata", "Metadata", instances.set_metadata),
        ("setLabels", "InstancesSetLabelsRequest", instances.set_labels),
        ("setScheduling", "Scheduling", instances.set_scheduling),
    ):
        calls.add(f"instances.{name}", "POST", f"{one}/{name}", sets(name, message, change))


def _instance(request: web.Request, instance: InstanceRecord) -> dict[str, Any]:
    """compute.Instance."""
    zone = f"zones/{instance.zone}"
    project = link(request, "")
    items = dict(instance.metadata)
    if instance.group:
        items["created-by"] = instance.group
    host = instance.host
    interfaces = []
    for number, asked in enumerate(instance.body["networkInterfaces"]):
        region = instance.zone.rpartition("-")[0]
        network, subnetwork = instance.network, instance.subnetwork
        interface = {
            "kind": "compute#networkInterface",
            "name": f"nic{number}",
            "network": f"{project}global/networks/{network}",
            "subnetwork": f"{project}regions/{region}/subnetworks/{subnetwork}",
            **{key: value for key, value in asked.items() if key in ("nicType", "stackType")},
        }
        if number == 0 and instance.status != "PENDING":
            interface["networkIP"] = host.internal
            if asked.get("accessConfigs"):
                access = {"kind": "compute#accessConfig", "name": "External NAT"}
                nat = {"natIP": host.external} if host.external else {}
                interface["accessConfigs"] = [{**access, "type": "ONE_TO_ONE_NAT", **nat}]
        interfaces.append(interface)
    resource: dict[str, Any] = {"scheduling": {}}
    if instance.status == "RUNNING":
        place = {"cluster": "emulated", "block": "0", "host": f"{host.internal}-{instance.moves}"}
        resource["physicalHostTopology"] = place
    if instance.ends_at:
        until = rfc3339(datetime.fromtimestamp(instance.ends_at, UTC))
        resource["scheduling"]["terminationTimestamp"] = until
    if maintenance := instance.upcoming_maintenance:
        resource["upcomingMaintenance"] = {
            "type": maintenance.kind,
            "maintenanceStatus": maintenance.status,
            "canReschedule": maintenance.can_reschedule,
            "windowStartTime": maintenance.start,
            "windowEndTime": maintenance.end,
        }
    if instance.tier == "reserved":
        consumed = {"consumedReservation": instance.reservation_name}
        resource["reservationConsumptionInfo"] = consumed
    kept = ("disks", "serviceAccounts", "reservationAffinity", "shieldedInstanceConfig", "params")
    model = instance.provisioning_model
    return {
        "kind": "compute#instance",
        "id": instance.id,
        "creationTimestamp": instance.created,
        "name": instance.name,
        "description": instance.description,
        "status": instance.status,
        "zone": link(request, zone),
        "machineType": link(request, f"{zone}/machineTypes/{instance.type}"),
        "labels": instance.labels,
        "labelFingerprint": fingerprint(instance.labels),
        "metadata": {
            "kind": "compute#metadata",
            "fingerprint": fingerprint(instance.metadata),
            "items": [{"key": key, "value": value} for key, value in items.items()],
        },
        "tags": {"items": instance.tags, "fingerprint": fingerprint({})},
        "networkInterfaces": interfaces,
        "scheduling": {**(instance.body.get("scheduling") or {}), "provisioningModel": model},
        "resourceStatus": resource,
        "deletionProtection": bool(instance.body.get("deletionProtection")),
        "selfLink": full_link(request, instance.path),
        **{key: instance.body[key] for key in kept if key in instance.body},
    }
