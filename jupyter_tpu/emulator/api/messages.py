"""Records into the messages of one version of the API, and back. Protobuf alone, no transport."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format
from google.rpc import error_details_pb2, status_pb2

from ...catalog import AcceleratorType
from ..model import api_errors
from ..model.records import (
    DiskRecord,
    EmulatedOperation,
    NetworkRecord,
    NodeRecord,
    NodeRequest,
    QueuedRecord,
    QueuedRequest,
)
from .schema import schema

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
RUNTIME_PORT = 8470  # what the API shows as a network endpoint's port
#: Endpoints are not known yet, or no longer.
WITHOUT_ENDPOINTS = ("CREATING", "PREEMPTED")
#: Fields of a v2 NodeSpec and of a v2alpha1 NodeSpec: several nodes of one kind.
_SEVERAL = ("multislice_params", "multi_node_params")


class Messages:
    """The messages of *version*, "v2" or "v2alpha1"."""

    def __init__(self, version: str) -> None:
        self.schema = schema(version)
        self.version = version
        self._node = self.schema.message("Node")
        self._config_type = self.schema.message("AcceleratorConfig").Type
        self._disk_mode = self.schema.message("AttachedDisk").DiskMode

    # ---- nodes ----------------------------------------------------------------------------------

    def node(self, node: NodeRecord) -> Any:
        kind = self._node
        message = kind(
            name=node.path,
            accelerator_type=node.type,
            state=kind.State.Value(node.state),
            health_description=node.health_description,
            id=int(node.id),
            api_version=kind.ApiVersion.Value(
                "V1" if node.retired else self.version.upper().replace("ALPHA", "_ALPHA")
            ),
            queued_resource=node.queued_resource,
            multislice_node=node.slice is not None,
        )
        if node.health:
            message.health = kind.Health.Value(node.health)
        message.create_time.FromJsonString(node.created)
        self._fill_settings(message, node, node.networks, _Paths(node.project, node.zone))
        message.accelerator_config.type_ = self._config_type.Value(node.accelerator.config_type)
        message.accelerator_config.topology = node.accelerator.topology
        account = node.service_account or f"emulated@{node.project}.iam.gserviceaccount.com"
        message.service_account.email = account
        message.service_account.scope[:] = node.scopes or [SCOPE]
        if node.state not in WITHOUT_ENDPOINTS:
            for host in node.hosts:
                for interface in host.interfaces:
                    endpoint = message.network_endpoints.add(
                        ip_address=interface.internal, port=RUNTIME_PORT
                    )
                    if interface.external and not node.retired:
                        endpoint.access_config.external_ip = interface.external
        if (coming := node.upcoming_maintenance) is not None:
            shown = message.upcoming_maintenance
            kinds = type(shown)
            shown.type_ = kinds.MaintenanceType.Value(coming.kind)
            shown.maintenance_status = kinds.MaintenanceStatus.Value(coming.status)
            shown.can_reschedule = coming.can_reschedule
            shown.window_start_time = shown.latest_window_start_time = coming.start
            shown.window_end_time = coming.end
        return message

    def _fill_settings(
        self,
        message: Any,
        node: NodeRecord | NodeRequest,
        networks: Iterable[NetworkRecord],
        paths: _Paths,
    ) -> None:
        """What a request chose, in *message*, a Node."""
        message.description = node.description
        message.runtime_version = node.version
        message.cidr_block = node.cidr_block
        message.labels.update(node.labels)
        message.metadata.update(node.metadata)
        message.tags.extend(node.tags)
        first, *others = networks
        for network in (first, *others) if others else ():
            _fill_network(message.network_configs.add(), network, paths)
        if not others:
            _fill_network(message.network_config, first, paths)
        scheduling = message.scheduling_config
        scheduling.preemptible = node.preemptible
        scheduling.spot = node.spot
        scheduling.reserved = node.reserved
        for disk in node.data_disks:
            message.data_disks.add(source_disk=disk.source, mode=self._disk_mode.Value(disk.mode))
        if node.secure_boot:
            message.shielded_instance_config.enable_secure_boot = True
        if self.version == "v2":
            return
        models = type(scheduling).ProvisioningModel
        if node.provisioning_model and node.provisioning_model != "FLEX_START":
            scheduling.provisioning_model = models.Value(node.provisioning_model)
        scheduling.reservation_name = node.reservation_name
        message.autocheckpoint_enabled = node.autocheckpoint
        if node.encryption_key:
            message.boot_disk_config.customer_encryption_key.kms_key_name = node.encryption_key
            message.boot_disk_config.enable_confidential_compute = node.confidential_compute

    def node_request(self, message: Any) -> NodeRequest:
        """The node that a request describes. What only the service sets is skipped."""
        config, scheduling = message.accelerator_config, message.scheduling_config
        # A request without a network gets an external address, as gcloud requests it.
        networks = [
            NetworkRecord(
                network=network.network or "default",
                # A network of the mode "auto" has subnetworks of its own name.
                subnetwork=network.subnetwork or network.network.rpartition("/")[2] or "default",
                external_addresses=network.enable_external_ips,
                can_ip_forward=network.can_ip_forward,
                queue_count=network.queue_count,
            )
            for network in message.network_configs
            or ([message.network_config] if message.HasField("network_config") else [])
        ] or [NetworkRecord(network="default", subnetwork="default", external_addresses=True)]
        request = NodeRequest(
            type=message.accelerator_type,
            config_type=_name(self._config_type, config.type_),
            topology=config.topology,
            version=message.runtime_version,
            description=message.description,
            network=networks[0].network,
            subnetwork=networks[0].subnetwork,
            external_addresses=networks[0].external_addresses,
            can_ip_forward=networks[0].can_ip_forward,
            queue_count=networks[0].queue_count,
            further_networks=networks[1:],
            cidr_block=message.cidr_block,
            preemptible=scheduling.preemptible,
            spot=scheduling.spot,
            reserved=scheduling.reserved,
            service_account=message.service_account.email,
            scopes=list(message.service_account.scope),
            data_disks=[
                DiskRecord(
                    source=disk.source_disk, mode=_name(self._disk_mode, disk.mode) or "READ_WRITE"
                )
                for disk in message.data_disks
            ],
            secure_boot=message.shielded_instance_config.enable_secure_boot,
            labels=dict(message.labels),
            metadata=dict(message.metadata),
            tags=list(message.tags),
        )
        if self.version != "v2":
            disk = message.boot_disk_config
            request.provisioning_model = _name(
                type(scheduling).ProvisioningModel, scheduling.provisioning_model
            )
            request.reservation_name = scheduling.reservation_name
            request.autocheckpoint = message.autocheckpoint_enabled
            request.encryption_key = disk.customer_encryption_key.kms_key_name
            request.confidential_compute = disk.enable_confidential_compute
        return request

    # ---- queued resources -----------------------------------------------------------------------

    def queued(self, queued: QueuedRecord) -> Any:
        message = self.schema.message("QueuedResource")(
            name=queued.path, reservation_name=queued.reservation_name
        )
        message.create_time.FromJsonString(queued.created)
        paths = _Paths(queued.project, queued.zone)
        for spec in queued.specs:
            shown = message.tpu.node_spec.add(parent=queued.parent, node_id=spec.name)
            if spec.node.type:
                shown.node.accelerator_type = spec.node.type
            else:
                config = shown.node.accelerator_config
                config.type_ = self._config_type.Value(spec.node.config_type)
                config.topology = spec.node.topology
            self._fill_settings(shown.node, spec.node, spec.node.networks, paths)
            shown.node.service_account.email = spec.node.service_account
            shown.node.service_account.scope.extend(spec.node.scopes)
        if queued.tier == "guaranteed":
            message.guaranteed.SetInParent()
            if queued.min_duration:
                message.guaranteed.min_duration.FromJsonString(queued.min_duration)
        elif queued.tier == "best-effort" and self.version == "v2":
            message.spot.SetInParent()  # its older name
        elif queued.tier:
            getattr(message, queued.tier.replace("-", "_")).SetInParent()
        if queued.policy:
            json_format.ParseDict(queued.policy, message.queueing_policy)
        state = type(message.state)
        message.state.state = state.State.Value(queued.state)
        if queued.initiator:
            message.state.state_initiator = state.StateInitiator.Value(queued.initiator)
        if queued.state != "WAITING_FOR_RESOURCES":  # the one that has no data
            data = getattr(message.state, f"{queued.state.lower()}_data")
            data.SetInParent()
            if queued.error is not None:
                data.error.code, data.error.message = queued.error.code, queued.error.message
        if self.version != "v2":
            if queued.reserved:
                message.guaranteed.reserved = True
            if queued.provisioning_model:
                models = type(message).ProvisioningModel
                message.provisioning_model = models.Value(queued.provisioning_model)
            if queued.max_run_seconds:
                message.run_duration.max_run_duration.FromTimedelta(
                    timedelta(seconds=queued.max_run_seconds)
                )
        return message

    def queued_request(self, message: Any, id: str, now: datetime) -> QueuedRequest:
        """The queued resource *id* that a request describes, asked for at *now*."""
        policy = message.queueing_policy
        after, until = _window(policy, now)
        request = QueuedRequest(
            tier=(message.WhichOneof("tier") or "").replace("_", "-"),  # type: ignore[arg-type]
            reservation_name=message.reservation_name,
            policy=json_format.MessageToDict(policy),
            valid_after=after,
            valid_until=until,
        )
        if message.guaranteed.HasField("min_duration"):
            request.min_duration = message.guaranteed.min_duration.ToJsonString()
        if self.version != "v2":
            request.reserved = message.guaranteed.reserved
            model = _name(type(message).ProvisioningModel, message.provisioning_model)
            request.provisioning_model = model
            run = message.run_duration.max_run_duration
            request.max_run_seconds = run.ToTimedelta().total_seconds()
        for spec in message.tpu.node_spec:
            node = self.node_request(spec.node)
            several = next((getattr(spec, name) for name in _SEVERAL if _has(spec, name)), None)
            if several is None:
                request.specs.append((spec.node_id, node))
                continue
            if several.node_count < 2:
                raise api_errors.invalid_field("the node count must be greater than 1")
            request.multislice = True
            prefix = several.node_id_prefix or id
            request.specs += [(f"{prefix}-{at}", node) for at in range(several.node_count)]
        return request

    # ---- operations and what is offered ---------------------------------------------------------

    def operation(self, operation: EmulatedOperation) -> Any:
        metadata = self.schema.message("OperationMetadata")(
            target=operation.target,
            verb=operation.verb,
            cancel_requested=operation.cancel_requested,
            api_version=self.version,
        )
        metadata.create_time.FromJsonString(operation.created)
        if operation.ended:
            metadata.end_time.FromJsonString(operation.ended)
        message = operations_pb2.Operation(name=operation.name, done=operation.done)
        message.metadata.Pack(metadata)
        if operation.error is not None:
            message.error.CopyFrom(
                status_pb2.Status(code=operation.error.code, message=operation.error.message)
            )
        elif operation.done:
            message.response.Pack(self._result(operation))
        return message

    def _result(self, operation: EmulatedOperation) -> Any:
        if operation.node is not None:
            return self.node(operation.node)
        # The versions differ in what a deleted queued resource's operation answers.
        if operation.queued is None or (operation.verb, self.version) == ("delete", "v2"):
            return empty_pb2.Empty()
        return self.queued(operation.queued)

    def accelerator_type(self, parent: str, accelerator: AcceleratorType) -> Any:
        message = self.schema.message("AcceleratorType")(
            name=f"{parent}/acceleratorTypes/{accelerator.name}", type_=accelerator.name
        )
        message.accelerator_configs.add(
            type_=self._config_type.Value(accelerator.config_type), topology=accelerator.topology
        )
        return message

    def runtime_version(self, parent: str, version: str) -> Any:
        return self.schema.message("RuntimeVersion")(
            name=f"{parent}/runtimeVersions/{version}", version=version
        )


def status_message(error: api_errors.ApiError) -> Any:
    """google.rpc.Status with the details that the error has."""
    status = status_pb2.Status(code=error.code, message=error.message)
    if error.info is not None:
        reason, domain, metadata = error.info
        status.details.add().Pack(
            error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)
        )
    if error.retry_after is not None:
        wait = error_details_pb2.RetryInfo()
        wait.retry_delay.FromMilliseconds(round(error.retry_after * 1000))
        status.details.add().Pack(wait)
    if error.violations:
        bad = error_details_pb2.BadRequest()
        for at, text in error.violations:
            bad.field_violations.add(field=at, description=text)
        status.details.add().Pack(bad)
    return status


class _Paths:
    """Full names of the networks of a project."""

    def __init__(self, project: str, zone: str) -> None:
        self._project = project
        self._region = zone.rpartition("-")[0]

    def network(self, name: str) -> str:
        return self._under("global/networks", name)

    def subnetwork(self, name: str) -> str:
        return self._under(f"regions/{self._region}/subnetworks", name)

    def _under(self, collection: str, name: str) -> str:
        return name if "/" in name else f"projects/{self._project}/{collection}/{name}"


def _fill_network(config: Any, network: NetworkRecord, paths: _Paths) -> None:
    config.network = paths.network(network.network)
    config.subnetwork = paths.subnetwork(network.subnetwork)
    config.enable_external_ips = network.external_addresses
    config.can_ip_forward = network.can_ip_forward
    config.queue_count = network.queue_count


def _name(enum: Any, number: int) -> str:
    """The name of an enum's value; "" for the unspecified and for unknown ones."""
    return enum.Name(number) if number and number in enum.values() else ""


def _has(message: Any, field: str) -> bool:
    return field in message.DESCRIPTOR.fields_by_name and message.HasField(field)


def _window(policy: Any, now: datetime) -> tuple[str, str]:
    """When a queued resource may begin, and until when; "" where that is not limited."""

    def moment(timestamp: Any) -> str:
        return str(timestamp.ToJsonString())

    def later(duration: Any) -> str:
        return (now + duration.ToTimedelta()).astimezone(UTC).isoformat()

    match policy.WhichOneof("start_timing_constraints"):
        case "valid_until_duration":
            return "", later(policy.valid_until_duration)
        case "valid_until_time":
            return "", moment(policy.valid_until_time)
        case "valid_after_duration":
            return later(policy.valid_after_duration), ""
        case "valid_after_time":
            return moment(policy.valid_after_time), ""
        case "valid_interval":
            interval = policy.valid_interval
            return moment(interval.start_time), moment(interval.end_time)
    return "", ""
