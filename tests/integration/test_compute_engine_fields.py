"""The fields that `ComputeEngine` sends and reads are those of Google's own client."""

import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import google_compute
import pytest

from jupyter_tpu.cloud import DataDisk, NodeName, NodeOptions, NodeSpec
from jupyter_tpu.cloud.compute_engine import nodes, slices
from jupyter_tpu.cloud.compute_engine.machines import instance_body, template_properties

NAME = NodeName("p", "us-east5-a", "my-tpu")
OPTIONS = NodeOptions(
    internal_ips=True,
    data_disks=[DataDisk(source="projects/p/zones/z/disks/d", mode="read-only")],
    tags=["ssh"],
    description="For tests",
    secure_boot=True,
)
SPECS = [
    NodeSpec(type="v6e-4", version="", network="net", subnetwork="sub", options=OPTIONS),
    NodeSpec(type="v5p-8", version="projects/p/global/images/mine", tier="spot", run_for=60.0),
    NodeSpec(type="tpu7x-8", version="", tier="flex-start", run_for=3600.0, metadata={"a": "b"}),
    NodeSpec(type="v6e-8", version="", tier="reserved", reservation="projects/q/reservations/r"),
]
#: The fields whose values are names of an enum, by their message; the enum.
ENUMS = {
    ("Scheduling", "provisioningModel"): "Scheduling.ProvisioningModel",
    ("Scheduling", "onHostMaintenance"): "Scheduling.OnHostMaintenance",
    ("Scheduling", "instanceTerminationAction"): "Scheduling.InstanceTerminationAction",
    ("ReservationAffinity", "consumeReservationType"): "ReservationAffinity.ConsumeReservationType",
    ("NetworkInterface", "nicType"): "NetworkInterface.NicType",
    ("AccessConfig", "type"): "AccessConfig.Type",
    ("AttachedDisk", "mode"): "AttachedDisk.Mode",
    ("ResourcePolicyWorkloadPolicy", "type"): "ResourcePolicyWorkloadPolicy.Type",
    (
        "ResourcePolicyWorkloadPolicy",
        "acceleratorTopologyMode",
    ): "ResourcePolicyWorkloadPolicy.AcceleratorTopologyMode",
    ("InstanceGroupManagerTargetSizePolicy", "mode"): "InstanceGroupManagerTargetSizePolicy.Mode",
    ("InstanceGroupManagerUpdatePolicy", "type"): "InstanceGroupManagerUpdatePolicy.Type",
    (
        "InstanceGroupManagerInstanceLifecyclePolicy",
        "defaultActionOnFailure",
    ): "InstanceGroupManagerInstanceLifecyclePolicy.DefaultActionOnFailure",
}
seen: set[tuple[str, str]] = set()


def check(body: Any, descriptor: Any) -> None:
    """That *body* is JSON of the message, in the JSON form of its types: int64 as a string."""
    fields = {field.json_name: field for field in descriptor.fields}
    for name, value in body.items():
        assert name in fields, f"{descriptor.name} has no {name}"
        field = fields[name]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            assert all(isinstance(text, str) for text in value.values())
            continue
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
        assert isinstance(value, list) == bool(repeated), f"{descriptor.name}.{name}"
        for item in value if isinstance(value, list) else [value]:
            if field.message_type is not None:
                check(item, field.message_type)
            elif field.type in (field.TYPE_INT64, field.TYPE_INT32, field.TYPE_UINT64):
                assert not isinstance(item, bool)
                assert str(item).isdecimal()
            else:
                assert isinstance(item, bool if field.type == field.TYPE_BOOL else str)
            if (enum := ENUMS.get((descriptor.name, name))) is not None:
                seen.add((descriptor.name, name))
                assert item in attrgetter(enum)(google_compute).__members__


def of(message: str) -> Any:
    return getattr(google_compute, message).pb().DESCRIPTOR


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.tier)
def test_what_is_sent_has_googles_fields_types_and_words(spec):
    check(instance_body(NAME, spec), of("Instance"))
    check(template_properties(NAME, spec), of("InstanceProperties"))


def test_a_slices_parts_have_googles_fields_types_and_words():
    spec = NodeSpec(type="v6e-16", version="", labels={"a": "b"}, options=OPTIONS)
    parts = slices.Slices(None)  # no call is made
    check(parts.template_body(NAME, spec), of("InstanceTemplate"))
    check(parts.policy_body(NAME, spec, "label"), of("ResourcePolicy"))
    group = parts.group_body(NAME, spec)
    check(group, of("InstanceGroupManager"))
    assert (group["targetSize"], group["targetSizePolicy"]) == (4, {"mode": "BULK"})
    for node_spec in SPECS:
        check(instance_body(NAME, node_spec), of("Instance"))
    assert seen == set(ENUMS), "each of these words is sent by a test"


def test_googles_states_are_understood():
    words = set(google_compute.Instance.Status.__members__) - {"UNDEFINED_STATUS"}
    assert words == set(nodes._STATES)
    topologies = google_compute.InstanceGroupManagerStatusAcceleratorTopology.State.__members__
    source = Path(nodes.__file__).read_text(encoding="utf-8")
    known = set(re.findall(r'"([A-Z]+)"', source))
    assert set(topologies) - {"UNDEFINED_STATE", "ACTIVATING"} <= known  # that is CREATING


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("Instance", "resourceStatus.scheduling.terminationTimestamp"),
        ("Instance", "resourceStatus.upcomingMaintenance.maintenanceStatus"),
        ("Instance", "resourceStatus.upcomingMaintenance.windowStartTime"),
        ("Instance", "resourceStatus.upcomingMaintenance.windowEndTime"),
        ("Instance", "resourceStatus.upcomingMaintenance.canReschedule"),
        ("Instance", "resourceStatus.upcomingMaintenance.type"),
        ("Instance", "networkInterfaces.networkIP"),
        ("Instance", "networkInterfaces.accessConfigs.natIP"),
        ("Instance", "lastStopTimestamp"),
        ("Instance", "labelFingerprint"),
        ("InstanceGroupManager", "currentActions.deleting"),
        ("InstanceGroupManager", "status.isStable"),
        ("InstanceGroupManager", "distributionPolicy.zones.zone"),
        (
            "InstanceGroupManager",
            "status.bulkInstanceOperation.lastProgressCheck.error.errors.code",
        ),
        ("InstanceGroupManager", "status.bulkInstanceOperation.lastProgressCheck.timestamp"),
        ("InstanceGroupManager", "status.appliedAcceleratorTopologies.acceleratorTopology"),
        ("InstanceGroupManager", "status.appliedAcceleratorTopologies.stateDetails.error"),
        ("InstanceGroupManagersListManagedInstancesResponse", "managedInstances.lastAttempt"),
        ("ManagedInstance", "lastAttempt.errors.errors.message"),
        ("Operation", "error.errors.message"),
        ("Operation", "insertTime"),
        ("Operation", "operationType"),
        ("Operation", "targetLink"),
        ("GuestAttributes", "queryValue.items.namespace"),
        ("InstancesSetLabelsRequest", "labelFingerprint"),
        ("InstanceAggregatedList", "unreachables"),
    ],
)
def test_what_is_read_is_a_field_of_googles(message, path):
    descriptor = of(message)
    for name in path.split("."):
        fields = {field.json_name: field for field in descriptor.fields}
        assert name in fields, f"{descriptor.name} has no {name}"
        descriptor = fields[name].message_type
