"""Compute Engine's managed instance groups: in bulk mode, all instances or none are made.

The operation that makes a group is DONE long before it has instances; `step` makes them, and makes
those again that are missing. A group with a workload policy is one slice, of the policy's topology:
ACTIVATING, ACTIVE, INCOMPLETE while an instance does not run, REACTIVATING.
"""

from __future__ import annotations

from typing import Any

from ...catalog import AcceleratorType
from . import api_errors
from .instance_records import ComputeOperation, GroupRecord, InstanceRecord, MemberRecord
from .instance_requests import check_machine_type, check_name, check_networks, provisioning_model
from .instances import NO_CAPACITY, EmulatedInstances, check_zone
from .machine_types import compute_zones, hosts_of
from .model import Model
from .networks import regions
from .operations import rfc3339
from .records import NodeSettings
from .workloads import EmulatedWorkloads, instance_body, machine_type_of, new_names, topology_of

Body = dict[str, Any]

_KEPT_ERRORS = 20


class EmulatedGroups:
    """The groups of *model*, whose instances are among *instances*."""

    def __init__(self, model: Model, instances: EmulatedInstances) -> None:
        self._model = model
        self.instances = instances
        self.workloads = EmulatedWorkloads(model)
        self.records = model.groups
        self.operations = model.compute_operations
        instances.on_failure = self._failed
        instances.on_run_over = self._run_over

    # ---- calls ----------------------------------------------------------------------------------

    def get(self, project: str, place: str, name: str) -> GroupRecord:
        path = f"projects/{project}/{place}/instanceGroupManagers/{name}"
        try:
            return self.records[path]
        except KeyError:
            raise api_errors.resource_not_found(path) from None

    def list_in(self, project: str, place: str | None = None) -> list[GroupRecord]:
        """The groups of *place*, or of all places."""
        silent = self._model.faults.unreachable_zones()
        return [
            group
            for group in sorted(self.records.values(), key=lambda group: group.path)
            if group.project == project and place in (None, group.place)
            and not silent & {group.zone, None}
        ]  # fmt: skip

    def insert(self, project: str, place: str, body: Body, request_id: str) -> ComputeOperation:
        name = check_name(body)
        path = f"projects/{project}/{place}/instanceGroupManagers/{name}"
        url = body.get("instanceTemplate") or next(
            (version.get("instanceTemplate") for version in body.get("versions") or []), None
        )
        if not url:
            raise api_errors.required_field("resource.instanceTemplate")
        template_path, template = self.workloads.find("instanceTemplates", project, url)
        zone = self._zone(project, place, body, template)
        self._permission("create", path, zone)
        policy_path, policy = "", None
        if policy_url := (body.get("resourcePolicies") or {}).get("workloadPolicy"):
            policy_path, policy = self.workloads.find("resourcePolicies", project, policy_url)
        group = GroupRecord(
            project=project,
            place=place,
            zone=zone,
            name=name,
            id=self._model.new_id(),
            created=rfc3339(self._model.now()),
            body={"baseInstanceName": name, **body},
            template=template_path,
            policy=policy_path,
            topology=topology_of(policy),
        )
        if body.get("targetSize") is None:
            raise api_errors.required_field("resource.targetSize")
        self._check(group, template)
        if path in self.records:
            raise api_errors.resource_exists(path)
        self._set_size(group, int(body["targetSize"]))
        self.records[path] = group
        return self.operations.begin("insert", path, group.id, request_id=request_id)

    def resize(
        self, project: str, place: str, name: str, size: int, request_id: str
    ) -> ComputeOperation:
        group = self.get(project, place, name)
        self._permission("update", group.path, group.zone)
        if group.deleting:
            raise api_errors.not_ready(group.path)
        changes = group.is_bulk and size and group.size and size != group.size
        if changes and (size > group.size or self.is_waiting(group)):
            raise api_errors.compute_invalid(  # our wording; the rule is Google's
                "A group in BULK mode grows only from targetSize 0, and shrinks only when no bulk "
                "operation is in progress."
            )
        self._set_size(group, size)
        return self.operations.begin("resize", group.path, group.id, request_id=request_id)

    def patch(
        self, project: str, place: str, name: str, body: Body, request_id: str
    ) -> ComputeOperation:
        """Changes what instances get that are made from now on; nothing else can be changed."""
        group = self.get(project, place, name)
        self._permission("update", group.path, group.zone)
        if set(body) - {"allInstancesConfig"}:
            raise api_errors.compute_invalid(  # our wording
                f"The emulator changes allInstancesConfig only, not {', '.join(sorted(body))}."
            )
        asked = (body.get("allInstancesConfig") or {}).get("properties") or {}
        now = (group.body.get("allInstancesConfig") or {}).get("properties") or {}
        merged = {key: {**(now.get(key) or {}), **asked[key]} for key in asked}
        group.body["allInstancesConfig"] = {"properties": {**now, **merged}}
        return self.operations.begin("patch", group.path, group.id, request_id=request_id)

    def recreate(
        self, project: str, place: str, name: str, names: set[str], request_id: str
    ) -> ComputeOperation:
        """Deletes these instances; the group makes them again."""
        group = self.get(project, place, name)
        self._permission("update", group.path, group.zone)
        members = [member for member in group.members if member.name in names]
        if not names or len(members) < len(names):
            raise api_errors.compute_invalid(  # our wording
                f"Instances [{', '.join(sorted(names))}] are not all in the group '{name}'."
            )
        for member in members:
            instance = self.instance(group, member)
            if instance is not None and not instance.deleting:
                self.instances.begin_delete(instance, by="system")
        return self.operations.begin(
            "recreateInstances", group.path, group.id, request_id=request_id
        )

    def delete(self, project: str, place: str, name: str, request_id: str) -> ComputeOperation:
        group = self.get(project, place, name)
        self._permission("delete", group.path, group.zone)
        if group.deleting:
            raise api_errors.not_ready(group.path)
        group.deleting = True
        self.operations.end_all(group.path)
        return self.operations.begin("delete", group.path, group.id, request_id=request_id)

    # ---- what is seen ---------------------------------------------------------------------------

    def instance(self, group: GroupRecord, member: MemberRecord) -> InstanceRecord | None:
        return self.instances.records.get(group.instance_path(member))

    def action(self, group: GroupRecord, member: MemberRecord) -> str:
        """Its currentAction."""
        instance = self.instance(group, member)
        if group.deleting or member.deleting or (instance and instance.deleting):
            return "DELETING"
        if instance is None:
            return "RECREATING" if member.made else "CREATING"
        being_made = instance.status in ("PROVISIONING", "STAGING")
        if being_made and not instance.host.host_keys:
            return "RECREATING" if member.made else "CREATING"
        return "NONE"

    def is_stable(self, group: GroupRecord) -> bool:
        return all(self.action(group, member) == "NONE" for member in group.members)

    def is_waiting(self, group: GroupRecord) -> bool:
        """Whether it makes instances in bulk."""
        return any(
            self.action(group, member) in ("CREATING", "RECREATING") for member in group.members
        )

    def states(self) -> object:
        return [
            (
                group.path,
                group.deleting,
                group.topology_state,
                [(member.name, member.errors, member.deleting) for member in group.members],
            )
            for group in self.records.values()
        ]

    def unsettled(self) -> bool:
        return any(
            group.deleting
            or not self.is_stable(group)
            or (group.topology and group.size and group.topology_state != "ACTIVE")
            or self.operations.in_progress(group.path)
            for group in self.records.values()
        )

    # ---- what moves on --------------------------------------------------------------------------

    def step(self) -> None:
        """Moves all groups on."""
        for group in list(self.records.values()):
            if group.deleting:
                self._delete(group)
                continue
            self.operations.end_all(group.path)
            self._shrink(group)
            self._repair(group)
            missing = [member for member in group.members if self.instance(group, member) is None]
            if missing:
                self._make(group, missing)
            self._set_topology(group)

    def relink(self) -> None:
        """The hosts of a slice know each other."""
        for group in self.records.values():
            records = [self.instance(group, member) for member in group.members]
            instances = [record for record in records if record is not None]
            if group.topology and instances:
                hosts = sorted(
                    (instance.host for instance in instances), key=lambda host: host.worker
                )
                for instance in instances:
                    instance.hosts = hosts

    # ---- internals ------------------------------------------------------------------------------

    def _zone(self, project: str, place: str, body: Body, template: Body) -> str:
        kind, _, name = place.partition("/")
        if kind == "zones":
            check_zone(project, name)
            return name
        if name not in regions():
            raise api_errors.resource_not_found(f"projects/{project}/{place}")
        distribution = body.get("distributionPolicy") or {}
        if distribution.get("targetShape") != "ANY_SINGLE_ZONE":
            raise api_errors.compute_invalid(  # our wording; the rule is Google's
                "Regional groups in BULK mode need the target shape ANY_SINGLE_ZONE."
            )
        asked = [entry["zone"].rpartition("/")[2] for entry in distribution.get("zones") or []]
        zones = asked or [
            compute_zone
            for compute_zone in compute_zones()
            if compute_zone.rpartition("-")[0] == name
        ]
        offered = machine_type_of(template).zones
        return next((zone for zone in zones if zone in offered), zones[0])

    def _check(self, group: GroupRecord, template: Body) -> None:
        properties = template["properties"]
        machine = machine_type_of(template)
        if group.zone not in machine.zones:
            check_machine_type(properties, group.zone)
        region = group.zone.rpartition("-")[0]
        for path in (group.template, group.policy):
            if "/regions/" in path and f"/regions/{region}/" not in path:
                raise api_errors.compute_invalid(  # our wording
                    f"The resource '{path}' is not in the region {region}."
                )
        check_networks(self._model.networks, group.project, region, properties)
        if group.topology and not group.is_bulk:
            raise api_errors.compute_invalid(
                "MIGs with TPU accelerator topology require BULK mode in target size policy"
            )
        lifecycle = group.body.get("instanceLifecyclePolicy") or {}
        nothing = lifecycle.get("defaultActionOnFailure") == "DO_NOTHING"
        if provisioning_model(properties) == "FLEX_START" and not nothing:
            raise api_errors.compute_invalid(  # our wording; the rule is Google's
                "Groups of FLEX_START instances need the default action on failure DO_NOTHING."
            )

    def _set_size(self, group: GroupRecord, size: int) -> None:
        template = self._model.templates[group.template]
        if size < 0:
            raise api_errors.invalid_value("resource.targetSize", size, "[0-9]+")
        if group.topology and size not in (0, hosts_of(machine_type_of(template), group.topology)):
            raise api_errors.compute_invalid(  # our wording
                f"Invalid value for field 'resource.targetSize': '{size}'. The topology "
                f"{group.topology} has another number of hosts."
            )
        self._model.check_host_capacity(max(0, size - group.size))
        staying = [member for member in group.members if not member.deleting]
        for member in staying[size:]:
            member.deleting = True
        missing = size - len(staying)
        if missing > 0:
            used = {member.name for member in group.members}
            names = new_names(group.body["baseInstanceName"], used, missing, self._model.new_id)
            # Workers are not numbered in the order of the names: a user has seen the reverse.
            group.members += [
                MemberRecord(name=name, worker=size - 1 - number)
                for number, name in enumerate(names, len(staying))
            ]
        group.size = size

    def _delete(self, group: GroupRecord) -> None:
        records = [self.instance(group, member) for member in group.members]
        instances = [record for record in records if record is not None]
        for instance in instances:
            if not instance.deleting:
                self.instances.begin_delete(instance, by="system")
        if not instances:
            del self.records[group.path]
            self.operations.end_all(group.path)

    def _shrink(self, group: GroupRecord) -> None:
        for member in [member for member in group.members if member.deleting]:
            instance = self.instance(group, member)
            if instance is None:
                group.members.remove(member)
            elif not instance.deleting:
                self.instances.begin_delete(instance, by="system")

    def _repair(self, group: GroupRecord) -> None:
        """A slice is started again as a whole; a single instance is made again."""
        instances = [self.instance(group, member) for member in group.members]
        now = self._model.now().timestamp()
        if any(instance and 0 < instance.restarts_at <= now for instance in instances):
            if group.topology:
                for instance in filter(None, instances):
                    self.instances.restart(instance)
                self._become(group, "REACTIVATING")
            return
        lifecycle = group.body.get("instanceLifecyclePolicy") or {}
        if lifecycle.get("defaultActionOnFailure") != "DO_NOTHING":
            for instance in filter(None, instances):
                if instance.status == "TERMINATED" and not instance.restarts_at:
                    self.instances.begin_delete(instance, by="system")

    def _make(self, group: GroupRecord, missing: list[MemberRecord]) -> None:
        if self._model.faults.consume("empty-group", group.zone):
            return
        group.checked = rfc3339(self._model.now())
        template = self._model.templates[group.template]
        held = machine_type_of(template).accelerator(name=machine_type_of(template).name)
        for part in [missing] if group.is_bulk else [[member] for member in missing]:
            if error := self._refusal(group, template, held, len(part)):
                for member in part:
                    self._add_error(group, member, error)
                continue
            for member in part:
                self._make_one(group, template, member)
        self.relink()

    def _refusal(
        self, group: GroupRecord, template: Body, held: AcceleratorType, count: int
    ) -> dict[str, str]:
        """Why *count* instances can't be made now; {} if they can."""
        limits, properties = self._model.limits, template["properties"]
        if not machine_type_of(template).creatable:
            text = api_errors.refused_machine_type(held.name).message
            return {"code": "FORBIDDEN", "message": text}  # our code
        external = any(
            interface.get("accessConfigs") for interface in properties["networkInterfaces"]
        )
        if external and self._model.faults.consume("no-external-addresses", group.zone):
            text = api_errors.external_address_forbidden(group.project, group.path).message
            return {"code": "CONDITION_NOT_MET", "message": text}
        model = provisioning_model(properties)
        tier = NodeSettings(provisioning_model=model, reserved=model == "RESERVATION_BOUND").tier
        try:
            if tier != "flex-start":
                limits.check_quota(group.zone, held, tier, count=count)
        except api_errors.ApiError as error:
            return {
                "code": "QUOTA_EXCEEDED",
                "message": api_errors.compute_quota_text(group.zone, error),
            }
        if limits.lacks_capacity(group.zone, held, tier, count=count):
            return {
                "code": NO_CAPACITY,
                "message": api_errors.compute_no_capacity_text(group.project, group.zone),
            }
        return {}

    def _make_one(self, group: GroupRecord, template: Body, member: MemberRecord) -> None:
        config = (group.body.get("allInstancesConfig") or {}).get("properties") or {}
        body = instance_body(member.name, template["properties"], config)
        self.instances.make(
            group.project,
            group.zone,
            body,
            group=group.path,
            topology=group.topology,
            worker=member.worker if group.topology else 0,
            internal=member.internal,
        )
        instance = self.instance(group, member)
        assert instance is not None
        member.internal = instance.host.internal

    def _set_topology(self, group: GroupRecord) -> None:
        records = [self.instance(group, member) for member in group.members]
        for member, instance in zip(group.members, records, strict=True):
            if instance is not None and instance.status == "RUNNING":
                member.errors, member.made = [], True
        if not group.topology:
            return
        complete = bool(records) and all(
            record and record.status == "RUNNING" for record in records
        )
        state = group.topology_state
        if not any(records):
            self._become(group, "INCOMPLETE" if state and group.size else "")
        elif not state:
            self._become(group, "ACTIVATING")
        elif complete and state != "ACTIVE":
            self._become(group, "REACTIVATING" if state == "INCOMPLETE" else "ACTIVE")
        elif state == "ACTIVE" and not complete:
            self._become(group, "INCOMPLETE")

    def _become(self, group: GroupRecord, state: str) -> None:
        if group.topology_state != state:
            group.topology_state, group.topology_since = state, rfc3339(self._model.now())

    def _failed(self, instance: InstanceRecord, error: dict[str, str]) -> None:
        group, member = self._member(instance)
        if group is not None and member is not None:
            self._add_error(group, member, error)

    def _run_over(self, instance: InstanceRecord) -> None:
        """It is not made again: that is how a group with a limited run ends (not verified)."""
        group, member = self._member(instance)
        if group is not None and member is not None and not member.deleting:
            member.deleting = True
            group.size -= 1

    def _member(self, instance: InstanceRecord) -> tuple[GroupRecord | None, MemberRecord | None]:
        group = self.records.get(instance.group)
        members = group.members if group is not None else []
        return group, next((member for member in members if member.name == instance.name), None)

    def _add_error(self, group: GroupRecord, member: MemberRecord, error: dict[str, str]) -> None:
        if member.errors != [error]:
            member.errors = [error]
            happened = {"timestamp": rfc3339(self._model.now()), "error": error}
            group.errors = [*group.errors, {**happened, "name": member.name}][-_KEPT_ERRORS:]

    def _permission(self, verb: str, path: str, zone: str) -> None:
        if self._model.faults.consume("permission", zone):
            raise api_errors.permission(f"compute.instanceGroupManagers.{verb}", path)
