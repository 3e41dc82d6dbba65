"""Compute Engine's workload policies, instance templates and managed instance groups over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from ..engine import Engine
from ..instances import InstanceEngine
from ..model import api_errors
from ..model.groups import EmulatedGroups
from ..model.instance_records import ComputeOperation, GroupRecord, MemberRecord
from ..model.machine_types import compute_zones
from ..model.networks import regions
from .compute_calls import ComputeRoutes, body_of
from .compute_operations import PLACES, ROOT, full_link, link, page, place_of, shown
from .machine_types import aggregated

Body = dict[str, Any]
Make = Callable[[str], ComputeOperation]  # of a request id

#: (collection in the path, its place, Google's name of the calls, the message, kind)
_WORKLOADS = (
    ("resourcePolicies", PLACES[1], "resourcePolicies", "ResourcePolicy", "resourcePolicy"),
    ("instanceTemplates", PLACES[0], "instanceTemplates", "InstanceTemplate", "instanceTemplate"),
    (
        *("instanceTemplates", PLACES[1], "regionInstanceTemplates"),
        *("InstanceTemplate", "instanceTemplate"),
    ),
)
#: Fields of currentInstanceStatuses, but for "running", which is the status in lower case.
_STATUSES = ("PENDING", "PROVISIONING", "STAGING", "RUNNING", "STOPPING", "TERMINATED")
#: currentAction → its field in currentActions.
_ACTIONS = {
    "NONE": "none",
    "CREATING": "creating",
    "RECREATING": "recreating",
    "DELETING": "deleting",
}


def add_routes(app: web.Application, engine: Engine, machines: InstanceEngine) -> None:
    """``resourcePolicies``, ``instanceTemplates``, ``instanceGroupManagers`` and their lists."""
    calls, groups = ComputeRoutes(app, engine), machines.groups
    operations = engine.model.compute_operations

    def begun(request: web.Request, target: str, kind: str, make: Make) -> web.Response:
        """The operation that *make* begins, unless *request* repeats it."""
        id = request.query.get("requestId", "")
        operation = operations.repeated(id, target, kind) or make(id)
        return web.json_response(shown(request, machines.begin(operation)))

    for collection, place, name, message, kind in _WORKLOADS:
        _add_workload(calls, groups, begun, (collection, place, name, message, kind))

    async def list_all_workloads(request: web.Request) -> web.Response:
        collection, project = request.match_info["collection"], request.match_info["project"]
        kind = next(workload[4] for workload in _WORKLOADS if workload[0] == collection)
        places = [f"regions/{region}" for region in regions()]
        if collection == "instanceTemplates":
            places.insert(0, "global")
        by_place = {
            place: [
                _workload(request, place, collection, kind, body)
                for body in groups.workloads.list(collection, project, place)
            ]
            for place in places
        }
        return aggregated(request, kind, collection, by_place)

    for collection in ("resourcePolicies", "instanceTemplates"):
        path = f"{ROOT}/aggregated/{{collection:{collection}}}"
        calls.add(f"{collection}.aggregatedList", "GET", path, list_all_workloads)
    for place in PLACES[1:]:
        _add_groups(calls, groups, begun, place)

    async def list_all_groups(request: web.Request) -> web.Response:
        places = [f"zones/{zone}" for zone in compute_zones()]
        places += [f"regions/{region}" for region in regions()]
        by_place: dict[str, list[Body]] = {place: [] for place in places}
        for group in groups.list_in(request.match_info["project"]):
            by_place[group.place].append(_group(request, groups, group))
        silent = engine.model.faults.unreachable_zones()
        unreachable = {key for key in by_place if silent & {None, key.removeprefix("zones/")}}
        kind = "instanceGroupManager"
        return aggregated(request, kind, f"{kind}s", by_place, unreachable)

    path = f"{ROOT}/aggregated/instanceGroupManagers"
    calls.add("instanceGroupManagers.aggregatedList", "GET", path, list_all_groups)

    async def no_resize_requests(request: web.Request) -> web.Response:
        raise api_errors.compute_invalid(
            "Creating resize requests for managed instance group with TPU is not allowed"
        )

    one = f"{ROOT}/{PLACES[2]}/instanceGroupManagers/{{name}}"
    app.router.add_post(f"{one}/resizeRequests", no_resize_requests)


def _add_workload(
    calls: ComputeRoutes,
    groups: EmulatedGroups,
    begun: Callable[[web.Request, str, str, Make], web.Response],
    which: tuple[str, str, str, str, str],
) -> None:
    collection, place, name, message, kind = which
    workloads, operations = groups.workloads, groups.operations

    def target_of(request: web.Request, name: str) -> str:
        return f"projects/{request.match_info['project']}/{place_of(request)}/{collection}/{name}"

    def done(kind: str, target: str, target_id: str, request_id: str) -> ComputeOperation:
        operation = operations.begin(kind, target, target_id, request_id=request_id)
        operations.end(operation)
        return operation

    async def insert(request: web.Request) -> web.Response:
        body = await body_of(request, message)
        target = target_of(request, str(body.get("name")))

        def make(id: str) -> ComputeOperation:
            project = request.match_info["project"]
            made = workloads.insert(collection, project, place_of(request), body)
            return done("insert", target, made["id"], id)

        return begun(request, target, "insert", make)

    async def delete(request: web.Request) -> web.Response:
        info = request.match_info
        target = target_of(request, info["name"])

        def make(id: str) -> ComputeOperation:
            workloads.delete(collection, info["project"], place_of(request), info["name"])
            return done("delete", target, "", id)

        return begun(request, target, "delete", make)

    async def get(request: web.Request) -> web.Response:
        info, at = request.match_info, place_of(request)
        body = workloads.get(collection, info["project"], at, info["name"])
        return web.json_response(_workload(request, at, collection, kind, body))

    async def listed(request: web.Request) -> web.Response:
        at = place_of(request)
        bodies = workloads.list(collection, request.match_info["project"], at)
        return page(
            request, kind, [_workload(request, at, collection, kind, body) for body in bodies]
        )

    path = f"{ROOT}/{place}/{collection}"
    calls.add(f"{name}.insert", "POST", path, insert)
    calls.add(f"{name}.list", "GET", path, listed)
    calls.add(f"{name}.get", "GET", f"{path}/{{name}}", get)
    calls.add(f"{name}.delete", "DELETE", f"{path}/{{name}}", delete)


def _add_groups(
    calls: ComputeRoutes,
    groups: EmulatedGroups,
    begun: Callable[[web.Request, str, str, Make], web.Response],
    place: str,
) -> None:
    prefix = "instanceGroupManagers" if "zone" in place else "regionInstanceGroupManagers"

    def key(request: web.Request) -> tuple[str, str, str]:
        info = request.match_info
        return info["project"], place_of(request), info["name"]

    def target_of(request: web.Request, name: str) -> str:
        at = f"projects/{request.match_info['project']}/{place_of(request)}"
        return f"{at}/instanceGroupManagers/{name}"

    async def insert(request: web.Request) -> web.Response:
        body = await body_of(request, "InstanceGroupManager")
        project, at = request.match_info["project"], place_of(request)
        return begun(
            request,
            target_of(request, str(body.get("name"))),
            "insert",
            lambda id: groups.insert(project, at, body, id),
        )

    async def resize(request: web.Request) -> web.Response:
        text = request.query.get("size", "")
        if not text.isdecimal():
            raise api_errors.required_field("size")
        target = target_of(request, request.match_info["name"])
        return begun(
            request, target, "resize", lambda id: groups.resize(*key(request), int(text), id)
        )

    async def patch(request: web.Request) -> web.Response:
        body = await body_of(request, "InstanceGroupManager")
        target = target_of(request, request.match_info["name"])
        return begun(request, target, "patch", lambda id: groups.patch(*key(request), body, id))

    async def recreate(request: web.Request) -> web.Response:
        body = await body_of(request, "InstanceGroupManagersRecreateInstancesRequest")
        names = {str(url).rpartition("/")[2] for url in body.get("instances") or ()}
        target = target_of(request, request.match_info["name"])
        return begun(
            request,
            target,
            "recreateInstances",
            lambda id: groups.recreate(*key(request), names, id),
        )

    async def delete(request: web.Request) -> web.Response:
        target = target_of(request, request.match_info["name"])
        return begun(request, target, "delete", lambda id: groups.delete(*key(request), id))

    async def get(request: web.Request) -> web.Response:
        return web.json_response(_group(request, groups, groups.get(*key(request))))

    async def listed(request: web.Request) -> web.Response:
        group_records = groups.list_in(request.match_info["project"], place_of(request))
        items = [_group(request, groups, group) for group in group_records]
        return page(request, "instanceGroupManager", items)

    async def list_members(request: web.Request) -> web.Response:
        group = groups.get(*key(request))
        members = [_member(request, groups, group, member) for member in group.members]
        return web.json_response({"managedInstances": members})

    async def list_errors(request: web.Request) -> web.Response:
        group = groups.get(*key(request))
        items = [
            {
                "timestamp": error["timestamp"],
                "error": error["error"],
                "instanceActionDetails": {
                    "action": "CREATING",
                    "instance": link(request, f"zones/{group.zone}/instances/{error['name']}"),
                },
            }
            for error in group.errors
        ]
        return web.json_response({"items": items})

    async def list_sizes(request: web.Request) -> web.Response:
        """What gcloud asks for to show how many instances a group has."""
        group_records = groups.list_in(request.match_info["project"], place_of(request))
        return page(
            request,
            "instanceGroup",
            [_size(request, groups, group_record) for group_record in group_records],
        )

    async def list_autoscalers(request: web.Request) -> web.Response:
        """None, since groups in bulk mode have none. gcloud asks."""
        return page(request, "autoscaler", [])

    if "zone" in place:
        calls.add("instanceGroups.list", "GET", f"{ROOT}/{place}/instanceGroups", list_sizes)
        calls.add("autoscalers.list", "GET", f"{ROOT}/{place}/autoscalers", list_autoscalers)
    path = f"{ROOT}/{place}/instanceGroupManagers"
    one = f"{path}/{{name}}"
    calls.add(f"{prefix}.insert", "POST", path, insert)
    calls.add(f"{prefix}.list", "GET", path, listed)
    calls.add(f"{prefix}.get", "GET", one, get)
    calls.add(f"{prefix}.patch", "PATCH", one, patch)
    calls.add(f"{prefix}.delete", "DELETE", one, delete)
    calls.add(f"{prefix}.recreateInstances", "POST", f"{one}/recreateInstances", recreate)
    calls.add(f"{prefix}.resize", "POST", f"{one}/resize", resize)
    listing = f"{one}/listManagedInstances"
    calls.add(f"{prefix}.listManagedInstances", "POST", listing, list_members)
    calls.add(f"{prefix}.listErrors", "GET", f"{one}/listErrors", list_errors)


def _workload(request: web.Request, place: str, collection: str, kind: str, body: Body) -> Body:
    links = {"selfLink": link(request, f"{place}/{collection}/{body['name']}")}
    if place != "global":
        links["region"] = link(request, place)
    return {"kind": f"compute#{kind}", **body, **links}


def _group(request: web.Request, groups: EmulatedGroups, group: GroupRecord) -> Body:
    """compute.InstanceGroupManager."""
    actions = dict.fromkeys(_ACTIONS.values(), 0)
    statuses = {status.lower(): 0 for status in _STATUSES} | {"nonExistent": 0}
    for member in group.members:
        actions[_ACTIONS[groups.action(group, member)]] += 1
        instance = groups.instance(group, member)
        statuses[instance.status.lower() if instance else "nonExistent"] += 1
    status: Body = {
        "isStable": groups.is_stable(group) and not group.deleting,
        "versionTarget": {"isReached": True},
        "currentInstanceStatuses": statuses,
    }
    if group.is_bulk:
        waiting: Body = {"inProgress": groups.is_waiting(group)}
        if group.checked:
            errors = next((member.errors for member in group.members if member.errors), [])
            shown_errors = {"error": {"errors": errors}} if errors else {}
            waiting["lastProgressCheck"] = {"timestamp": group.checked, **shown_errors}
        status["bulkInstanceOperation"] = waiting
    if group.topology_state:
        status["appliedAcceleratorTopologies"] = [
            {
                "acceleratorTopology": group.topology,
                "state": group.topology_state,
                "stateDetails": {"timestamp": group.topology_since},
            }
        ]
    template = full_link(request, group.template)
    body = {
        **group.body,
        "kind": "compute#instanceGroupManager",
        "id": group.id,
        "creationTimestamp": group.created,
        "instanceTemplate": template,
        "versions": [{"instanceTemplate": template, "targetSize": {"calculated": group.size}}],
        "instanceGroup": link(request, f"{group.place}/instanceGroups/{group.name}"),
        "targetSize": group.size,
        "currentActions": actions,
        "status": status,
        "selfLink": full_link(request, group.path),
        group.place.partition("/")[0][:-1]: link(request, group.place),
    }
    if group.policy:
        body["resourcePolicies"] = {"workloadPolicy": full_link(request, group.policy)}
    return body


def _size(request: web.Request, groups: EmulatedGroups, group: GroupRecord) -> Body:
    """compute.InstanceGroup."""
    records = [groups.instance(group, member) for member in group.members]
    return {
        "kind": "compute#instanceGroup",
        "name": group.name,
        "size": sum(record is not None for record in records),
        "zone": link(request, group.place),
        "selfLink": link(request, f"{group.place}/instanceGroups/{group.name}"),
    }


def _member(
    request: web.Request, groups: EmulatedGroups, group: GroupRecord, member: MemberRecord
) -> Body:
    """compute.ManagedInstance."""
    instance = groups.instance(group, member)
    body: Body = {
        "name": member.name,
        "instance": full_link(request, group.instance_path(member)),
        "currentAction": groups.action(group, member),
        "targetStatus": "RUNNING",
        "version": {"instanceTemplate": full_link(request, group.template)},
    }
    if instance is not None:
        body |= {"id": instance.id, "instanceStatus": instance.status}
    if member.errors:
        body["lastAttempt"] = {"errors": {"errors": member.errors}}
    return body
