"""Queued resources, capacity and quotas in the emulator's model, without a transport or a host."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jupyter_tpu.emulator.model.api_errors import ApiError
from jupyter_tpu.emulator.model.faults import Fault
from jupyter_tpu.emulator.model.model import Model
from jupyter_tpu.emulator.model.queued import EmulatedQueue
from jupyter_tpu.emulator.model.records import NodeRequest, QueuedRequest
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot

P, ZONE = "emulated", "us-central1-a"
PARENT = f"projects/{P}/locations/{ZONE}"
NODE = NodeRequest(type="v5litepod-8", version="v2-alpha-tpuv5-lite")


class Service:
    """A model with a clock of its own; what it begins on TPUs is done at once."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.load(EmulatorSnapshot(id="1"))
        self.seen: list[str] = []

    def load(self, snapshot: EmulatorSnapshot) -> None:
        self.model = Model(snapshot, chance=random.Random(7), now=lambda: self.now)
        self.queue = EmulatedQueue(self.model)

    def ask(self, name: str = "q", *nodes: str, **fields: Any) -> None:
        specs = [(node, NODE) for node in nodes or ("a",)]
        self.queue.create(P, ZONE, name, QueuedRequest(specs=specs, **fields))

    def step(self, *, seconds: float = 0.0, works: bool = True) -> str:
        self.now += timedelta(seconds=seconds)
        for operation in self.queue.step():
            if works:
                self.model.complete(operation)
            else:
                self.model.fail(operation, 13, "broken")
        return self.state()

    def state(self, name: str = "q") -> str:
        return self.queue.get(P, ZONE, name).state

    def settle(self) -> list[str]:
        """The states until nothing more happens."""
        states = [self.state()]
        for _ in range(9):
            self.step()
            states += [self.state()] if self.state() != states[-1] else []
        return states


def refused(call: Any, *arguments: Any, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*arguments, **options)
    return caught.value


