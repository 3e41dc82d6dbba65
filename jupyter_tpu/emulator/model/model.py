"""The one model behind both transports: what there is and what may be; no transport, no host.

Requests come in as calls, answers go out as records or as an `ApiError`. A call that starts
something long returns an operation that is in progress; the engine does the work and reports with
`complete` or `fail`, which are the only ways a node's state moves on.

What each verb needs and does to a node's state is the table `TRANSITIONS` in ``records.py``.
"""

from __future__ import annotations

import random
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import msgspec

from ... import catalog
from . import api_errors
from .addresses import Addresses
from .compute_operations import ComputeOperations
from .faults import Fault, Faults
from .guest_attributes import published
from .host_profile import missing_features
from .limits import Limits
from .networks import EmulatedNetworks
from .operations import Operations, rfc3339
from .os_login import OsLogin
from .records import (
    AFTER_FAILURE,
    TRANSITIONS,
    EmulatedOperation,
    HostRecord,
    MaintenanceRecord,
    NodeRecord,
    NodeRequest,
    NodeSettings,
    OperationFailure,
    QueuedRecord,
    Verb,
)
from .snapshot import EmulatorSnapshot

R = TypeVar("R", NodeRecord, QueuedRecord)
NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


class Model:
    """Everything the service knows.

    *now* gives the time, *chance* the random numbers; *host_capacity* is how many hosts may exist
    on this machine, *host_limit_reason* why (in parentheses in the message, "" for none).
    *one_address*: this machine has no loopback address but 127.0.0.1, so all hosts have that.
    """

    def __init__(
        self,
        snapshot: EmulatorSnapshot,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: random.Random | None = None,
        host_capacity: int = 64,
        host_limit_reason: str = "",
        one_address: bool = False,
    ) -> None:
        self.id = snapshot.id
        self.nodes = {node.path: node for node in snapshot.nodes}
        self.project_metadata = snapshot.project_metadata
        self.log_exclusions = snapshot.log_exclusions
        self.faults = Faults()
        self.now = now
        self._chance = chance or random.SystemRandom()
        self.operations = Operations(snapshot.operations, now, self._chance)
        self.queued = {queued_record.path: queued_record for queued_record in snapshot.queued}
        self.os_login = OsLogin(snapshot.os_login)
        self.networks = EmulatedNetworks(snapshot.compute, now)
        self.instances = {instance.path: instance for instance in snapshot.instances}
        self.groups = {group.path: group for group in snapshot.groups}
        self.policies = snapshot.policies
        self.templates = snapshot.templates
        self.reservations = snapshot.reservations
        self.compute_operations = ComputeOperations(snapshot.compute_operations, now, self._chance)
        #: What has hosts: nodes and instances.
        self._machines: ChainMap[str, NodeRecord] = ChainMap(
            self.nodes, cast("dict[str, NodeRecord]", self.instances)
        )
        self.limits = Limits(self.faults, self._machines, self.queued)
        self._host_capacity = host_capacity
        self._host_limit_reason = host_limit_reason
        self.addresses = Addresses(self._machines, self._chance, one_address=one_address)

    def snapshot(self) -> EmulatorSnapshot:
        """What has to be saved for `Model(snapshot)` to continue from here."""
        return EmulatorSnapshot(
            id=self.id,
            nodes=list(self.nodes.values()),
            queued=list(self.queued.values()),
            operations=self.operations.all(),
            project_metadata=self.project_metadata,
            log_exclusions=self.log_exclusions,
            compute=self.networks.records,
            instances=list(self.instances.values()),
            groups=list(self.groups.values()),
            policies=self.policies,
            templates=self.templates,
            reservations=self.reservations,
            compute_operations=self.compute_operations.all(),
            os_login=self.os_login.records,
        )

    # ---- what can be created --------------------------------------------------------------------

    def zones(self) -> tuple[str, ...]:
        return catalog.zones("tpu")

    def check_zone(self, zone: str) -> None:
        if not catalog.is_zone(zone, "tpu"):
            raise api_errors.unknown_location(zone)

    def accelerator_types(self, zone: str) -> tuple[catalog.AcceleratorType, ...]:
        self.check_zone(zone)
        return catalog.types_in(zone, "tpu")

    def accelerator_type(self, parent: str, zone: str, name: str) -> catalog.AcceleratorType:
        for accelerator in self.accelerator_types(zone):
            if accelerator.name == name:
                return accelerator
        raise api_errors.not_found(f"{parent}/acceleratorTypes/{name}")

    def runtime_versions(self, zone: str) -> tuple[str, ...]:
        self.check_zone(zone)
        return catalog.versions("tpu")

    def runtime_version(self, parent: str, zone: str, name: str) -> str:
        if name not in self.runtime_versions(zone):
            raise api_errors.not_found(f"{parent}/runtimeVersions/{name}")
        return name

    # ---- nodes ----------------------------------------------------------------------------------

    def machines(self) -> list[NodeRecord]:
        """All nodes and instances."""
        return list(self._machines.values())

    def machine(self, id: str) -> NodeRecord | None:
        """The node or instance of that number."""
        return next((machine for machine in self.machines() if machine.id == id), None)

    def new_id(self) -> str:
        """Google's number of something new."""
        return str(self._chance.randrange(10**18, 9 * 10**18))

    def get_node(self, project: str, zone: str, name: str) -> NodeRecord:
        self.check_zone(zone)
        path = f"projects/{project}/locations/{zone}/nodes/{name}"
        try:
            return self.nodes[path]
        except KeyError:
            raise api_errors.not_found(path) from None

    def list_nodes(self, project: str, zone: str) -> tuple[list[NodeRecord], list[str]]:
        """The nodes of a zone, or of all zones for "-"; and the locations that did not answer."""
        shown, unreachable = self.list_in(self.nodes.values(), project, zone)
        listed = [
            node for node in shown if not self.faults.is_unlisted(node.zone, node.name, node.path)
        ]
        return listed, unreachable

    def list_in(self, records: Iterable[R], project: str, zone: str) -> tuple[list[R], list[str]]:
        """Those of *records* that a list of *zone* shows; and the locations that did not answer."""
        if zone != "-":
            self.check_zone(zone)
        silent = self.faults.unreachable_zones()
        shown = [
            record
            for record in records
            if record.project == project
            and (zone == "-" or record.zone == zone)
            and not silent & {record.zone, None}
        ]
        unreachable = [
            f"projects/{project}/locations/{silent_zone}"
            for silent_zone in (self.zones() if None in silent else sorted(filter(None, silent)))
            if zone in ("-", silent_zone)
        ]
        return sorted(shown, key=lambda record: (record.created, record.path)), unreachable

    def create_node(
        self, project: str, zone: str, name: str, request: NodeRequest
    ) -> EmulatedOperation:
        self.check_zone(zone)
        parent = f"projects/{project}/locations/{zone}"
        self.take_permission_fault("nodes.create", parent, zone)
        accelerator = self.check_node_request(project, zone, name, request)
        if (path := f"{parent}/nodes/{name}") in self.nodes:
            raise api_errors.exists(path)
        self.limits.check_quota(zone, accelerator, request.tier)
        self.check_host_capacity(accelerator.hosts)
        node = self.add_node(project, zone, name, accelerator.name, request)
        return self._begin("create", node)

    def check_node_request(
        self, project: str, zone: str, name: str, request: NodeRequest
    ) -> catalog.AcceleratorType:
        """The type that is asked for; ApiError for what the service would refuse."""
        if not self.is_id(name):
            raise api_errors.invalid_node_id(name)
        accelerator = self._requested_type(request, zone)
        if not request.version:
            raise api_errors.invalid_field("the runtime version must be given")
        if request.version not in catalog.versions("tpu"):
            raise api_errors.unknown_version(request.version, zone)
        for network in request.networks:
            self.networks.check(project, zone, network)
        missing_features(request.metadata)
        return accelerator

    @staticmethod
    def is_id(name: str) -> bool:
        """Whether a node or queued resource may have that name."""
        return NODE_ID.fullmatch(name) is not None

    def check_host_capacity(self, hosts: int) -> None:
        """ApiError if this machine can't run that many more."""
        free = self._host_capacity - sum(len(machine.own_hosts) for machine in self.machines())
        if hosts > free:
            raise api_errors.too_many_hosts(hosts, max(0, free), self._host_limit_reason)

    def add_node(
        self,
        project: str,
        zone: str,
        name: str,
        type: str,
        request: NodeRequest,
        queued_resource: str = "",
    ) -> NodeRecord:
        """A node that is CREATING."""
        node = NodeRecord(
            project=project,
            zone=zone,
            name=name,
            id=self.new_id(),
            type=type,
            version=request.version,
            created=rfc3339(self.now()),
            queued_resource=queued_resource,
            **{name: copy(getattr(request, name)) for name in NodeSettings.__struct_fields__},
        )
        prefix = f"t1v-n-{self._chance.getrandbits(32):08x}-w-"
        node.hosts = self.addresses.new_hosts(
            node.accelerator.hosts, prefix, len(node.further_networks)
        )
        self.nodes[node.path] = node
        return node

    def start_node(self, project: str, zone: str, name: str) -> EmulatedOperation:
        node = self._node_for("start", project, zone, name)
        if node.preemptible or node.spot:
            raise api_errors.not_restartable()
        return self._begin("start", node)

    def stop_node(self, project: str, zone: str, name: str) -> EmulatedOperation:
        return self._begin("stop", self._node_for("stop", project, zone, name))

    def maintain_node(self, project: str, zone: str, name: str) -> EmulatedOperation:
        node = self._node_for("maintain", project, zone, name)
        if node.upcoming_maintenance is not None:
            node.upcoming_maintenance.status = "ONGOING"
        return self._begin("maintain", node)

    def announce_maintenance(self, node: NodeRecord, seconds: float) -> None:
        """Google says that *node* has maintenance in *seconds*, for an hour."""
        start = self.now() + timedelta(seconds=seconds)
        node.upcoming_maintenance = MaintenanceRecord(
            kind="SCHEDULED",
            status="PENDING",
            can_reschedule=True,
            start=rfc3339(start),
            end=rfc3339(start + timedelta(hours=1)),
        )

    def delete_node(self, project: str, zone: str, name: str) -> EmulatedOperation:
        node = self.get_node(project, zone, name)
        self.take_permission_fault("nodes.delete", node.path, zone)
        if node.state == "DELETING":
            raise api_errors.busy(node.path)
        if node.state == "CREATING" and self.faults.consume("refuse-delete", zone):
            raise api_errors.wrong_state("delete", node.state)
        return self.begin_delete(node)

    def begin_delete(self, node: NodeRecord) -> EmulatedOperation:
        """Ends what is in progress on *node*, and deletes it."""
        self.operations.end_all(node.path)
        return self._begin("delete", node)

    def update_node(
        self, project: str, zone: str, name: str, mask: Sequence[str], request: NodeRequest
    ) -> EmulatedOperation:
        """Changes the fields named in *mask* (of description, labels, metadata, tags)."""
        node = self._node_for("update", project, zone, name)
        for field in mask:
            if field not in ("description", "labels", "metadata", "tags"):
                raise api_errors.invalid_field(f"field {field} in the update mask is not mutable")
        for field in mask:
            setattr(node, field, msgspec.structs.asdict(request)[field])
        return self._begin("update", node)

    # ---- operations -----------------------------------------------------------------------------

    def node_of(self, operation: EmulatedOperation) -> NodeRecord:
        return self.nodes[operation.target]

    def complete(self, operation: EmulatedOperation) -> None:
        """The work of *operation* is done: its node changes state. No-op if it ended before."""
        if operation.done:
            return
        node = self.nodes[operation.target]
        if operation.verb == "delete":
            del self.nodes[operation.target]
        else:
            node.state = TRANSITIONS[operation.verb].after or node.state
            if operation.verb == "maintain":
                node.upcoming_maintenance = None
            node.health = "HEALTHY" if node.state == "READY" else ""
            node.health_description = ""
            operation.node = msgspec.convert(msgspec.to_builtins(node), NodeRecord)
        self.operations.end(operation, None)

    def fail(self, operation: EmulatedOperation, code: int, message: str) -> None:
        """The work of *operation* failed. No-op if it ended before."""
        if operation.done:
            return
        if operation.verb == "create":
            del self.nodes[operation.target]
        elif operation.verb in AFTER_FAILURE:
            self.nodes[operation.target].state = AFTER_FAILURE[operation.verb]
        self.operations.end(operation, OperationFailure(code=code, message=message))

    # ---- guest attributes -----------------------------------------------------------------------

    def guest_attributes(
        self, project: str, zone: str, name: str, query: str, workers: Iterable[str]
    ) -> list[list[tuple[str, str, str]]]:
        """(namespace, key, value) of each asked worker, in worker order.

        *query* is "namespace/" or "namespace/key"; "" for all.
        """
        node = self.get_node(project, zone, name)
        try:
            # gcloud asks for worker "" when it means all
            asked = {int(worker) for worker in workers if worker}
        except ValueError:
            raise api_errors.invalid_field("worker ids are numbers") from None
        return [
            published(self.faults, node, host, query)
            for host in node.hosts
            if not asked or host.worker in asked
        ]

    # ---- faults ---------------------------------------------------------------------------------

    def publishes(self, node: NodeRecord) -> bool:
        """Whether an instance's or its project's metadata switches guest attributes on."""
        key = "enable-guest-attributes"
        value = node.metadata.get(key, self.project_metadata.get(node.project, {}).get(key, ""))
        return value.lower() == "true"

    def add_fault(self, fault: Fault) -> Fault:
        fault.id = f"{self._chance.getrandbits(32):08x}"
        self.faults.add(fault)
        return fault

    def preempt(self, node: NodeRecord) -> None:
        """Google takes the hosts away; the node stays as PREEMPTED until it is deleted."""
        node.state, node.health = "PREEMPTED", ""

    def find_node(self, name: str) -> NodeRecord:
        """The node or instance with that id or full path, in any zone. ApiError if there is none
        or several.
        """
        node_records = [node for node in self.machines() if name in (node.path, node.name)]
        if len(node_records) != 1:
            raise api_errors.not_found(name)
        return node_records[0]

    def find_host(self, project: str, zone: str, hostname: str) -> HostRecord:
        """The host of a READY node by its name; ApiError if there is none."""
        for node in self.machines():
            if (node.project, node.zone, node.state) == (project, zone, "READY"):
                for host in node.own_hosts:
                    if host.hostname == hostname:
                        return host
        path = f"projects/{project}/zones/{zone}/instances/{hostname}"
        raise api_errors.resource_not_found(path)

    # ---- internals ------------------------------------------------------------------------------

    def _requested_type(self, request: NodeRequest, zone: str) -> catalog.AcceleratorType:
        offered = catalog.types_in(zone, "tpu")
        if request.type:
            fitting = [accelerator for accelerator in offered if accelerator.name == request.type]
            description = request.type
        elif request.config_type:
            fitting = [
                accelerator
                for accelerator in offered
                if (accelerator.config_type, accelerator.topology)
                == (request.config_type, request.topology)
            ]
            description = f"{request.config_type} {request.topology}"
        else:
            raise api_errors.invalid_field("the accelerator type must be given")
        if not fitting:
            raise api_errors.type_not_in_zone(description, zone)
        return fitting[0]

    def _node_for(self, verb: Verb, project: str, zone: str, name: str) -> NodeRecord:
        node = self.get_node(project, zone, name)
        self.take_permission_fault(f"nodes.{verb}", node.path, zone)
        if node.state not in TRANSITIONS[verb].begins_in:
            raise api_errors.wrong_state(verb, node.state)
        if self.operations.in_progress(node.path):
            raise api_errors.busy(node.path)
        return node

    def take_permission_fault(self, permission: str, resource: str, zone: str) -> None:
        if self.faults.consume("permission", zone):
            raise api_errors.permission(f"tpu.{permission}", resource)

    def _begin(self, verb: Verb, node: NodeRecord) -> EmulatedOperation:
        node.state = TRANSITIONS[verb].during or node.state
        return self.operations.begin(verb, node.path)
