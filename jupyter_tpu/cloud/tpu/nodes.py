"""Nodes between the API's messages and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models import Endpoint, Node, NodeName, NodeSpec, Tier

if TYPE_CHECKING:
    from google.cloud import tpu_v2


def parse_node(message: tpu_v2.Node) -> Node:
    """Our description of the API's *message*."""
    return Node(
        name=NodeName.parse(message.name),
        id=str(message.id) if message.id else "",
        type=message.accelerator_type,
        state=_name(message.state, "STATE_UNSPECIFIED"),
        health=_name(message.health, "HEALTH_UNSPECIFIED"),
        health_description=message.health_description,
        version=message.runtime_version,
        tier=_tier(message),
        endpoints=_endpoints(message),
        created=message.create_time.rfc3339() if message.create_time else "",
        metadata=dict(message.metadata),
        labels=dict(message.labels),
    )


def _name(value: Any, unspecified: str) -> str:
    # A value newer than the installed client arrives as a plain number.
    name = getattr(value, "name", str(value))
    return "" if name == unspecified else name


def _tier(message: tpu_v2.Node) -> Tier:
    scheduling = message.scheduling_config
    if scheduling.spot or scheduling.preemptible:
        return "spot"
    return "reserved" if scheduling.reserved else "on-demand"


def _endpoints(message: tpu_v2.Node) -> tuple[Endpoint, ...]:
    # With several networks each host has one endpoint per network; the first is the primary one.
    step = max(1, len(message.network_configs))
    return tuple(
        Endpoint(internal=endpoint.ip_address, external=endpoint.access_config.external_ip)
        for endpoint in list(message.network_endpoints)[::step]
    )


def node_message(spec: NodeSpec) -> tpu_v2.Node:
    """The API's message that asks for *spec*."""
    from google.cloud import tpu_v2

    return tpu_v2.Node(
        accelerator_type=spec.type,
        runtime_version=spec.version,
        network_config=tpu_v2.NetworkConfig(
            network=spec.network or "",
            subnetwork=spec.subnetwork or "",
            enable_external_ips=True,
        ),
        scheduling_config=tpu_v2.SchedulingConfig(
            spot=spec.tier == "spot", reserved=spec.tier == "reserved"
        ),
        labels=spec.labels,
        metadata=spec.metadata,
    )


def has_ssh_key(node: Node, user: str, public_key: str) -> bool:
    """Whether the node's metadata lets *public_key* log in as *user*."""
    blob = public_key.split()[1]
    lines = node.metadata.get("ssh-keys", "").splitlines()
    return any(line.startswith(f"{user}:") and blob in line.split() for line in lines)
