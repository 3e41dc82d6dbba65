"""Compute Engine's descriptions as our models: a single instance, or a group of them.

Raises KeyError, AttributeError, TypeError or ValueError for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from ...errors import Reason, TPUError
from ..models import (
    END_LABEL,
    OPERATION_LABEL,
    Endpoint,
    Maintenance,
    Node,
    NodeName,
    NodeState,
    QueuedState,
    QueuedTPUs,
    Tier,
)
from .errors import first_error
from .machines import MODELS, request_of, type_of

Body = Mapping[str, Any]

#: For lists: the machine types with TPUs. Google's regular expressions match whole fields.
TPU_FILTER = 'machineType eq ".*/(ct[0-9]|tpu).*"'
_TPU_MACHINE = re.compile(r"(ct\d|tpu\d)")
#: The labels of a slice's template and group, which say what it is before it has hosts.
TYPE, TIER = "jupyter-tpu-type", "jupyter-tpu-tier"
_MARKS = (TYPE, TIER, END_LABEL)
#: The metadata of an instance that a group has made: the group's URL.
_CREATED_BY = "created-by"
_GROUP = re.compile(r"projects/[^/]+/((?:zones|regions)/[^/]+/instanceGroupManagers/[^/]+)$")
#: What is the same for all instances of a group.
_OF_ALL = (
    *("scheduling", "disks", "reservationAffinity", "shieldedInstanceConfig", "serviceAccounts"),
    "tags",
)
#: The label of GKE's nodes.
_OF_GKE = "goog-gke-node"
#: For how long a group may have some of its hosts only, before it counts as failed; seconds.
INCOMPLETE_LIMIT = 3600.0

#: compute.Instance.Status in our words.
_STATES = {
    "PENDING": NodeState.CREATING,
    "PROVISIONING": NodeState.CREATING,
    "STAGING": NodeState.CREATING,
    "RUNNING": NodeState.READY,
    "STOPPING": NodeState.STOPPING,
    "PENDING_STOP": NodeState.STOPPING,
    "SUSPENDING": NodeState.STOPPING,
    "DEPROVISIONING": NodeState.DELETING,
    "TERMINATED": NodeState.STOPPED,
    "STOPPED": NodeState.STOPPED,
    "SUSPENDED": NodeState.STOPPED,
    "REPAIRING": NodeState.REPAIRING,
}
_TIERS: dict[str, Tier] = {model: tier for tier, model in MODELS.items()}
#: While Google makes hosts of a group, for the first time or again.
_MAKING = (NodeState.CREATING, NodeState.REPAIRING, NodeState.RESTARTING)
#: The fields of an instance that our models have.
_PARSED = frozenset(
    {"kind", "id", "name", "status", "zone", "machineType", "labels", "labelFingerprint"}
    | {"metadata", "creationTimestamp", "networkInterfaces", "selfLink"}
)


def is_tpu(instance: Body) -> bool:
    """Whether it has TPU chips, and nobody else manages it: GKE's nodes are instances, too."""
    machine = _last(str(instance["machineType"]))
    return bool(_TPU_MACHINE.match(machine)) and _OF_GKE not in instance.get("labels", {})


def group_of(instance: Body) -> str:
    """The group that made it, as "zones/Z/instanceGroupManagers/G"; "" for one that is alone.

    Google writes the project's number there, not its name.
    """
    match = _GROUP.search(metadata_of(instance).get(_CREATED_BY, ""))
    return match[1] if match else ""


def metadata_of(resource: Body) -> dict[str, str]:
    items = resource.get("metadata", {}).get("items", ())
    return {str(item["key"]): str(item.get("value", "")) for item in items}


