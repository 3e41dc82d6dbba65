"""The emulator's model by itself: every answer and every error, without a transport or a host."""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jupyter_tpu.emulator.model.api_errors import ApiError
from jupyter_tpu.emulator.model.faults import Fault
from jupyter_tpu.emulator.model.model import Model
from jupyter_tpu.emulator.model.operations import paginate
from jupyter_tpu.emulator.model.records import (
    TRANSITIONS,
    EmulatedOperation,
    NodeRequest,
)
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot

P, ZONE = "emulated", "us-central1-a"
PARENT = f"projects/{P}/locations/{ZONE}"
REQUEST = NodeRequest(type="v5litepod-8", version="v2-alpha-tpuv5-lite")


def make(**options: object) -> Model:
    return Model(EmulatorSnapshot(id="1"), chance=random.Random(7), **options)


def ready(model: Model, name: str = "a", **fields: object) -> EmulatedOperation:
    request = msgspec.structs.replace(REQUEST, **fields)
    operation = model.create_node(P, ZONE, name, request)
    model.complete(operation)
    return operation


def refused(call: object, *arguments: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*arguments)
    return caught.value


def test_the_hosts_of_a_pod_have_one_prefix_and_addresses_of_their_own():
    model = make()
    ready(model, "a", type="v5litepod-16")
    ready(model, "b", type="v5litepod-64")
    nodes = [model.get_node(P, ZONE, name) for name in "ab"]
    model.addresses.renew_external(nodes[0])
    model.addresses.renew_external(nodes[1])
    hosts = [host for node in nodes for host in node.hosts]
    addresses = [address for host in hosts for address in (host.internal, host.external)]
    assert len(set(addresses)) == 2 * (4 + 16)
    assert all(address.startswith("127.") for address in addresses)
    assert {host.hostname[:14] for host in nodes[0].hosts} == {nodes[0].hosts[0].hostname[:14]}
    assert [host.hostname[14:] for host in nodes[0].hosts] == ["-w-0", "-w-1", "-w-2", "-w-3"]


def test_a_type_can_be_given_by_generation_and_topology():
    model = make()
    request = NodeRequest(config_type="V4", topology="2x2x2", version="tpu-ubuntu2204-base")
    model.create_node(P, "us-central2-b", "a", request)
    assert model.get_node(P, "us-central2-b", "a").type == "v4-16"


@pytest.mark.parametrize(
    ("zone", "name", "changes", "code", "says"),
    [
        (ZONE, "A", {}, 3, "the node id 'A' is invalid"),
        (ZONE, "a-", {}, 3, "the node id 'a-' is invalid"),
        (ZONE, "a" * 41, {}, 3, "1-40 lower-case letters"),
        (ZONE, "b", {"type": "v4-8"}, 3, f"the accelerator v4-8 was not found in zone {ZONE}"),
        (ZONE, "b", {"type": "h100"}, 3, f"the accelerator h100 was not found in zone {ZONE}"),
        (ZONE, "b", {"type": ""}, 3, "the accelerator type must be given"),
        (ZONE, "b", {"version": "nonsense"}, 3, "the runtime version nonsense was not found"),
        (ZONE, "taken", {}, 6, f"Resource '{PARENT}/nodes/taken' already exists"),
        ("mars-a", "b", {}, 7, "Location mars-a is not found or access is unauthorized."),
        (ZONE, "b", {"type": "v5p-12288"}, 8, "has 1536 hosts and this machine can run 63 more"),
    ],
)
def test_what_cannot_be_created_is_refused_in_googles_words_and_leaves_nothing(
    zone, name, changes, code, says
):
    model = make()
    ready(model, "taken")
    before = model.snapshot()
    request = msgspec.structs.replace(REQUEST, **changes)
    error = refused(model.create_node, P, zone, name, request)
    assert error.code == code
    assert says in error.message
    assert model.snapshot() == before


def test_a_node_that_is_not_there_is_not_found():
    error = refused(make().get_node, P, ZONE, "a")
    assert error.code == 5
    assert error.message == f"Resource '{PARENT}/nodes/a' was not found"


