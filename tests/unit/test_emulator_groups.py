"""Managed instance groups in the emulator's model, without a transport or a host."""

from typing import Any

import msgspec
import pytest
from emulated_compute import FLEX, ZONE, P, World, body

from jupyter_tpu.emulator.model.api_errors import ApiError
from jupyter_tpu.emulator.model.instance_records import GroupRecord
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot

REGION = f"regions/{ZONE.rpartition('-')[0]}"
PLACE = f"zones/{ZONE}"
POLICY = f"projects/{P}/{REGION}/resourcePolicies/wp"
TEMPLATE = f"projects/{P}/{REGION}/instanceTemplates/tmpl"


class Slices(World):
    """With a policy for two hosts and a template; *scheduling* of the template."""

    def __init__(self, machine: str = "ct6e-standard-4t", **scheduling: Any) -> None:
        super().__init__()
        workloads = self.groups.workloads
        topology = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x4"}
        policy = {"name": "wp", "workloadPolicy": topology}
        workloads.insert("resourcePolicies", P, REGION, policy)
        properties = body(**scheduling) | {"machineType": machine}
        del properties["name"]
        template = {"name": "tmpl", "properties": properties}
        workloads.insert("instanceTemplates", P, REGION, template)

    def make(self, **more: Any) -> Any:
        group = {
            "name": "pod",
            "instanceTemplate": TEMPLATE,
            "targetSize": 2,
            "targetSizePolicy": {"mode": "BULK"},
            "resourcePolicies": {"workloadPolicy": POLICY},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
            **more,
        }
        return self.groups.insert(P, PLACE, group, "")

    @property
    def group(self) -> GroupRecord:
        (record,) = self.groups.records.values()
        return record

    def topology(self, steps: int = 8) -> list[str]:
        """The states of the topology, as it moves on."""
        states: list[str] = []
        for _ in range(steps):
            state = self.group.topology_state
            if [state] != states[-1:]:
                states.append(state)
            self.step()
        return states

    def ids(self) -> set[str]:
        return {record.id for record in self.instances.records.values()}


def test_a_slice_is_made_at_once_and_its_hosts_know_each_other():
    world = Slices()
    made = world.make(baseInstanceName="pod-w-###[1]")
    assert made.status == "RUNNING"
    world.step()
    assert (made.status, world.group.topology_state) == ("DONE", "ACTIVATING")
    assert world.topology() == ["ACTIVATING", "ACTIVE"]
    first, second = (world.instances.get(P, ZONE, f"pod-w-00{number}") for number in (1, 2))
    # Workers are not numbered as the names are.
    assert (first.worker, second.worker) == (1, 0)
    for vm in (first, second):
        assert vm.attributes["worker-network-endpoints"] == "pod-w-002,pod-w-001"
        assert vm.attributes["accelerator-type"] == "v6e-8"
        assert vm.attributes["agent-worker-number"] == str(vm.worker)
        assert (vm.accelerator.devices, vm.held.chips) == (8, 4)
    assert world.groups.is_stable(world.group)
    assert not world.groups.unsettled()
    saved = msgspec.json.decode(msgspec.json.encode(world.model.snapshot()), type=EmulatorSnapshot)
    assert [group.topology_state for group in saved.groups] == ["ACTIVE"]


def test_it_is_deleted_in_reverse_order_only():
    world = Slices()
    world.make()
    world.topology()
    workloads = world.groups.workloads
    for collection, name in (("resourcePolicies", "wp"), ("instanceTemplates", "tmpl")):
        with pytest.raises(ApiError, match="is already being used by"):
            workloads.delete(collection, P, REGION, name)
    deleted = world.groups.delete(P, PLACE, "pod", "")
    world.step()
    assert (deleted.status, len(world.ids())) == ("RUNNING", 0)
    world.step()
    assert (deleted.status, world.groups.records) == ("DONE", {})
    workloads.delete("instanceTemplates", P, REGION, "tmpl")
    workloads.delete("resourcePolicies", P, REGION, "wp")
    assert (world.model.policies, world.model.templates) == ({}, {})


def test_its_operation_is_done_without_instances_as_long_as_not_all_have_capacity():
    world = Slices()
    room_for_one = world.fault("no-capacity", chips=4)
    made = world.make()
    world.step()
    world.step()
    assert (made.status, made.errors, world.ids()) == ("DONE", [], set())
    assert world.groups.is_waiting(world.group)
    assert [member.errors[0]["code"] for member in world.group.members] == [
        "ZONE_RESOURCE_POOL_EXHAUSTED"
    ] * 2
    assert len(world.group.errors) == 2
    world.model.faults.remove(room_for_one.id)
    assert world.topology()[-1] == "ACTIVE"
    assert [member.errors for member in world.group.members] == [[], []]