def parse_instance(data: Body) -> Node:
    """A TPU of one host."""
    word = str(data.get("status", ""))
    state = _STATES.get(word, NodeState.UNKNOWN)
    tier = _tier(data)
    if state is NodeState.STOPPED and tier == "spot":
        state = NodeState.PREEMPTED  # by Google, or stopped by others: it can't be started again
    elif state is NodeState.CREATING and data.get("lastStopTimestamp"):
        state = NodeState.STARTING
    scheduling = data.get("scheduling", {})
    node = Node(
        name=NodeName(_project(data), str(data["zone"]).rpartition("/")[2], data["name"]),
        id=str(data["id"]),
        type=type_of(_last(data["machineType"])),
        state=state,
        cloud_state=word if word not in (state, "RUNNING") else "",
        health_description=str(data.get("statusMessage", "")),
        version=_image(data),
        tier=tier,
        run_for=_seconds(scheduling.get("maxRunDuration")),
        endpoints=(endpoint(data),),
        created=data.get("creationTimestamp", ""),
        metadata=_own(metadata_of(data)),
        labels={key: text for key, text in data.get("labels", {}).items() if key != END_LABEL},
        api="compute",
        waiting=word == "PENDING",
        ends=_ends(data),
        details={key: value for key, value in data.items() if key not in _PARSED},
    )
    return structs.replace(node, request=request_of(node, data))


def parse_group(
    group: Body, members: Sequence[Body], zone: str, template: Body | None = None
) -> Node:
    """A TPU of several hosts. *members*: those of its instances that exist, in any order.
    *template*: what it has instances of, for one that has none any more.
    """
    members = sorted(members, key=lambda instance: str(instance["name"]))
    labels = _labels(group, members)
    statuses = [str(member.get("status", "")) for member in members]
    topology = _topology(group)
    pattern: Body = members[0] if members else (template or {}).get("properties", {})
    machine = _last(str(pattern.get("machineType", "")))
    tier = _tier(pattern) if pattern else _labelled_tier(labels)
    state = _group_state(group, statuses, topology, tier)
    making = state in _MAKING
    error = _making_error(group, _project(group)) if making else None
    waiting = state is NodeState.CREATING and tier == "flex-start" and not members
    waits = waiting and (error is None or error.reason in _WAITED_FOR)
    node = Node(
        name=NodeName(_project(group), zone, group["name"]),
        id=labels.get(OPERATION_LABEL) or str(group["id"]),
        type=labels.get(TYPE) or (type_of(machine, topology.get("acceleratorTopology", ""))),
        state=state,
        cloud_state=_group_word(state, topology, waits=waits),
        health_description=_progress(group, statuses, error) if making else "",
        version=_image(pattern),
        tier=tier,
        run_for=_seconds(pattern.get("scheduling", {}).get("maxRunDuration")),
        endpoints=tuple(map(endpoint, members)),
        created=group.get("creationTimestamp", ""),
        metadata=_shared([_own(metadata_of(member)) for member in members or [pattern]]),
        labels={key: text for key, text in labels.items() if key not in _MARKS},
        api="compute",
        waiting=waits,
        problem=None if waits else _problem(group, members, error, topology),
        ends=min(filter(None, map(_ends, members)), default=""),
        details={
            "group": group.get("selfLink", ""),
            "description": group.get("description", ""),
            "status": group.get("status", {}),
            **{key: pattern[key] for key in _OF_ALL if key in pattern},
        },
    )
    return structs.replace(node, request=request_of(node, pattern))


def parse_template(template: Body, name: NodeName) -> Node:
    """A slice that has no group: not yet, or no more."""
    properties = template["properties"]
    labels = dict(properties.get("labels", {}))
    node = Node(
        name=name,
        id=labels.get(OPERATION_LABEL) or str(template["id"]),
        type=labels.get(TYPE, properties["machineType"]),
        state=NodeState.CREATING,
        tier=_tier(properties),
        created=template.get("creationTimestamp", ""),
        metadata=metadata_of(properties),
        labels={key: text for key, text in labels.items() if key not in _MARKS},
        api="compute",
        unfinished=True,
    )
    return structs.replace(node, request=request_of(node, properties))


