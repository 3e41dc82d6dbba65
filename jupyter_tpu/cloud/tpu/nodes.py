"""Nodes between the API's JSON and our models.

REST answers in this JSON; messages of gRPC come here through protobuf's own JSON mapping, so that
there is one parser for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...catalog import UnknownType, accelerator_type
from ..models import (
    DataDisk,
    Endpoint,
    GuestAttributes,
    Node,
    NodeName,
    NodeOptions,
    NodeSpec,
    NodeState,
    Tier,
)

if TYPE_CHECKING:
    from google.cloud import tpu_v2


#: google.cloud.tpu_v2.Node.State in our words, where ours are others.
_STATES = {
    "REIMAGING": NodeState.RESTARTING,
    "HIDING": NodeState.STOPPING,
    "UNHIDING": NodeState.STARTING,
    "UNKNOWN": NodeState.FAILED,  # "unknown state after a failed repair"
    "STATE_UNSPECIFIED": NodeState.UNKNOWN,
}


#: google.cloud.tpu_v2.Node.ApiVersion of TPU Nodes, the architecture before TPU VMs.
_RETIRED = ("V1_ALPHA1", "V1")

#: The label of flex-start TPUs; its value: for how many seconds they run. Google says that of
#: queued resources only, and only in v2alpha1, which the installed client does not read.
FLEX_START = "jupyter-tpu-flex-start"

#: The fields of a node's JSON that our models have, and the API's version.
_PARSED = frozenset(
    {"name", "id", "acceleratorType", "state", "health", "healthDescription", "runtimeVersion"}
    | {"schedulingConfig", "networkEndpoints", "createTime", "metadata", "labels", "apiVersion"}
    | {"queuedResource"}
)


def node_path(name: NodeName) -> str:
    """``projects/P/locations/Z/nodes/N``, as the API spells it."""
    return f"projects/{name.project}/locations/{name.zone}/nodes/{name.node}"


def parse_node_path(path: str) -> NodeName:
    """Raises ValueError for what is not a node's path."""
    _, project, _, zone, _, node = path.split("/")
    return NodeName(project, zone, node)


def parse_state(word: str) -> NodeState:
    """Google's word for a node's state in ours; UNKNOWN for one that we don't know."""
    if word in _STATES:
        return _STATES[word]
    return NodeState.__members__.get(word, NodeState.UNKNOWN)


def parse_node(data: Mapping[str, Any]) -> Node:
    """A node from its JSON, which leaves out fields that have their default value.

    Raises KeyError, AttributeError, TypeError or ValueError for what is not a node.
    """
    # A value newer than the installed client arrives as a plain number.
    word = str(data.get("state", ""))
    state = parse_state(word)
    tier, run_for = parse_tier(data)
    return Node(
        name=parse_node_path(data["name"]),
        id=str(data.get("id", "")),
        type=data.get("acceleratorType", ""),
        state=state,
        cloud_state=word if word != state else "",
        health=str(data.get("health", "")),
        health_description=data.get("healthDescription", ""),
        version=data.get("runtimeVersion", ""),
        tier=tier,
        run_for=run_for,
        endpoints=_endpoints(data),
        created=data.get("createTime", ""),
        metadata=dict(data.get("metadata", {})),
        labels=dict(data.get("labels", {})),
        queued=data.get("queuedResource", "").rpartition("/")[2],
        retired=data.get("apiVersion") in _RETIRED,
        request=_request(data),
        details={key: value for key, value in data.items() if key not in _PARSED},
    )