def test_start_and_stop_only_work_in_their_states():
    model = make()
    ready(model)
    error = refused(model.start_node, P, ZONE, "a")
    assert (error.code, "start is not supported while in state READY" in str(error)) == (
        3,
        True,
    )
    stopping = model.stop_node(P, ZONE, "a")
    assert model.get_node(P, ZONE, "a").state == "STOPPING"
    assert "while in state STOPPING" in str(refused(model.stop_node, P, ZONE, "a"))
    model.complete(stopping)
    assert model.get_node(P, ZONE, "a").state == "STOPPED"
    starting = model.start_node(P, ZONE, "a")
    model.complete(starting)
    assert model.get_node(P, ZONE, "a").state == "READY"


def test_a_spot_tpu_cannot_be_started_again():
    model = make()
    ready(model, spot=True)
    model.complete(model.stop_node(P, ZONE, "a"))
    assert "not supported for preemptible or spot" in str(refused(model.start_node, P, ZONE, "a"))


def test_an_update_changes_only_what_its_mask_names_and_one_runs_at_a_time():
    model = make()
    ready(model, labels={"team": "x"})
    request = NodeRequest(metadata={"ssh-keys": "me:ssh-ed25519 AAAA"}, labels={"team": "y"})
    update = model.update_node(P, ZONE, "a", ["metadata"], request)
    node = model.get_node(P, ZONE, "a")
    assert node.metadata == {"ssh-keys": "me:ssh-ed25519 AAAA"}
    assert node.labels == {"team": "x"}
    assert refused(model.update_node, P, ZONE, "a", ["metadata"], request).code == 10
    model.complete(update)
    assert node.state == "READY"
    assert "not mutable" in str(refused(model.update_node, P, ZONE, "a", ["state"], request))


def test_a_delete_ends_what_is_under_way_and_the_name_is_free_again():
    model = make()
    create = model.create_node(P, ZONE, "a", REQUEST)
    delete = model.delete_node(P, ZONE, "a")
    assert create.error.code == 1
    model.complete(create)  # the work found out too late
    assert model.get_node(P, ZONE, "a").state == "DELETING"
    model.complete(delete)
    assert refused(model.get_node, P, ZONE, "a").code == 5
    assert not model.operations.in_progress()
    first_id = create.node
    ready(model)
    assert first_id is None


def test_nodes_of_all_zones_are_listed_by_a_dash_and_silent_zones_are_named():
    model = make()
    ready(model)
    request = NodeRequest(type="v4-8", version="tpu-ubuntu2204-base")
    model.complete(model.create_node(P, "us-central2-b", "b", request))
    model.create_node("another", ZONE, "c", REQUEST)
    assert [node.name for node in model.list_nodes(P, "-")[0]] == ["a", "b"]
    assert [node.name for node in model.list_nodes(P, ZONE)[0]] == ["a"]
    model.add_fault(Fault(kind="unreachable", zone="us-central2-b"))
    nodes, unreachable = model.list_nodes(P, "-")
    assert [node.name for node in nodes] == ["a"]
    assert unreachable == [f"projects/{P}/locations/us-central2-b"]


def test_a_fault_hits_as_often_as_asked_and_only_in_its_zone():
    model = make()
    model.add_fault(Fault(kind="quota", zone=ZONE, count=2))
    assert model.faults.consume("quota", "us-east5-a") is None
    for _ in range(2):
        error = refused(model.create_node, P, ZONE, "a", REQUEST)
        assert error.code == 8
        assert error.message == (
            "Quota limit 'TPUV5EPerProjectPerRegionForTPUAPI' has been exceeded. "
            "Limit: 0 in region us-central1."
        )
    assert ready(model).done
    model.add_fault(Fault(kind="permission"))
    error = refused(model.delete_node, P, ZONE, "a")
    assert error.code == 7
    assert error.info[0] == "IAM_PERMISSION_DENIED"


