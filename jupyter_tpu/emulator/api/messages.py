"""Records into google.cloud.tpu_v2 messages and back. Plain protobuf classes, no transport."""

from __future__ import annotations

from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import error_details_pb2, status_pb2

from ...catalog import AcceleratorType
from ..model.api_errors import ApiError
from ..model.records import NetworkRecord, NodeRecord, NodeRequest, OperationRecord

NodeMessage: Any = tpu_v2.Node.pb()
AcceleratorTypeMessage: Any = tpu_v2.AcceleratorType.pb()
RuntimeVersionMessage: Any = tpu_v2.RuntimeVersion.pb()
OperationMetadataMessage: Any = tpu_v2.OperationMetadata.pb()
AcceleratorConfigMessage: Any = tpu_v2.AcceleratorConfig.pb()

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
RUNTIME_PORT = 8470  # what the API shows as a network endpoint's port
#: Endpoints are not known yet, or no longer.
WITHOUT_ENDPOINTS = ("CREATING", "PREEMPTED")


def node_message(node: NodeRecord) -> Any:
    message = NodeMessage(
        name=node.path,
        description=node.description,
        accelerator_type=node.type,
        state=NodeMessage.State.Value(node.state),
        health_description=node.health_description,
        runtime_version=node.version,
        labels=node.labels,
        metadata=node.metadata,
        tags=node.tags,
        id=int(node.id),
        api_version=NodeMessage.ApiVersion.Value("V2"),
    )
    if node.health:
        message.health = NodeMessage.Health.Value(node.health)
    message.create_time.FromJsonString(node.created)
    message.accelerator_config.type_ = AcceleratorConfigMessage.Type.Value(
        node.accelerator.config_type
    )
    message.accelerator_config.topology = node.accelerator.topology
    if node.further_networks:
        for network in node.networks:
            _fill_network(message.network_configs.add(), node, network)
    else:
        _fill_network(message.network_config, node, node.networks[0])
    message.service_account.email = f"emulated@{node.project}.iam.gserviceaccount.com"
    message.service_account.scope.append(SCOPE)
    message.scheduling_config.preemptible = node.preemptible
    message.scheduling_config.spot = node.spot
    message.scheduling_config.reserved = node.reserved
    if node.state not in WITHOUT_ENDPOINTS:
        for host in node.hosts:
            for interface in host.interfaces:
                endpoint = message.network_endpoints.add(
                    ip_address=interface.internal, port=RUNTIME_PORT
                )
                if interface.external:
                    endpoint.access_config.external_ip = interface.external
    return message


def _fill_network(config: Any, node: NodeRecord, network: NetworkRecord) -> None:
    region = node.zone.rpartition("-")[0]
    config.network = _under(node.project, "global/networks", network.network)
    config.subnetwork = _under(node.project, f"regions/{region}/subnetworks", network.subnetwork)
    config.enable_external_ips = network.external_addresses


def node_request(message: Any) -> NodeRequest:
    """The node that a request describes."""
    config = message.accelerator_config
    # A request without a network gets an external address, as gcloud requests it.
    networks = [
        NetworkRecord(
            network=network.network or "default",
            subnetwork=network.subnetwork or "default",
            external_addresses=network.enable_external_ips,
        )
        for network in message.network_configs
        or ([message.network_config] if message.HasField("network_config") else [])
    ] or [NetworkRecord(network="default", subnetwork="default", external_addresses=True)]
    return NodeRequest(
        type=message.accelerator_type,
        config_type=(
            AcceleratorConfigMessage.Type.Name(config.type_)
            if config.type_ in AcceleratorConfigMessage.Type.values()
            else ""
        )
        if message.HasField("accelerator_config")
        else "",
        topology=config.topology,
        version=message.runtime_version,
        description=message.description,
        network=networks[0].network,
        subnetwork=networks[0].subnetwork,
        external_addresses=networks[0].external_addresses,
        further_networks=networks[1:],
        preemptible=message.scheduling_config.preemptible,
        spot=message.scheduling_config.spot,
        reserved=message.scheduling_config.reserved,
        labels=dict(message.labels),
        metadata=dict(message.metadata),
        tags=list(message.tags),
    )


def operation_message(operation: OperationRecord) -> Any:
    metadata = OperationMetadataMessage(
        target=operation.target,
        verb=operation.verb,
        cancel_requested=operation.cancel_requested,
        api_version="v2",
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
        result = empty_pb2.Empty() if operation.node is None else node_message(operation.node)
        message.response.Pack(result)
    return message


def accelerator_type_message(parent: str, accelerator: AcceleratorType) -> Any:
    message = AcceleratorTypeMessage(
        name=f"{parent}/acceleratorTypes/{accelerator.name}", type_=accelerator.name
    )
    message.accelerator_configs.add(
        type_=AcceleratorConfigMessage.Type.Value(accelerator.config_type),
        topology=accelerator.topology,
    )
    return message


def runtime_version_message(parent: str, version: str) -> Any:
    return RuntimeVersionMessage(name=f"{parent}/runtimeVersions/{version}", version=version)


def status_message(error: ApiError) -> Any:
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
    return status


def _under(project: str, collection: str, name: str) -> str:
    return name if "/" in name else f"projects/{project}/{collection}/{name}"