def is_slice(group: Body, members: Sequence[Body]) -> bool:
    """Whether a group is one of TPUs: it has some, or a mode that only TPUs have."""
    bulk = group.get("targetSizePolicy", {}).get("mode") == "BULK"
    policy = group.get("resourcePolicies", {}).get("workloadPolicy")
    expected = int(group.get("targetSize", 0)) or group_labels(group).get(TYPE)
    return any(map(is_tpu, members)) or bool(bulk and policy and expected)


def group_labels(group: Body) -> dict[str, str]:
    properties = group.get("allInstancesConfig", {}).get("properties", {})
    return dict(properties.get("labels", {}))


def endpoint(instance: Body) -> Endpoint:
    interface: Body = next(iter(instance.get("networkInterfaces", ())), {})
    access: Body = next(iter(interface.get("accessConfigs", ())), {})
    return Endpoint(
        internal=interface.get("networkIP", ""),
        external=access.get("natIP", ""),
        instance=str(instance["name"]),
        id=str(instance["id"]),
    )


def maintenance_of(instance: Body) -> Maintenance | None:
    """What Google announces or does."""
    upcoming = instance.get("resourceStatus", {}).get("upcomingMaintenance")
    if not upcoming:
        return None
    return Maintenance(
        ongoing=upcoming.get("maintenanceStatus") == "ONGOING",
        scheduled=upcoming.get("type") == "SCHEDULED",
        start=str(upcoming.get("windowStartTime", "")),
        end=str(upcoming.get("windowEndTime", "")),
        can_reschedule=bool(upcoming.get("canReschedule")),
    )


def parse_queued(node: Node) -> QueuedTPUs:
    """A flex-start TPU as a request that waits."""
    states = {
        NodeState.READY: QueuedState.ACTIVE,
        NodeState.DELETING: QueuedState.DELETING,
        NodeState.CREATING: QueuedState.WAITING_FOR_RESOURCES
        if node.waiting
        else QueuedState.CREATING
        if node.unfinished
        else QueuedState.PROVISIONING,
        NodeState.PREEMPTED: QueuedState.SUSPENDED,
        NodeState.TERMINATED: QueuedState.SUSPENDED,
    }
    return QueuedTPUs(
        name=node.name,
        id=node.id,
        state=QueuedState.FAILED
        if node.problem is not None
        else states.get(node.state, QueuedState.ACTIVE),
        error=node.problem,
        created=node.created,
        nodes=(node.name.node,),
        type=node.type,
        version=node.version,
        tier=node.tier,
        run_for=node.run_for,
        labels=node.labels,
        unfinished=node.unfinished,
    )


#: What a request of flex-start waits for, and so is no reason to end it: one that is short of quota
#: is accepted and waits, too.
_WAITED_FOR = (Reason.NO_CAPACITY, Reason.QUOTA)


def _group_state(group: Body, statuses: list[str], topology: Body, tier: Tier) -> NodeState:
    target = int(group.get("targetSize", 0))
    actions = group.get("currentActions", {})
    state = topology.get("state", "")
    if target and int(actions.get("deleting", 0)) == target:
        return NodeState.DELETING
    if not target:  # its time was over
        return NodeState.DELETING if statuses else NodeState.TERMINATED
    if state == "FAILED":
        return NodeState.FAILED
    running = [status for status in statuses if status == "RUNNING"]
    connected = state == "ACTIVE" or not _policy(group)
    if len(running) == target and group["status"].get("isStable") and connected:
        return NodeState.READY
    if tier == "spot" and "TERMINATED" in statuses:
        return NodeState.PREEMPTED
    return {
        "REACTIVATING": NodeState.RESTARTING,
        "INCOMPLETE": NodeState.REPAIRING,
        "ACTIVE": NodeState.REPAIRING,
        "DEACTIVATING": NodeState.STOPPING,
    }.get(state, NodeState.CREATING)