def test_guest_attributes_come_in_worker_order_and_can_be_asked_for_singly():
    model = make()
    ready(model, type="v5litepod-16")
    for host in model.get_node(P, ZONE, "a").hosts:
        host.host_keys = {"ssh-ed25519": f"AAAA{host.worker}"}
    everything = model.guest_attributes(P, ZONE, "a", "", [])
    assert [items[0] for items in everything] == [
        ("hostkeys", "ssh-ed25519", f"AAAA{worker}") for worker in range(4)
    ]
    assert model.guest_attributes(P, ZONE, "a", "", [""]) == everything  # as gcloud asks
    assert model.guest_attributes(P, ZONE, "a", "hostkeys/", ["3"]) == [
        [("hostkeys", "ssh-ed25519", "AAAA3")]
    ]
    model.get_node(P, ZONE, "a").hosts[0].port = 40022
    assert model.guest_attributes(P, ZONE, "a", "ssh/port", ["0"]) == [[("ssh", "port", "40022")]]
    assert model.guest_attributes(P, ZONE, "a", "ssh/port", ["1"]) == [[]]


def test_what_is_saved_goes_on_in_another_model():
    model = make()
    ready(model)
    stopping = model.stop_node(P, ZONE, "a")
    text = msgspec.json.encode(model.snapshot())
    again = Model(msgspec.json.decode(text, type=EmulatorSnapshot))
    assert [operation.name for operation in again.operations.in_progress()] == [stopping.name]
    again.complete(again.operations.in_progress()[0])
    assert again.get_node(P, ZONE, "a").state == "STOPPED"
    assert again.get_node(P, ZONE, "a").id == model.get_node(P, ZONE, "a").id


def test_old_operations_are_forgotten_and_running_ones_are_not():
    model = make()
    running = model.create_node(P, ZONE, "b", REQUEST)
    ready(model)
    for _ in range(300):
        model.complete(model.update_node(P, ZONE, "a", ["labels"], NodeRequest()))
    assert len(model.operations) <= 201
    assert model.operations.get(running.name) is running


def test_times_are_the_clocks():
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    times = iter(moment + timedelta(seconds=second) for second in range(60))
    model = make(now=lambda: next(times))
    operation = ready(model)
    assert operation.created.startswith("2026-01-02T03:04:")
    assert operation.ended > operation.created
    assert operation.ended.endswith("Z")


def test_pages_are_followed_by_their_tokens():
    assert paginate("abcde", 2, "") == ("ab", "2")
    assert paginate("abcde", 2, "4") == ("e", "")
    assert paginate("abcde", 0, "") == ("abcde", "")
    assert refused(paginate, "abc", 1, "x").code == 3


class AnyOrder(RuleBasedStateMachine):
    """Calls in any order: a node is always in a state of the table, and nothing gets stuck."""

    names = st.sampled_from(["a", "b"])

    def __init__(self) -> None:
        super().__init__()
        self.model = make()

    @rule(name=names, verb=st.sampled_from(["create", "start", "stop", "update", "delete"]))
    def ask(self, name: str, verb: str) -> None:
        try:
            if verb == "create":
                self.model.create_node(P, ZONE, name, REQUEST)
            elif verb == "update":
                self.model.update_node(P, ZONE, name, ["labels"], NodeRequest())
            else:
                getattr(self.model, f"{verb}_node")(P, ZONE, name)
        except ApiError:
            pass  # which ones are right is the other tests' matter

    @rule(at=st.integers(0, 3), fails=st.booleans())
    def end_one(self, at: int, fails: bool) -> None:
        under_way = self.model.operations.in_progress()
        if at < len(under_way):
            operation = under_way[at]
            if fails:
                self.model.fail(operation, 13, "broken")
            else:
                self.model.complete(operation)
            assert operation.done

    @invariant()
    def a_node_is_moving_exactly_while_an_operation_is_under_way(self) -> None:
        targets = [operation.target for operation in self.model.operations.in_progress()]
        assert len(targets) == len(set(targets))
        moving = {rule.during for rule in TRANSITIONS.values() if rule.during}
        for path, node in self.model.nodes.items():
            if node.state in moving:
                assert path in targets
            else:
                assert node.state in ("READY", "STOPPED")
        assert set(targets) <= set(self.model.nodes)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=25)