def test_an_empty_group_says_nothing():
    world = Slices()
    world.fault("empty-group", zone=ZONE)
    made = world.make()
    world.step()
    assert (made.status, world.ids(), world.group.errors) == ("DONE", set(), [])
    assert not world.groups.is_stable(world.group)


@pytest.mark.parametrize(
    ("fault", "code"),
    [("quota", "QUOTA_EXCEEDED"), ("late-error", "INTERNAL_ERROR"),
     ("no-external-addresses", "CONDITION_NOT_MET")],
)  # fmt: skip
def test_what_went_wrong_is_said_of_its_instances(fault, code):
    world = Slices()
    world.fault(fault)
    world.make()
    for _ in range(4):
        world.step()
    assert {error["error"]["code"] for error in world.group.errors} == {code}
    assert world.group.topology_state != "ACTIVE"
    world.model.faults.clear()
    assert world.topology()[-1] == "ACTIVE"


def test_a_deleted_instance_comes_back():
    world = Slices()
    world.make()
    world.topology()
    before, name = world.ids(), world.group.members[0].name
    world.instances.delete(P, ZONE, name, "")
    assert world.topology() == ["ACTIVE", "INCOMPLETE", "REACTIVATING", "ACTIVE"]
    assert len(world.ids() & before) == 1
    assert world.instances.get(P, ZONE, name).attributes["worker-network-endpoints"].count(",")


def test_after_a_host_error_google_restarts_the_whole_slice():
    world = Slices()
    world.make()
    world.topology()
    before = world.ids()
    broken, other = world.instances.records.values()
    world.instances.host_error(broken, 0)
    seen = []
    for _ in range(8):
        world.step()
        seen.append(other.status)
    assert "PROVISIONING" in seen or "STAGING" in seen  # it was restarted, too
    assert (world.group.topology_state, world.ids()) == ("ACTIVE", before)
    world.instances.host_error(broken, 3600)
    assert world.topology() == ["ACTIVE", "INCOMPLETE"]
    assert world.groups.is_stable(world.group)


def test_flex_start_waits_without_instances_and_ends_with_its_time():
    world = Slices(**FLEX)
    full = world.fault("no-capacity")
    world.make()
    assert world.topology() == [""]
    assert not world.ids()
    world.model.faults.remove(full.id)
    assert world.topology()[-1] == "ACTIVE"
    for record in world.instances.records.values():
        record.ends_at = 1.0
    world.topology()
    assert (world.group.size, world.group.members, world.ids()) == (0, [], set())


def test_a_group_grows_from_zero_and_shrinks_to_it():
    world = Slices()
    world.make(targetSize=0)
    world.step()
    world.groups.resize(P, PLACE, "pod", 2, "")
    assert world.topology()[-1] == "ACTIVE"
    with pytest.raises(ApiError, match="grows only from targetSize 0"):
        world.groups.resize(P, PLACE, "pod", 4, "")
    world.groups.resize(P, PLACE, "pod", 0, "")
    assert world.topology()[-1] == ""
    assert not world.ids()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"targetSizePolicy": {"mode": "INDIVIDUAL"}}, "require BULK mode in target size policy"),
        ({"resourcePolicies": {"workloadPolicy": "wp"}}, "The URL is malformed."),
        ({"instanceTemplate": "global/instanceTemplates/none"}, "was not found"),
        ({"targetSize": 3}, "another number of hosts"),
        ({"instanceLifecyclePolicy": {}}, "need the default action on failure DO_NOTHING"),
    ],
)
def test_what_google_does_not_make_is_refused(more, text):
    with pytest.raises(ApiError) as error:
        Slices(**FLEX).make(**more)
    assert text in error.value.message


def test_a_template_needs_a_machine_type_that_exists_and_may_have_v5e():
    with pytest.raises(ApiError, match="must provide existing machine type"):
        Slices(machine="ct9-standard-4t")
    Slices(machine="ct5lp-hightpu-4t")


def test_a_single_one_that_is_stopped_is_made_anew():
    world = Slices()
    world.make(
        targetSize=1, targetSizePolicy=None, resourcePolicies=None, instanceLifecyclePolicy=None
    )
    for _ in range(4):
        world.step()
    (before,) = world.ids()
    world.instances.stop(P, ZONE, world.group.members[0].name, "")
    for _ in range(8):
        world.step()
    (after,) = world.ids()
    assert before != after
