"""Compute Engine's instances and their states: PENDING (flex-start only), PROVISIONING, STAGING,
RUNNING, STOPPING, TERMINATED. A deleted one is STOPPING, and then no more.

Calls begin operations; `step` moves each instance on by one state, and says which hosts have to be
started or ended. That is reported by `started`, `ended` and `failed`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Container, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from . import api_errors
from .instance_records import ComputeOperation, InstanceRecord
from .instance_requests import (
    LONGEST_WAIT,
    check_machine_type,
    check_name,
    check_networks,
    check_properties,
    image_family,
    metadata_of,
    seconds_of,
    settings_of,
)
from .machine_types import compute_zones
from .model import Model
from .operations import rfc3339
from .records import HostRecord

Body = dict[str, Any]
Work = tuple[Literal["start", "end"], InstanceRecord]

_FAULTS = ("CHIP_ERROR", "PERFORMANCE", "SILENT_DATA_CORRUPTION", "UNRECOVERABLE_GPU_ERROR")
NO_CAPACITY = "ZONE_RESOURCE_POOL_EXHAUSTED"


class EmulatedInstances:
    """The instances of *model*."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.records = model.instances
        self.operations = model.compute_operations
        #: Hears of instances of groups that could not be made: (instance, error).
        self.on_failure: Callable[[InstanceRecord, dict[str, str]], None] = lambda *_: None
        #: Hears of instances whose time is over.
        self.on_run_over: Callable[[InstanceRecord], None] = lambda _: None

    # ---- calls ----------------------------------------------------------------------------------

    def list_in(self, project: str, zone: str | None = None) -> list[InstanceRecord]:
        faults = self._model.faults
        silent = faults.unreachable_zones()
        return [
            record
            for record in sorted(self.records.values(), key=lambda record: record.path)
            if record.project == project and zone in (None, record.zone)
            and not silent & {record.zone, None}
            and not faults.is_unlisted(record.zone, record.name, record.path)
        ]  # fmt: skip

    def get(self, project: str, zone: str, name: str) -> InstanceRecord:
        path = f"projects/{project}/zones/{zone}/instances/{name}"
        try:
            return self.records[path]
        except KeyError:
            raise api_errors.resource_not_found(path) from None

    def insert(self, project: str, zone: str, body: Body, request_id: str) -> ComputeOperation:
        check_zone(project, zone)
        name = check_name(body)
        path = f"projects/{project}/zones/{zone}/instances/{name}"
        self._permission("create", path, zone)
        check_machine_type(body, zone)
        check_properties(body)
        if body.get("resourcePolicies"):
            raise api_errors.compute_invalid(
                "Resource policy must have one of [VmMaintenancePolicy, GroupPlacementPolicy, "
                "InstanceSchedulePolicy]"
            )
        check_networks(self._model.networks, project, zone.rpartition("-")[0], body)
        if path in self.records:
            raise api_errors.resource_exists(path)
        external = any(interface.get("accessConfigs") for interface in body["networkInterfaces"])
        if external and self._model.faults.consume("no-external-addresses", zone):
            raise api_errors.external_address_forbidden(project, path)
        self._model.check_host_capacity(1)
        return self.make(project, zone, body, request_id=request_id)

    def make(
        self,
        project: str,
        zone: str,
        body: Body,
        *,
        request_id: str = "",
        group: str = "",
        topology: str = "",
        worker: int = 0,
        internal: str = "",
    ) -> ComputeOperation:
        """An instance that was checked. *internal*: the address that its worker had before."""
        model, now = self._model, self._model.now()
        name = body["name"]
        host = HostRecord(worker=worker, hostname=name, internal=internal)
        if not internal:
            (fresh,) = model.addresses.new_hosts(1, "", 0)
            host.internal = fresh.internal
        instance = InstanceRecord(
            project=project,
            zone=zone,
            name=name,
            id=model.new_id(),
            type=str(body["machineType"]).rpartition("/")[2],
            version=image_family(body),
            created=rfc3339(now),
            hosts=[host],
            body=body,
            topology=topology,
            worker=worker,
            group=group,
            **settings_of(body),
        )
        instance.become("PROVISIONING")
        if instance.tier == "flex-start":
            asked = (body.get("params") or {}).get("requestValidForDuration")
            wait = LONGEST_WAIT if asked is None else seconds_of(asked)
            instance.waits_until = now.timestamp() + wait
            if wait and not group:  # a group waits without instances
                instance.become("PENDING")
        self.records[instance.path] = instance
        by = "system" if group else ""
        self._slow(instance)
        return self.operations.begin(
            "insert", instance.path, instance.id, request_id=request_id, by=by
        )

    def delete(self, project: str, zone: str, name: str, request_id: str) -> ComputeOperation:
        instance = self.get(project, zone, name)
        self._permission("delete", instance.path, zone)
        if instance.body.get("deletionProtection"):
            raise api_errors.compute_invalid(
                "Invalid resource usage: 'Resource cannot be deleted if it's protected against "
                "deletion. This property can be turned off before deletion.'."
            )
        being_made = instance.status in ("PROVISIONING", "STAGING")
        if being_made and self._model.faults.consume("refuse-delete", zone):
            raise api_errors.not_ready(instance.path)
        self._slow(instance)
        return self.begin_delete(instance, request_id=request_id)

    def begin_delete(
        self, instance: InstanceRecord, *, request_id: str = "", kind: str = "delete", by: str = ""
    ) -> ComputeOperation:
        """Also ends what is in progress on it."""
        if not instance.deleting:
            text = "The resource was deleted before the operation ended."  # our wording
            error = {"code": "RESOURCE_NOT_READY", "message": text}
            self.operations.end_all(instance.path, [error])
        instance.deleting = True
        if instance.status != "PENDING":
            instance.become("STOPPING")
        return self.operations.begin(kind, instance.path, instance.id, request_id=request_id, by=by)

    def stop(self, project: str, zone: str, name: str, request_id: str) -> ComputeOperation:
        instance = self._in("RUNNING", "stop", project, zone, name)
        instance.become("STOPPING")
        return self.operations.begin("stop", instance.path, instance.id, request_id=request_id)

    def start(self, project: str, zone: str, name: str, request_id: str) -> ComputeOperation:
        instance = self._in("TERMINATED", "start", project, zone, name)
        instance.become("PROVISIONING")
        return self.operations.begin("start", instance.path, instance.id, request_id=request_id)

    def set_metadata(self, instance: InstanceRecord, body: Body) -> None:
        if body.get("fingerprint") != fingerprint(instance.metadata):
            raise api_errors.wrong_fingerprint("fingerprint")
        instance.metadata = metadata_of({"metadata": body})

    def set_labels(self, instance: InstanceRecord, body: Body) -> None:
        if body.get("labelFingerprint") != fingerprint(instance.labels):
            raise api_errors.wrong_fingerprint("fingerprint")
        instance.labels = dict(body.get("labels") or {})

    def set_scheduling(self, instance: InstanceRecord, body: Body) -> None:
        if instance.status not in ("RUNNING", "TERMINATED"):
            raise api_errors.not_ready(instance.path)
        changed = {**(instance.body.get("scheduling") or {}), **body}
        check_properties({**instance.body, "scheduling": changed})
        instance.body["scheduling"] = changed
        if instance.status == "RUNNING":
            self._set_end(instance)

    def report_faulty(
        self, instance: InstanceRecord, body: Body, request_id: str
    ) -> ComputeOperation:
        """Its machine is repaired; it is started again on another one."""
        self._permission("reportHostAsFaulty", instance.path, instance.zone)
        if instance.status != "RUNNING":
            raise api_errors.not_ready(instance.path)
        if body.get("disruptionSchedule") != "IMMEDIATE" or not body.get("faultReasons"):
            raise api_errors.required_field("resource.disruptionSchedule, resource.faultReasons")
        for reason in body["faultReasons"]:
            if reason.get("behavior") not in _FAULTS:
                raise api_errors.invalid_value(
                    "resource.faultReasons.behavior", reason.get("behavior"), "|".join(_FAULTS)
                )
        return self._moved("reportHostAsFaulty", instance, request_id)

    def perform_maintenance(self, instance: InstanceRecord, request_id: str) -> ComputeOperation:
        """Maintenance that is announced begins now."""
        if instance.upcoming_maintenance is None or instance.status != "RUNNING":
            raise api_errors.compute_invalid(  # our wording
                f"The resource '{instance.path}' has no maintenance that can be performed now."
            )
        instance.upcoming_maintenance = None
        return self._moved("performMaintenance", instance, request_id)

    def simulate_maintenance(self, instance: InstanceRecord, request_id: str) -> ComputeOperation:
        if instance.status != "RUNNING":
            raise api_errors.not_ready(instance.path)
        return self._moved("simulateMaintenanceEvent", instance, request_id)

    def _moved(self, kind: str, instance: InstanceRecord, request_id: str) -> ComputeOperation:
        """The operation after which it is down, until it is started on another machine."""
        instance.moves += 1
        return self.changed(kind, instance, request_id)

    def changed(self, kind: str, instance: InstanceRecord, request_id: str) -> ComputeOperation:
        """The operation of a change that is done."""
        operation = self.operations.begin(kind, instance.path, instance.id, request_id=request_id)
        self.operations.end(operation)
        return operation

    # ---- what moves on --------------------------------------------------------------------------

    def step(self, busy: Container[str]) -> Iterator[Work]:
        """Moves all on that are not *busy* (paths), and gives what has to be done for it."""
        now = self._model.now().timestamp()
        for instance in list(self.records.values()):
            if instance.path in busy or now < instance.slow_until:
                continue
            if instance.deleting and instance.status == "PENDING":
                self._remove(instance)
            elif instance.status == "PENDING":
                if not self._lacks_capacity(instance):
                    instance.become("PROVISIONING")
                elif now >= instance.waits_until:
                    self.vanish(instance)
            elif instance.status == "PROVISIONING":
                self._provision(instance)
            elif instance.status == "STAGING":
                if self._late_error(instance):
                    self.failed(instance, "INTERNAL_ERROR", "Internal error.")
                else:
                    yield "start", instance
            elif instance.status == "STOPPING":
                yield "end", instance
            elif instance.status == "RUNNING" and 0 < instance.ends_at <= now:
                self.run_over(instance)
            elif instance.topology:
                continue  # a slice is started again as a whole
            elif instance.status == "TERMINATED" and 0 < instance.restarts_at <= now:
                instance.restarts_at = 0.0
                instance.become("PROVISIONING")
                self.operations.happened(
                    "compute.instances.automaticRestart", instance.path, instance.id
                )

    def unsettled(self) -> bool:
        return any(
            record.status not in ("RUNNING", "TERMINATED") or record.ends_at or record.restarts_at
            for record in self.records.values()
        )

    def started(self, instance: InstanceRecord) -> None:
        if self.records.get(instance.path) is instance and instance.status == "STAGING":
            instance.become("RUNNING")
            instance.health = "HEALTHY"
            self._set_end(instance)
            self.operations.end_all(instance.path)

    def ended(self, instance: InstanceRecord) -> None:
        """Its host is down; if it is deleted, its files are gone, too."""
        if instance.deleting:
            self._remove(instance)
        elif instance.restarting:
            instance.restarting = False
            instance.become("PROVISIONING")
        else:
            instance.become("TERMINATED")
            instance.ends_at = 0.0
            self._model.addresses.drop_external(instance)
            self.operations.end_all(instance.path)

    def failed(self, instance: InstanceRecord, code: str, message: str) -> None:
        """It can't be made or started."""
        if self.records.get(instance.path) is not instance:
            return
        error = {"code": code, "message": message}
        self.operations.end_all(instance.path, [error])
        if instance.host.host_keys:  # it has run before
            instance.become("TERMINATED")
        else:
            del self.records[instance.path]
        self.on_failure(instance, error)

    # ---- what Google does by itself -------------------------------------------------------------

    def vanish(self, instance: InstanceRecord) -> None:
        """It got no capacity in time; only its operation says why."""
        text = f"The zone '{instance.zone}' had no capacity in time."  # our wording
        self.failed(instance, NO_CAPACITY, text)

    def run_over(self, instance: InstanceRecord) -> None:
        """The time that it may run is over."""
        self.on_run_over(instance)
        self._take_away(instance, "compute.instances.terminateOnSchedule")  # our word

    def preempt(self, instance: InstanceRecord) -> None:
        text = "Instance was preempted."
        self.operations.happened("compute.instances.preempted", instance.path, instance.id, text)
        self._take_away(instance, "")

    def host_error(self, instance: InstanceRecord, seconds: float) -> None:
        """Its machine broke; it is started again in so many *seconds*, if it restarts at all."""
        text = "Instance terminated by Compute Engine due to a host error."
        self.operations.happened("compute.instances.hostError", instance.path, instance.id, text)
        instance.become("TERMINATED")
        automatic = (instance.body.get("scheduling") or {}).get("automaticRestart")
        if automatic is not False and instance.tier != "spot":
            instance.restarts_at = self._model.now().timestamp() + seconds

    def restart(self, instance: InstanceRecord) -> None:
        """As part of a slice that is restarted as a whole."""
        instance.restarts_at = 0.0
        if instance.status == "RUNNING":
            instance.restarting = True
            instance.become("STOPPING")
        elif instance.status == "TERMINATED":
            instance.become("PROVISIONING")

    # ---- internals ------------------------------------------------------------------------------

    def _take_away(self, instance: InstanceRecord, kind: str) -> None:
        scheduling = instance.body.get("scheduling") or {}
        if scheduling.get("instanceTerminationAction") == "DELETE":
            self.begin_delete(instance, kind=kind or "delete", by="system")
        else:
            if kind:
                self.operations.happened(kind, instance.path, instance.id)
            instance.become("STOPPING")

    def _provision(self, instance: InstanceRecord) -> None:
        # A group has asked for all of its instances at once, before it made them.
        if not (instance.group and not instance.host.host_keys):
            if instance.tier != "flex-start" and (text := self.quota(instance)):
                self.failed(instance, "QUOTA_EXCEEDED", text)
                return
            if self._lacks_capacity(instance):
                self.failed(
                    instance,
                    NO_CAPACITY,
                    api_errors.compute_no_capacity_text(instance.project, instance.zone),
                )
                return
        if not instance.host.external:
            self._model.addresses.renew_own_external(instance)
        instance.become("STAGING")

    def quota(self, instance: InstanceRecord) -> str:
        """Why it is more than the project may have; "" if it is not."""
        try:
            self._model.limits.check_quota(
                instance.zone, instance.held, instance.tier, but=instance.path
            )
        except api_errors.ApiError as error:
            return api_errors.compute_quota_text(instance.zone, error)
        return ""

    def _lacks_capacity(self, instance: InstanceRecord) -> bool:
        return self._model.limits.lacks_capacity(
            instance.zone, instance.held, instance.tier, but=instance.path
        )

    def _late_error(self, instance: InstanceRecord) -> bool:
        held = instance.held
        return not instance.host.host_keys and bool(
            self._model.faults.consume(
                "late-error",
                instance.zone,
                where=lambda fault: (
                    fault.type in (None, held.name, held.generation)
                    and fault.tier in (None, instance.tier)
                ),
            )
        )

    def _remove(self, instance: InstanceRecord) -> None:
        if self.records.get(instance.path) is instance:
            del self.records[instance.path]
        self.operations.end_all(instance.path)

    def _set_end(self, instance: InstanceRecord) -> None:
        scheduling = instance.body.get("scheduling") or {}
        now = self._model.now().timestamp()
        if longest := seconds_of(scheduling.get("maxRunDuration")):
            instance.ends_at = now + longest
        elif until := scheduling.get("terminationTime"):
            instance.ends_at = datetime.fromisoformat(until).astimezone(UTC).timestamp()
        else:
            instance.ends_at = 0.0

    def _slow(self, instance: InstanceRecord) -> None:
        if slow := self._model.faults.consume("slow", instance.zone):
            seconds = 10.0 if slow.seconds is None else slow.seconds
            instance.slow_until = self._model.now().timestamp() + seconds

    def _in(self, status: str, verb: str, project: str, zone: str, name: str) -> InstanceRecord:
        instance = self.get(project, zone, name)
        self._permission(verb, instance.path, zone)
        if instance.status != status:
            raise api_errors.not_ready(instance.path)
        return instance

    def _permission(self, verb: str, path: str, zone: str) -> None:
        if self._model.faults.consume("permission", zone):
            raise api_errors.permission(f"compute.instances.{verb}", path)


def check_zone(project: str, zone: str) -> None:
    if zone not in compute_zones():
        raise api_errors.resource_not_found(f"projects/{project}/zones/{zone}")


def fingerprint(items: dict[str, str]) -> str:
    """Base64, since the field is of the type bytes: clients decode it and encode it again."""
    digest = hashlib.sha256(msgspec.json.encode(items)).digest()[:8]
    return base64.urlsafe_b64encode(digest).decode()
