"""Nodes between the API's JSON and our models.

REST answers in this JSON; messages of gRPC come here through protobuf's own JSON mapping, so that
there is one parser for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..models import Endpoint, GuestAttributes, Node, NodeName, NodeSpec, Tier

if TYPE_CHECKING:
    from google.cloud import tpu_v2


def parse_node(data: Mapping[str, Any]) -> Node:
    """A node from its JSON, which leaves out fields that have their default value.

    Raises KeyError, AttributeError, TypeError or ValueError for what is not a node.
    """
    return Node(
        name=NodeName.parse(data["name"]),
        id=str(data.get("id", "")),
        type=data.get("acceleratorType", ""),
        # A value newer than the installed client arrives as a plain number.
        state=str(data.get("state", "")),
        health=str(data.get("health", "")),
        health_description=data.get("healthDescription", ""),
        version=data.get("runtimeVersion", ""),
        tier=_tier(data.get("schedulingConfig", {})),
        endpoints=_endpoints(data),
        created=data.get("createTime", ""),
        metadata=dict(data.get("metadata", {})),
        labels=dict(data.get("labels", {})),
    )


def _tier(scheduling: Mapping[str, Any]) -> Tier:
    if scheduling.get("spot") or scheduling.get("preemptible"):
        return "spot"
    return "reserved" if scheduling.get("reserved") else "on-demand"


def _endpoints(data: Mapping[str, Any]) -> tuple[Endpoint, ...]:
    # With several networks each host has one endpoint per network; the first is the primary one.
    step = max(1, len(data.get("networkConfigs", ())))
    return tuple(
        Endpoint(
            internal=endpoint.get("ipAddress", ""),
            external=endpoint.get("accessConfig", {}).get("externalIp", ""),
        )
        for endpoint in data.get("networkEndpoints", ())[::step]
    )


def parse_guest_attributes(data: Mapping[str, Any]) -> list[GuestAttributes]:
    """One dictionary per host, in order; raises as `parse_node` does."""
    return [
        {
            (item["namespace"], item["key"]): item.get("value", "")
            for item in host.get("queryValue", {}).get("items", ())
        }
        for host in data.get("guestAttributes", ())
    ]


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