def parse_tier(data: Mapping[str, Any]) -> tuple[Tier, float | None]:
    """The tier of a Node; of flex-start also for how many seconds it runs, if that is known."""
    scheduling = data.get("schedulingConfig", {})
    seconds = data.get("labels", {}).get(FLEX_START)
    if seconds is not None:
        # Anybody may write a label: at most the 7 days of Google.
        return "flex-start", float(seconds) if re.fullmatch(r"\d{1,6}", seconds) else None
    if scheduling.get("spot") or scheduling.get("preemptible"):
        return "spot", None
    return "reserved" if scheduling.get("reserved") else "on-demand", None


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

    options = spec.options
    node = tpu_v2.Node(
        description=options.description,
        runtime_version=spec.version,
        network_config=tpu_v2.NetworkConfig(
            network=spec.network or "",
            subnetwork=spec.subnetwork or "",
            enable_external_ips=not options.internal_ips,
        ),
        scheduling_config=tpu_v2.SchedulingConfig(
            spot=spec.tier == "spot", reserved=spec.tier == "reserved"
        ),
        labels=spec.labels,
        metadata=spec.metadata,
        tags=options.tags,
        data_disks=[
            tpu_v2.AttachedDisk(
                source_disk=disk.source,
                mode=disk.mode.upper().replace("-", "_"),
            )
            for disk in options.data_disks
        ],
    )
    if options.topology:
        node.accelerator_config = tpu_v2.AcceleratorConfig(
            type_=accelerator_type(spec.type).config_type,
            topology=options.topology,
        )
    else:
        node.accelerator_type = spec.type
    if options.service_account or options.scopes:
        node.service_account = tpu_v2.ServiceAccount(
            email=options.service_account, scope=options.scopes
        )
    if options.secure_boot:
        node.shielded_instance_config = tpu_v2.ShieldedInstanceConfig(enable_secure_boot=True)
    return node


def _request(data: Mapping[str, Any]) -> NodeSpec:
    """`node_message`, read backwards from a node's JSON."""
    network: Mapping[str, Any] = data.get("networkConfig") or next(
        iter(data.get("networkConfigs", ())), {}
    )
    account = data.get("serviceAccount", {})
    endpoints = _endpoints(data)
    # One that does not run has no external addresses now.
    external = network.get("enableExternalIps") or any(host.external for host in endpoints)
    return NodeSpec(
        type=data.get("acceleratorType", ""),
        version=data.get("runtimeVersion", ""),
        tier=parse_tier(data)[0],
        network=network.get("network"),
        subnetwork=network.get("subnetwork"),
        labels=data.get("labels", {}),
        metadata=data.get("metadata", {}),
        options=NodeOptions(
            topology=_unusual_topology(data),
            internal_ips=bool(network or endpoints) and not external,
            service_account=account.get("email", ""),
            scopes=account.get("scope", []),
            data_disks=[
                DataDisk(
                    source=disk["sourceDisk"],
                    mode="read-only" if "ONLY" in str(disk.get("mode")) else "read-write",
                )
                for disk in data.get("dataDisks", ())
                if disk.get("sourceDisk")
            ],
            tags=data.get("tags", []),
            description=data.get("description", ""),
            secure_boot=bool(data.get("shieldedInstanceConfig", {}).get("enableSecureBoot")),
        ),
    )


def _unusual_topology(data: Mapping[str, Any]) -> str:
    """Its topology, if its type alone would not ask for the same."""
    topology = str(data.get("acceleratorConfig", {}).get("topology", ""))
    try:
        usual = accelerator_type(data.get("acceleratorType", "")).topology
    except UnknownType:
        return ""
    return "" if topology == usual else topology


def uses_os_login(metadata: Mapping[str, str]) -> bool | None:
    """Whether Google decides who logs in where this is the metadata of a TPU or a project; None if
    it does not say so. The TPU's own comes before its project's.
    """
    said = metadata.get("enable-oslogin")
    return None if said is None else said.strip().lower() in ("true", "t", "1", "y", "yes")


def has_ssh_key(node: Node, user: str, public_key: str) -> bool:
    """Whether the node's metadata lets *public_key* log in as *user*."""
    blob = public_key.split()[1]
    lines = node.metadata.get("ssh-keys", "").splitlines()
    return any(line.startswith(f"{user}:") and blob in line.split() for line in lines)
