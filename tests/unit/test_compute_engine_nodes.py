"""What Compute Engine says of instances and groups, in the project's own words."""

from typing import Any

import pytest

from jupyter_tpu.cloud import NodeState, QueuedState
from jupyter_tpu.cloud.compute_engine import errors
from jupyter_tpu.cloud.compute_engine.nodes import (
    group_of,
    is_slice,
    is_tpu,
    parse_group,
    parse_instance,
    parse_queued,
)
from jupyter_tpu.errors import Reason, TPUError

ZONE = "us-east5-a"
ROOT = "https://www.googleapis.com/compute/v1/projects/p"
GROUP = f"{ROOT}/zones/{ZONE}/instanceGroupManagers/pod"


def instance(status: str = "RUNNING", name: str = "pod-w-001", **more: Any) -> dict[str, Any]:
    return {
        "id": "7",
        "name": name,
        "status": status,
        "zone": f"{ROOT}/zones/{ZONE}",
        "selfLink": f"{ROOT}/zones/{ZONE}/instances/{name}",
        "machineType": f"{ROOT}/zones/{ZONE}/machineTypes/ct6e-standard-4t",
        "scheduling": {"provisioningModel": "STANDARD"},
        "networkInterfaces": [{"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "1.2.3.4"}]}],
        "metadata": {
            "items": [
                {
                    "key": "created-by",
                    # Google writes the number of the project.
                    "value": f"projects/123456/zones/{ZONE}/instanceGroupManagers/pod",
                }
            ]
        },
        **more,
    }


def spot(status: str, name: str = "pod-w-001") -> dict[str, Any]:
    return instance(status, name, scheduling={"provisioningModel": "SPOT"})


def group(
    topology: str = "", *, stable: bool = False, size: int = 2, deleting: int = 0, **status: Any
) -> dict[str, Any]:
    applied = {"acceleratorTopology": "2x4", "state": topology}
    return {
        "id": "9",
        "name": "pod",
        "selfLink": GROUP,
        "creationTimestamp": "2026-08-10T10:00:00.000-07:00",
        "targetSize": size,
        "targetSizePolicy": {"mode": "BULK"},
        "resourcePolicies": {"workloadPolicy": f"{ROOT}/regions/us-east5/resourcePolicies/x"},
        "currentActions": {"deleting": deleting},
        "status": {
            "isStable": stable,
            "appliedAcceleratorTopologies": [applied] if topology else [],
            **status,
        },
    }


def no_capacity(checked: str = "2026-08-10T10:01:00.000-07:00", **error: str) -> dict[str, Any]:
    detail = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "No room.", **error}
    check = {"timestamp": checked, "error": {"errors": [detail]}}
    return {"bulkInstanceOperation": {"inProgress": True, "lastProgressCheck": check}}


@pytest.mark.parametrize(
    ("status", "state", "waiting"),
    [
        ("PENDING", NodeState.CREATING, True),
        ("PROVISIONING", NodeState.CREATING, False),
        ("STAGING", NodeState.CREATING, False),
        ("RUNNING", NodeState.READY, False),
        ("STOPPING", NodeState.STOPPING, False),
        ("PENDING_STOP", NodeState.STOPPING, False),
        ("TERMINATED", NodeState.STOPPED, False),
        ("REPAIRING", NodeState.REPAIRING, False),
        ("DEPROVISIONING", NodeState.DELETING, False),
        ("A_NEW_WORD", NodeState.UNKNOWN, False),
    ],
)
def test_an_instances_status(status, state, waiting):
    node = parse_instance(instance(status))
    assert (node.state, node.waiting) == (state, waiting)
    assert node.cloud_state == ("" if status in (state, "RUNNING") else status)


def test_a_spot_instance_that_was_stopped_does_not_come_back_and_one_that_was_started_says_so():
    assert parse_instance(spot("TERMINATED")).state is NodeState.PREEMPTED
    again = instance("STAGING", lastStopTimestamp="2026-08-10T10:00:00.000-07:00")
    assert parse_instance(again).state is NodeState.STARTING


TWO = [instance(), instance(name="pod-w-002")]


@pytest.mark.parametrize(
    ("manager", "members", "state"),
    [
        (group(), [], NodeState.CREATING),
        (group("ACTIVATING", stable=True), TWO, NodeState.CREATING),
        (group("ACTIVE", stable=True), TWO, NodeState.READY),
        (group("ACTIVE"), TWO, NodeState.REPAIRING),
        # A host that is TERMINATED leaves the group stable.
        (group("INCOMPLETE", stable=True), [TWO[0], instance("TERMINATED")], NodeState.REPAIRING),
        (group("INCOMPLETE"), TWO[:1], NodeState.REPAIRING),
        (group("REACTIVATING"), TWO, NodeState.RESTARTING),
        (group("FAILED", stable=True), TWO, NodeState.FAILED),
        (group("ACTIVE", deleting=2), TWO, NodeState.DELETING),
        (group("INCOMPLETE", stable=True), [spot("RUNNING"), spot("TERMINATED", "x")],
         NodeState.PREEMPTED),
        (group(size=0, stable=True), [], NodeState.TERMINATED),
    ],
)  # fmt: skip
def test_a_groups_state(manager, members, state):
    node = parse_group(manager, members, ZONE)
    assert (node.state, node.id, len(node.endpoints)) == (state, "9", len(members))


def test_what_does_not_run_says_what_it_was():
    stopped = parse_instance(
        instance("TERMINATED", networkInterfaces=[{"accessConfigs": [{"name": "External NAT"}]}])
    )
    assert not stopped.endpoints[0].external
    assert not stopped.request.options.internal_ips
    scheduling = {"provisioningModel": "FLEX_START"}
    properties = {
        "machineType": "ct6e-standard-4t",
        "networkInterfaces": [{"network": "n"}],
        "scheduling": {**scheduling, "maxRunDuration": {"seconds": "60"}},
        "metadata": {"items": [{"key": "team", "value": "vision"}]},
    }
    over = parse_group(group(size=0, stable=True), [], ZONE, {"properties": properties})
    assert (over.tier, over.run_for, over.metadata) == ("flex-start", 60.0, {"team": "vision"})
    assert (over.request.network, over.request.subnetwork) == ("n", "")
    assert over.request.options.internal_ips


def test_why_a_group_is_not_made_is_a_problem_unless_it_waits_for_that():
    node = parse_group(group(**no_capacity()), [], ZONE)
    assert (node.problem.reason, node.problem.scope) == (Reason.NO_CAPACITY, "zone")
    tier = {"allInstancesConfig": {"properties": {"labels": {"jupyter-tpu-tier": "flex-start"}}}}
    waits = parse_group({**group(**no_capacity()), **tier}, [], ZONE)
    assert (waits.problem, waits.waiting, waits.tier) == (None, True, "flex-start")
    assert parse_queued(waits).state is QueuedState.WAITING_FOR_RESOURCES
    forbidden = no_capacity(
        code="CONDITION_NOT_MET",
        message="Constraint constraints/compute.vmExternalIpAccess violated for project p.",
    )
    refused = parse_group({**group(**forbidden), **tier}, [], ZONE)
    assert "--internal-ips" in refused.problem.hint
    assert parse_queued(refused).state is QueuedState.FAILED


def test_three_of_four_hosts_are_waited_for_for_an_hour():
    three = [instance(name=f"pod-w-00{number}") for number in (1, 2, 3)]
    early = group("INCOMPLETE", size=4, **no_capacity("2026-08-10T10:59:00.000-07:00"))
    node = parse_group(early, three, ZONE)
    assert node.problem is None
    assert node.health_description == "3 of 4 hosts run. No room."
    # By Google's own clock: this computer's does not matter.
    late = group("INCOMPLETE", size=4, **no_capacity("2026-08-10T18:00:00.000+00:00"))
    problem = parse_group(late, three, ZONE).problem
    assert problem.message == "Only 3 of 4 hosts of pod were created within 60 minutes. No room."


def test_what_is_a_tpu_and_whose():
    assert group_of(instance()) == f"zones/{ZONE}/instanceGroupManagers/pod"
    assert group_of(instance(metadata={})) == ""
    assert is_tpu(instance())
    assert not is_tpu(instance(machineType=f"{ROOT}/zones/{ZONE}/machineTypes/n2-standard-4"))
    assert not is_tpu(instance(labels={"goog-gke-node": ""}))
    assert is_slice(group(), [])
    assert not is_slice({**group(), "targetSizePolicy": {"mode": "INDIVIDUAL"}}, [])
    assert not is_slice(group(size=0), []), "it has nothing to do with TPUs, as far as known"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The resource 'projects/p/zones/z/instances/x' already exists.", Reason.EXISTS),
        ("The resource 'x' is already being used by 'y'.", Reason.CONFLICT),
        ("The resource 'projects/p/zones/z/instances/x' is not ready.", Reason.CONFLICT),
        (
            "This user agent is not allowed to use the machine type [ct5lp-hightpu-1t].",
            Reason.INVALID,
        ),
        ("No default subnetwork was found.", Reason.INVALID),
    ],
)
def test_a_calls_error(text, reason):
    assert errors.call_error(TPUError(text, Reason.INTERNAL)).reason is reason


@pytest.mark.parametrize(
    ("code", "text", "reason", "scope"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone is full.", Reason.NO_CAPACITY, "zone"),
        ("INTERNAL_ERROR", "Internal error.", Reason.NO_CAPACITY, "zone"),
        (
            "QUOTA_EXCEEDED",
            "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region us-east5.",
            Reason.QUOTA,
            "region",
        ),
        ("RESOURCE_NOT_READY", "It was deleted.", Reason.CONFLICT, ""),
        ("SOMETHING_NEW", "Something new.", Reason.INTERNAL, ""),
    ],
)
def test_an_operations_error(code, text, reason, scope):
    failure = errors.operation_error({"error": {"errors": [{"code": code, "message": text}]}})
    assert (failure.reason, failure.scope) == (reason, scope)
    assert errors.operation_error({"status": "DONE"}) is None
