"""One kernel on all hosts of several TPUs: what it needs of them, and when it comes by itself."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_tpu.cloud import Endpoint, Node, NodeName, NodeState
from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.core.connections import ConnectedTPUs
from jupyter_tpu.fleet.core.records import EnvironmentRecord
from jupyter_tpu.fleet.kernels.slice_kernels import SliceKernelService
from jupyter_tpu.fleet.models import AddSlicesKernel, ConnectTPU, Environment
from jupyter_tpu.kernels import KernelSpecs


class TPUs:
    """TPUs with two hosts each, as a fleet knows them."""

    def __init__(self, folder: Path) -> None:
        self.nodes: dict[NodeName, Node] = {}
        self.connected: set[NodeName] = set()
        self._records: dict[NodeName, dict[str, EnvironmentRecord]] = {}
        self.specs = KernelSpecs(folder)
        cloud: Any = SimpleNamespace(emulated=False, target=SimpleNamespace(emulator=None))
        core: Any = SimpleNamespace(finder=self, desired=self, observed=self)
        connections: Any = None
        core.connected = self._connected = ConnectedTPUs(
            cloud, core.desired, self.specs, connections
        )
        self.service = SliceKernelService(core)

    def add(self, name: str, *, zone: str = "z", queued: str = "") -> NodeName:
        node = NodeName("p", zone, name)
        endpoints = (Endpoint(internal="10.0.0.1"), Endpoint(internal="10.0.0.2"))
        self.nodes[node] = Node(
            name=node, id=name, type="v4-16", state=NodeState.READY, queued=queued,
            endpoints=endpoints,
        )  # fmt: skip
        return node

    def connect(self, node: NodeName, python: str = "3.12.4") -> list[str]:
        """As when its environment has become ready; the display names of other kernels."""
        environment = Environment(
            name="default", tpu=node.node, zone=node.zone, state="ready", python=python, path="/env"
        )
        record = EnvironmentRecord(
            node_id=node.node, request=ConnectTPU(), environment=environment, hosts=2
        )
        self._records[node] = {"default": record}
        self.connected.add(node)
        return self._connected.added_with(node, "default")

    async def find(self, ref: str) -> NodeName:
        return next(node for node in self.nodes if node.node == ref)

    def node(self, name: NodeName) -> Node | None:
        return self.nodes.get(name)

    def environments(self, name: NodeName) -> dict[str, EnvironmentRecord]:
        return self._records.get(name, {})

    def kernel(self, first: str, *others: str) -> Any:
        return asyncio.run(self.service.add(first, AddSlicesKernel(slices=[*others])))


@pytest.fixture
def tpus(tmp_path: Path) -> TPUs:
    return TPUs(tmp_path)


def test_the_last_tpu_of_a_queued_resource_to_be_connected_brings_the_kernel_on_all(tpus):
    names = {name: tpus.add(name, queued="job") for name in ("job2", "job10", "job0")}
    tpus.add("other", queued="else")
    assert tpus.connect(names["job2"]) == []
    assert tpus.connect(names["job0"]) == []
    display_name = "Python 3.12 · job0 + job2 + job10 (3 slices, all 6 hosts)"
    assert tpus.connect(names["job10"]) == [display_name]
    [spec] = tpus.specs.list()
    assert (spec.place.hosts, spec.place.other_tpus) == (6, ["job2", "job10"])
    assert spec.place.host_python == "/env/bin/python"
    assert tpus.connect(names["job10"]) == [display_name], "again: it is the same one"
    assert len(tpus.specs.list()) == 1
    assert tpus.kernel("job2", "queued").slices == ["job2", "job0", "job10"]


def test_a_tpu_alone_or_beside_others_brings_no_other_kernel(tpus):
    alone, beside = tpus.add("alone", queued="job"), tpus.add("beside")
    assert tpus.connect(alone) == tpus.connect(beside) == []
    with pytest.raises(TPUError, match="alone is the only TPU of its queued resource"):
        tpus.kernel("alone", "queued")
    kernel = tpus.kernel("alone", "beside")
    assert kernel.display_name == "Python 3.12 · alone + beside (2 slices, all 4 hosts)"
    assert (kernel.hosts, kernel.slices) == (4, ["alone", "beside"])


def test_what_can_not_be_one_job_is_refused_with_the_reason(tpus):
    for name, zone, python in (("a", "z", "3.12.4"), ("far", "y", "3.12.4"), ("old", "z", "3.11")):
        tpus.connect(tpus.add(name, zone=zone), python)
    tpus.add("b")
    off = tpus.add("off")
    tpus.connect(off)
    tpus.connected.discard(off)
    for others, problem in (
        (["a"], "A TPU is named twice"),
        (["far"], "far is in another zone than a"),
        (["b"], "b has no connected environment default"),
        (["off"], "off has no connected environment default"),
        (["old"], "The environments default differ: Python 3.11, Python 3.12"),
    ):
        with pytest.raises(TPUError, match=problem):
            tpus.kernel("a", *others)
    assert tpus.specs.list() == []
