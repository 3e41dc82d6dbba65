"""Compute Engine's instances in the emulator's model, without a transport or a host."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from emulated_compute import FLEX, ZONE, P, World, body

from jupyter_tpu.emulator.model.api_errors import ApiError
from jupyter_tpu.emulator.model.instances import fingerprint
from jupyter_tpu.emulator.model.model import Model
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot


def codes(operation: Any) -> list[str]:
    return [error["code"] for error in operation.errors]


def test_an_instance_is_made_stopped_started_and_deleted():
    world = World()
    made = world.insert(body())
    assert world.statuses() == ["PROVISIONING", "STAGING", "RUNNING"]
    assert (made.status, made.errors, made.place) == ("DONE", [], f"zones/{ZONE}")
    assert world.one.attributes["accelerator-type"] == "v6e-4"
    assert world.one.attributes["worker-network-endpoints"] == "one"
    before = world.one.host.external
    world.instances.stop(P, ZONE, "one", "")
    assert world.statuses() == ["STOPPING", "TERMINATED"]
    world.instances.start(P, ZONE, "one", "")
    assert world.statuses() == ["PROVISIONING", "STAGING", "RUNNING"]
    assert world.one.host.external not in ("", before)
    saved = msgspec.json.encode(world.model.snapshot())
    again = Model(msgspec.json.decode(saved, type=EmulatorSnapshot))
    assert [instance.status for instance in again.instances.values()] == ["RUNNING"]
    deleted = world.instances.delete(P, ZONE, "one", "")
    assert world.statuses() == ["STOPPING", ""]
    assert deleted.status == "DONE"


@pytest.mark.parametrize(
    ("instance", "text"),
    [
        (body(machine="ct5lp-hightpu-4t"), "does not exist in zone"),
        (body(machine="ct9-standard-4t"), "does not exist in zone"),
        (body(onHostMaintenance="MIGRATE"), "onHostMaintenance"),
        (body(provisioningModel="FLEX_START"), "maxRunDuration"),
        (body(provisioningModel="RESERVATION_BOUND"), "RESERVATION_BOUND"),
        ({**body(), "disks": []}, "boot disk"),
        ({**body(), "networkInterfaces": [{"network": "mine"}]}, "networks/mine' was not found"),
        ({**body(), "name": "Not_a_name"}, "Must be a match of regex"),
        ({**body(), "resourcePolicies": ["x"]}, "Resource policy must have one of"),
        (
            {**body(**FLEX), "params": {"requestValidForDuration": {"seconds": "7201"}}},
            "requestValidForDuration",
        ),
    ],
)
def test_what_google_does_not_make_is_refused(instance, text):
    with pytest.raises(ApiError) as error:
        World().insert(instance)
    assert text in error.value.message


def test_v5e_is_listed_and_refused():
    instance = body(machine="ct5lp-hightpu-4t")
    instance["machineType"] = "zones/us-west4-a/machineTypes/ct5lp-hightpu-4t"
    with pytest.raises(ApiError) as error:
        World().instances.insert(P, "us-west4-a", instance, "")
    assert error.value.status == 403
    assert error.value.message == (
        "This user agent is not allowed to use the machine type [ct5lp-hightpu-4t]."
    )


def test_no_capacity_ends_a_create_before_it_is_staging():
    world = World()
    world.fault("no-capacity", type="ct6e-standard-4t")
    made = world.insert(body())
    assert world.statuses() == ["PROVISIONING", ""]
    assert (made.status, codes(made)) == ("DONE", ["ZONE_RESOURCE_POOL_EXHAUSTED"])


def test_a_late_error_ends_it_while_it_is_staging():
    world = World()
    world.fault("late-error", type="v6e", count=1)
    made = world.insert(body())
    assert world.statuses() == ["PROVISIONING", "STAGING", ""]
    assert codes(made) == ["INTERNAL_ERROR"]
    world.insert(body())
    assert world.statuses()[-1] == "RUNNING"


def test_a_quota_is_said_in_the_operation():
    world = World()
    world.fault("quota", chips=0)
    made = world.insert(body())
    world.statuses()
    assert codes(made) == ["QUOTA_EXCEEDED"]
    assert made.errors[0]["message"] == (
        "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region us-east5."
    )


def test_flex_start_waits_for_capacity_or_vanishes():
    world = World()
    full = world.fault("no-capacity")
    made = world.insert(body(**FLEX))
    assert world.statuses() == ["PENDING"]
    world.model.faults.remove(full.id)
    assert world.statuses() == ["PENDING", "PROVISIONING", "STAGING", "RUNNING"]
    assert made.status == "DONE"
    world.time += timedelta(hours=2)  # longer than it may run
    assert world.statuses()[-1] == ""

    world.fault("no-capacity")
    waits = {"params": {"requestValidForDuration": {"seconds": "60"}}}
    made = world.insert({**body(**FLEX), **waits})
    world.statuses()
    world.time += timedelta(seconds=61)
    assert world.statuses() == ["PENDING", ""]
    assert codes(made) == ["ZONE_RESOURCE_POOL_EXHAUSTED"]

    at_once = {"params": {"requestValidForDuration": {"seconds": "0"}}}
    world.insert({**body(**FLEX), **at_once})
    assert world.statuses() == ["PROVISIONING", ""]


def test_a_pending_one_can_be_deleted():
    world = World()
    world.fault("no-capacity")
    made = world.insert(body(**FLEX))
    deleted = world.instances.delete(P, ZONE, "one", "")
    assert world.statuses() == ["PENDING", ""]
    assert (deleted.status, codes(deleted)) == ("DONE", [])
    assert codes(made) == ["RESOURCE_NOT_READY"]


@pytest.mark.parametrize(("action", "ends"), [("STOP", "TERMINATED"), ("DELETE", "")])
def test_a_preempted_one_is_stopped_or_deleted(action, ends):
    world = World()
    world.insert(body(provisioningModel="SPOT", instanceTerminationAction=action))
    world.statuses()
    world.instances.preempt(world.one)
    assert world.statuses()[-1] == ends
    kinds = [operation.kind for operation in world.model.compute_operations.all()]
    assert "compute.instances.preempted" in kinds


def test_after_a_host_error_it_starts_again_unless_that_is_switched_off():
    world = World()
    world.insert(body())
    world.statuses()
    world.instances.host_error(world.one, 60)
    assert world.statuses() == ["TERMINATED"]
    world.time += timedelta(seconds=61)
    assert world.statuses() == ["TERMINATED", "PROVISIONING", "STAGING", "RUNNING"]
    world.one.body["scheduling"]["automaticRestart"] = False
    world.instances.host_error(world.one, 0)
    assert world.statuses() == ["TERMINATED"]


def test_changes_need_the_fingerprint_and_scheduling_a_running_instance():
    world = World()
    world.insert(body())
    with pytest.raises(ApiError, match="is not ready"):
        world.instances.set_scheduling(world.one, {"maxRunDuration": {"seconds": "60"}})
    world.statuses()
    world.instances.set_scheduling(
        world.one,
        {"maxRunDuration": {"seconds": "60"}, "instanceTerminationAction": "DELETE"},
    )
    items = [{"key": "k", "value": "v"}]
    with pytest.raises(ApiError) as error:
        world.instances.set_metadata(world.one, {"items": items, "fingerprint": "old="})
    assert error.value.status == 412
    now = fingerprint(world.one.metadata)
    world.instances.set_metadata(world.one, {"items": items, "fingerprint": now})
    assert world.one.metadata == {"k": "v"}
    world.time += timedelta(seconds=61)
    assert world.statuses()[-1] == ""