def test_a_queued_resource_waits_for_capacity_and_then_makes_its_tpus():
    service = Service()
    fault = service.model.add_fault(Fault(kind="no-capacity", zone=ZONE))
    service.ask("q", "a", "b", tier="spot")
    assert service.settle() == ["CREATING", "WAITING_FOR_RESOURCES"]
    assert not service.model.nodes
    service.model.faults.remove(fault.id)
    assert service.settle() == ["WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]
    nodes = service.model.nodes.values()
    assert [(node.name, node.state, node.spot) for node in nodes] == [
        ("a", "READY", True),
        ("b", "READY", True),
    ]
    assert {node.queued_resource for node in nodes} == {f"{PARENT}/queuedResources/q"}


def test_an_active_one_is_deleted_with_force_or_after_its_tpus():
    service = Service()
    service.ask()
    service.settle()
    error = refused(service.queue.delete, P, ZONE, "q", force=False)
    assert error.code == 9
    assert "will only be deleted if its nodes have already been deleted" in error.message
    operation = service.queue.delete(P, ZONE, "q", force=True)
    assert service.step() == "DELETING"
    service.queue.step()
    assert operation.done
    assert refused(service.state).code == 5
    assert not service.model.nodes

    service.ask()
    service.settle()
    service.model.complete(service.model.delete_node(P, ZONE, "a"))
    assert service.settle() == ["ACTIVE", "SUSPENDING", "SUSPENDED"]
    assert service.queue.get(P, ZONE, "q").initiator == "USER"
    service.queue.delete(P, ZONE, "q", force=False)


def test_a_preempted_tpu_suspends_all_of_them_until_it_is_reset():
    service = Service()
    service.ask("q", "a", "b", tier="spot", multislice=True)
    service.settle()
    slices = [node.slice for node in service.model.nodes.values()]
    assert [(part.number, part.count) for part in slices if part] == [(0, 2), (1, 2)]
    service.model.preempt(service.model.get_node(P, ZONE, "b"))
    assert service.settle() == ["ACTIVE", "SUSPENDING", "SUSPENDED"]
    assert service.queue.get(P, ZONE, "q").initiator == "SERVICE"
    assert not service.model.nodes
    operation = service.queue.reset(P, ZONE, "q")
    assert operation.done
    assert service.settle() == ["WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]
    assert refused(service.queue.reset, P, ZONE, "q").code == 3


def test_it_waits_for_its_time_and_fails_when_that_is_over():
    service = Service()
    after, until = ((service.now + timedelta(seconds=seconds)).isoformat() for seconds in (60, 120))
    service.model.add_fault(Fault(kind="no-capacity"))
    service.ask(valid_after=after, valid_until=until)
    assert service.settle() == ["CREATING", "ACCEPTED"]
    assert service.step(seconds=61) == "WAITING_FOR_RESOURCES"
    assert service.step(seconds=60) == "FAILED"
    error = service.queue.get(P, ZONE, "q").error
    assert (error.code, "valid-until" in error.message) == (4, True)


def test_a_tpu_that_cannot_be_made_fails_it_and_the_others_are_deleted():
    service = Service()
    service.ask("q", "a", "b")
    service.step()
    first, second = service.queue.step()
    service.model.complete(first)
    service.model.fail(second, 13, "broken")
    service.settle()
    assert service.state() == "FAILED"
    assert not service.model.nodes
    error = service.queue.get(P, ZONE, "q").error
    assert error.message == "broken"


def test_a_run_with_a_limit_ends_by_itself():
    service = Service()
    service.ask(provisioning_model="FLEX_START", max_run_seconds=3600.0)
    service.settle()
    assert service.model.get_node(P, ZONE, "a").tier == "flex-start"
    assert service.queue.next_due() == 3600
    assert service.step(seconds=3601) == "SUSPENDING"
    service.settle()
    assert not service.model.nodes


def test_the_time_of_a_run_can_be_ended_but_not_of_what_has_no_such_time():
    service = Service()
    service.ask(provisioning_model="FLEX_START", max_run_seconds=3600.0)
    assert refused(service.queue.end_run, f"{PARENT}/queuedResources/q").code == 3
    service.settle()
    service.queue.end_run(f"{PARENT}/queuedResources/q")
    assert service.settle()[-1] == "SUSPENDED"
    assert not service.model.nodes
    service.ask("endless", "b")
    service.settle()
    assert refused(service.queue.end_run, f"{PARENT}/queuedResources/endless").code == 3


def test_quota_is_used_up_by_tpus_and_by_queued_resources_until_they_are_deleted():
    service = Service()
    service.model.add_fault(Fault(kind="quota", zone=ZONE, type="v5e", tier="spot", chips=16))
    spot = msgspec.structs.replace(NODE, spot=True)
    service.model.complete(service.model.create_node(P, ZONE, "first", spot))
    service.ask("q", "a", tier="spot")
    service.settle()
    service.model.preempt(service.model.get_node(P, ZONE, "a"))
    assert service.settle()[-1] == "SUSPENDED"
    error = refused(service.model.create_node, P, ZONE, "second", spot)
    assert error.message.endswith("has been exceeded. Limit: 16 in region us-central1.")
    service.model.create_node(P, ZONE, "on-demand", NODE)  # another tier
    service.ask("more", "c", tier="spot")
    service.step()
    assert service.state("more") == "FAILED"
    for name in ("q", "more"):
        service.queue.delete(P, ZONE, name, force=False)
    service.queue.step()
    service.model.create_node(P, ZONE, "second", spot)


def test_capacity_counts_chips_per_type_and_tier_and_comes_back():
    service = Service()
    service.model.add_fault(Fault(kind="no-capacity", type="v5litepod-8", chips=8))
    first = service.model.create_node(P, ZONE, "first", NODE)
    service.model.complete(first)
    service.ask()
    assert service.settle()[-1] == "WAITING_FOR_RESOURCES"
    service.model.complete(service.model.stop_node(P, ZONE, "first"))
    assert service.settle()[-1] == "ACTIVE"


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"specs": []}, 3, "has no node spec"),
        ({"specs": [("A", NODE)]}, 3, "the node id 'A' is invalid"),
        ({"specs": [("taken", NODE)]}, 6, "nodes/taken' already exists"),
        ({"specs": [("x", NODE), ("x", NODE)]}, 6, "nodes/x' already exists"),
        ({"specs": [("x", NodeRequest(type="v4-8"))]}, 3, "v4-8 was not found in zone"),
    ],
)
def test_what_cannot_be_queued_is_refused_and_leaves_nothing(fields, code, says):
    service = Service()
    service.ask("other", "taken")
    before = service.model.snapshot()
    error = refused(service.queue.create, P, ZONE, "q", QueuedRequest(**fields))
    assert (error.code, says in error.message) == (code, True)
    assert service.model.snapshot() == before


def test_what_is_saved_goes_on_in_another_model():
    service = Service()
    service.ask()
    service.step()
    text = msgspec.json.encode(service.model.snapshot())
    service.load(msgspec.json.decode(text, type=EmulatorSnapshot))
    assert service.settle() == ["WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]