def _group_word(state: NodeState, topology: Body, *, waits: bool) -> str:
    """Google's word for it: of a group that waits for capacity, that of an instance."""
    if waits:
        return "PENDING"
    return "" if state is NodeState.READY else str(topology.get("state", ""))


def _making_error(group: Body, project: str) -> TPUError | None:
    """Why Google does not make its instances now."""
    progress = group["status"].get("bulkInstanceOperation", {}).get("lastProgressCheck", {})
    return first_error(progress.get("error", {}).get("errors", ()), project=project)


def _problem(
    group: Body, members: Sequence[Body], error: TPUError | None, topology: Body
) -> TPUError | None:
    """Why a group that is being made never will be a TPU; Google goes on trying."""
    if topology.get("state") == "FAILED":
        failure = topology.get("stateDetails", {}).get("error", {})
        return first_error(failure.get("errors", ())) or TPUError(
            f"Google could not connect the chips of {group['name']}.",
            Reason.CONFLICT,
            "Delete it and create it again.",
        )
    if error is None or not members:
        return error
    if _age(group) < INCOMPLETE_LIMIT:
        return None
    return TPUError(
        f"Only {len(members)} of {group['targetSize']} hosts of {group['name']} were created "
        f"within {INCOMPLETE_LIMIT / 60:.0f} minutes. {error.message}",
        error.reason,
        error.hint,
        scope=error.scope,
    )


def _age(group: Body) -> float:
    """Seconds from its creation to Google's last look at it, by Google's clock."""
    progress = group["status"].get("bulkInstanceOperation", {}).get("lastProgressCheck", {})
    if not (last := progress.get("timestamp")):
        return 0.0
    made = datetime.fromisoformat(group["creationTimestamp"])
    return (datetime.fromisoformat(last) - made).total_seconds()


def _progress(group: Body, statuses: list[str], error: TPUError | None) -> str:
    running = statuses.count("RUNNING")
    text = f"{running} of {group.get('targetSize', 0)} hosts run."
    return f"{text} {error.message}" if error is not None else text


def _topology(group: Body) -> Body:
    topology: Body = next(iter(group["status"].get("appliedAcceleratorTopologies", ())), {})
    return topology


def _policy(group: Body) -> str:
    return str(group.get("resourcePolicies", {}).get("workloadPolicy", ""))


def _labels(group: Body, members: Sequence[Body]) -> dict[str, str]:
    return {**_shared([member.get("labels", {}) for member in members]), **group_labels(group)}


def _shared(label_sets: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all have."""
    first, *others = label_sets or ({},)
    return {key: text for key, text in first.items() if all(o.get(key) == text for o in others)}


def _own(metadata: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in metadata.items() if key != _CREATED_BY}


def _tier(resource: Body) -> Tier:
    scheduling = resource.get("scheduling", {})
    model = str(scheduling.get("provisioningModel", ""))
    affinity = resource.get("reservationAffinity", {}).get("consumeReservationType")
    if model == "STANDARD" and affinity == "SPECIFIC_RESERVATION":
        return "reserved"
    return _TIERS.get(model, "spot" if scheduling.get("preemptible") else "on-demand")


def _labelled_tier(labels: Mapping[str, str]) -> Tier:
    return next((tier for tier in MODELS if tier == labels.get(TIER)), "on-demand")


def _image(instance: Body) -> str:
    """The family, where Google says it."""
    boot: Body = next((disk for disk in instance.get("disks", ()) if disk.get("boot")), {})
    return _last(str(boot.get("initializeParams", {}).get("sourceImage", "")))


def _ends(instance: Body) -> str:
    scheduling = instance.get("resourceStatus", {}).get("scheduling", {})
    return str(scheduling.get("terminationTimestamp", ""))


def _seconds(duration: Body | None) -> float | None:
    return float(duration["seconds"]) if duration and duration.get("seconds") else None


def _project(resource: Body) -> str:
    return str(resource["selfLink"]).partition("/projects/")[2].partition("/")[0]


def _last(url: str) -> str:
    return url.rpartition("/")[2]
