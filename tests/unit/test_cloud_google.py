"""Both of Google's control planes as one cloud: where each call goes, and what a name means."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs
from refusals import raises

from jupyter_tpu.cloud import (
    API,
    APIDisabled,
    CloudTPU,
    GoogleCloud,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    NodeState,
    QueuedList,
    QueuedSpec,
    QueuedState,
    QueuedTPUs,
    Target,
)
from jupyter_tpu.cloud.models import OperationStatus
from jupyter_tpu.errors import Reason, TPUError

ZONE = "us-east5-a"


class Plane(CloudTPU):
    """One control plane, from memory; it counts its calls."""

    def __init__(self, api: API) -> None:
        super().__init__(Target(project="p"))
        self.api = api
        self.nodes: dict[NodeName, Node] = {}
        self.queued: dict[NodeName, QueuedTPUs] = {}
        self.calls: list[str] = []
        self.failure: TPUError | None = None

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.failure is not None:
            raise self.failure

    def add(self, node: str, id: str, zone: str = ZONE) -> NodeName:
        name = NodeName("p", zone, node)
        self.nodes[name] = Node(name=name, id=id, type="v6e-8", state=NodeState.READY, api=self.api)
        return name

    async def list_nodes(self, zone: str = "-") -> NodeList:
        self._called("list")
        return NodeList(nodes=tuple(self.nodes.values()))

    async def get_node(self, name: NodeName) -> Node:
        self._called(f"get {name.node}")
        if name not in self.nodes:
            raise TPUError("not here", Reason.NOT_FOUND)
        return self.nodes[name]

    async def maintenance(self) -> dict[str, Maintenance]:
        self._called("maintenance")
        return {node.id: Maintenance() for node in self.nodes.values()}

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        self._called(f"create {name.node}")
        self.add(name.node, f"{self.api}-new", name.zone)
        return f"{'compute/' if self.api == 'compute' else ''}operation"

    async def begin_delete(self, name: NodeName) -> str:
        self._called(f"delete {name.node}")
        del self.nodes[name]
        return "operation"

    async def set_label(self, node: Node, key: str, value: str) -> None:
        self._called(f"label {node.name.node}")

    async def operation(self, operation: str) -> OperationStatus:
        self._called(operation)
        return OperationStatus(done=True)

    async def list_queued(self, zone: str = "-") -> QueuedList:
        self._called("list queued")
        return QueuedList(queued=tuple(self.queued.values()))

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        self._called(f"get queued {name.node}")
        if name not in self.queued:
            raise TPUError("not here", Reason.NOT_FOUND)
        return self.queued[name]

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        self._called(f"queue {name.node}")
        self.queued[name] = QueuedTPUs(name=name, state=QueuedState.WAITING_FOR_RESOURCES)
        return "operation"

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        self._called(f"delete queued {name.node}")
        return "operation"

    async def locations(self) -> tuple[str, ...]:
        self._called("locations")
        return ("us-central2-b", ZONE) if self.api == "tpu" else (ZONE, "us-central1-ai1a")

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        self._called("types")
        return ("v6e-8", "v5litepod-8") if self.api == "tpu" else ("v6e-8", "tpu7x-8")


pytestmark = pytest.mark.usefixtures("own_data")


class Both:
    def __init__(self) -> None:
        self.tpu, self.compute = Plane("tpu"), Plane("compute")
        self.cloud = self.restarted()

    def restarted(self) -> GoogleCloud:
        """As another process has it."""
        clouds: dict[API, Any] = {"tpu": self.tpu, "compute": self.compute}
        self.cloud = GoogleCloud(Target(project="p"), clouds=clouds)
        return self.cloud

    async def listed(self) -> dict[str, str]:
        return {node.name.node: node.id for node in (await self.cloud.list_nodes()).nodes}


def names(nodes: Iterable[Node]) -> list[str]:
    return [node.name.node for node in nodes]


async def test_tpus_of_both_are_in_one_list_by_one_call_to_each():
    both = Both()
    both.tpu.add("old", "1")
    both.compute.add("new", "2")
    assert await both.listed() == {"old": "1", "new": "2"}
    assert (both.tpu.calls, both.compute.calls) == (["list"], ["list"])
    assert set(await both.cloud.maintenance()) == {"1", "2"}


async def test_each_call_goes_to_the_control_plane_that_has_the_tpu():
    both = Both()
    old, new = both.tpu.add("old", "1"), both.compute.add("new", "2")
    assert (await both.cloud.get_node(new)).id == "2"
    await both.cloud.begin_delete(new)
    await both.cloud.set_label(await both.cloud.get_node(old), "a", "b")
    await both.cloud.operation("compute/zones/z/o")
    await both.cloud.operation("projects/p/o")
    assert [call for call in both.compute.calls if "get" not in call] == [
        "delete new",
        "compute/zones/z/o",
    ]
    assert [call for call in both.tpu.calls if "get" not in call] == ["label old", "projects/p/o"]


async def test_a_name_is_unique_over_both():
    both = Both()
    name = both.tpu.add("mine", "1")
    with raises(Reason.EXISTS, "already exists in us-east5-a"):
        await both.cloud.begin_create(name, NodeSpec(type="v6e-8", version="", api="compute"))
    assert not both.compute.nodes
    other = structs.replace(name, node="other")
    await both.cloud.begin_create(other, NodeSpec(type="v6e-8", version="", api="compute"))
    assert (await both.cloud.get_node(other)).api == "compute"


async def test_what_a_process_began_is_not_taken_for_another_ones_tpu_of_the_name():
    """Or else a deletion that another process continues would find "another's", and end."""
    both = Both()
    name = NodeName("p", ZONE, "mine")
    await both.cloud.begin_create(name, NodeSpec(type="v6e-8", version="", api="compute"))
    both.tpu.add("mine", "another person's")
    both.restarted()
    assert (await both.cloud.get_node(name)).id == "compute-new"
    assert await both.listed() == {"mine": "compute-new", "mine@tpu": "another person's"}
    await both.cloud.begin_delete(name)
    assert (both.compute.nodes, len(both.tpu.nodes)) == ({}, 1)
    assert (await both.cloud.get_node(name)).id == "another person's"


async def test_two_tpus_of_one_name_can_be_told_apart():
    both = Both()
    both.tpu.add("twin", "1")
    name = both.compute.add("twin", "2")
    assert await both.listed() == {"twin": "1", "twin@compute": "2"}
    second = structs.replace(name, node="twin@compute")
    node = await both.cloud.get_node(second)
    assert (node.id, node.name) == ("2", second)
    await both.cloud.set_label(node, "a", "b")
    await both.cloud.begin_delete(second)
    assert both.compute.calls[-2:] == ["label twin", "delete twin"]
    assert await both.listed() == {"twin": "1"}


async def test_a_control_plane_that_does_not_answer_hides_no_tpu_of_the_other():
    both = Both()
    both.tpu.add("old", "1")
    both.compute.failure = TPUError("no answer", Reason.UNAVAILABLE)
    nodes = await both.cloud.list_nodes()
    assert (names(nodes.nodes), list(nodes.unanswered)) == (["old"], ["compute"])
    both.tpu.failure = TPUError("no network", Reason.UNAVAILABLE)
    with pytest.raises(TPUError, match="no network"):
        await both.cloud.list_nodes()


async def test_a_project_that_does_not_use_compute_engine_notices_nothing():
    both = Both()
    both.tpu.add("old", "1")
    both.compute.failure = APIDisabled("it is disabled", Reason.PERMISSION)
    nodes = await both.cloud.list_nodes()
    assert (names(nodes.nodes), nodes.not_listed) == (["old"], {})
    with raises(Reason.NOT_FOUND):
        await both.cloud.get_node(NodeName("p", ZONE, "missing"))
    assert await both.cloud.locations() == ("us-central2-b", ZONE)


async def test_a_control_plane_that_refuses_to_list_is_named_though_no_tpu_of_it_is_known():
    both = Both()
    both.tpu.add("old", "1")
    both.compute.failure = TPUError("not allowed", Reason.PERMISSION)
    for listed in (await both.cloud.list_nodes(), await both.cloud.list_queued()):
        assert [str(why) for why in listed.refused.values()] == ["not allowed"]
        assert listed.unanswered == {}  # nothing is missing of what was seen


async def test_a_tpu_is_not_said_to_be_gone_by_who_may_not_ask():
    both = Both()
    name = both.compute.add("new", "2")
    await both.listed()
    both.compute.failure = TPUError("not allowed", Reason.PERMISSION)
    both.restarted()
    assert list((await both.cloud.list_nodes()).unanswered) == ["compute"]
    with pytest.raises(TPUError, match="not allowed"):
        await both.cloud.get_node(name)


@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.NO_CREDENTIALS])
async def test_a_tpu_is_missing_only_if_both_say_so(reason):
    both = Both()
    both.compute.failure = TPUError("no answer", reason)
    with raises(reason):
        await both.cloud.get_node(NodeName("p", ZONE, "missing"))


async def test_a_zone_that_only_one_has_is_asked_there():
    both = Both()
    both.tpu.failure = TPUError("Location us-central1-ai1a is not found", Reason.PERMISSION)
    assert "tpu7x-8" in await both.cloud.accelerator_types("us-central1-ai1a")
    with raises(Reason.NOT_FOUND):
        await both.cloud.get_node(NodeName("p", "us-central1-ai1a", "missing"))


async def test_types_and_zones_are_those_of_both_each_once():
    both = Both()
    assert await both.cloud.locations() == ("us-central2-b", ZONE, "us-central1-ai1a")
    assert await both.cloud.accelerator_types(ZONE) == ("v6e-8", "v5litepod-8", "tpu7x-8")
    assert both.cloud.of_api("compute") is both.compute


async def test_a_request_that_waits_is_found_where_it_was_made():
    both = Both()
    name = NodeName("p", ZONE, "flexible")
    node = NodeSpec(type="v6e-8", version="", tier="flex-start", api="compute")
    await both.cloud.begin_queue(name, QueuedSpec(node=node, node_id="flexible", run_for=3600))
    both.restarted()
    assert (await both.cloud.get_queued(name)).name == name
    await both.cloud.begin_delete_queued(name, force=False)
    assert both.compute.calls[-1] == "delete queued flexible"
    assert len((await both.cloud.list_queued()).queued) == 1
