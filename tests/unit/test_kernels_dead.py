"""What is remembered of kernels that are dead."""

import pytest
from msgspec import structs

from jupyter_tpu.cloud.models import NodeName
from jupyter_tpu.fleet.core.changes import ChangeFeed
from jupyter_tpu.fleet.kernels.kernels import MOST_DEAD_KERNELS, KernelMonitor
from jupyter_tpu.fleet.models import Change, Kernel

NAME = NodeName("p", "us-west4-a", "my-tpu")


def lost(id: str) -> Kernel:
    return Kernel(id=id, tpu=NAME.node, zone=NAME.zone, environment="default", state="dead")


async def test_of_lost_kernels_that_nobody_looks_at_the_last_ones_are_remembered():
    changes = ChangeFeed()
    monitor = KernelMonitor(changes)
    changes.register("kernel", monitor.find)
    changes.register_tpus(lambda name: Change(what="tpu", id=name.node))
    published: list[tuple[str, bool]] = []
    changes.subscribe(lambda change: published.append((change.id, change.gone)))
    for number in range(MOST_DEAD_KERNELS + 2):
        monitor.record_lost(NAME, lost(f"k{number:03}"))
        changes.flush()
    assert [kernel.id for kernel in monitor.last_known(NAME)] == [
        f"k{n:03}" for n in range(2, MOST_DEAD_KERNELS + 2)
    ]
    assert [id for id, gone in published if gone] == ["k000", "k001"]
    assert monitor.dismiss_lost(NAME, "k002")
    assert not monitor.dismiss_lost(NAME, "k002")
    monitor.clear(NAME)
    assert len(monitor.last_known(NAME)) == MOST_DEAD_KERNELS - 1
    monitor.clear(NAME, lost=True)
    assert monitor.last_known(NAME) == []
    changes.close()


async def test_a_report_replaces_the_last_one_and_ends_the_notebooks_lost_kernel():
    changes = ChangeFeed()
    changes.register_tpus(lambda name: Change(what="tpu", id=name.node))
    monitor = KernelMonitor(changes)
    changes.register("kernel", monitor.find)
    published: list[tuple[str, bool]] = []
    changes.subscribe(lambda change: published.append((change.id, change.gone)))
    monitor.record_lost(NAME, structs.replace(lost("old"), notebook="a.ipynb"))
    monitor.update(NAME, [{"id": "one", "state": "idle"}, {"id": "two", "state": "idle"}])
    changes.flush()
    assert {kernel.id for kernel in monitor.last_known(NAME)} == {"old", "one", "two"}
    monitor.update(NAME, [{"id": "two", "state": "busy", "notebook": "a.ipynb"}])
    changes.flush()
    assert [(kernel.id, kernel.state) for kernel in monitor.last_known(NAME)] == [("two", "busy")]
    assert {id for id, gone in published if gone} == {"old", "one"}
    changes.close()


async def test_kernels_of_other_hosts_are_known_and_a_report_of_one_host_leaves_the_others():
    changes = ChangeFeed()
    monitor = KernelMonitor(changes)
    monitor.update(NAME, [{"id": "one"}], 0)
    monitor.update(NAME, [{"id": "two"}, {"id": "three"}], 3)
    monitor.update(NAME, [{"id": "two"}], 3)
    assert {kernel.id: kernel.host for kernel in monitor.last_known(NAME)} == {"one": 0, "two": 3}
    monitor.update(NAME, [], 0)
    assert [kernel.id for kernel in monitor.last_known(NAME)] == ["two"]
    changes.close()


@pytest.mark.parametrize(
    "end",
    [
        lambda monitor: monitor.record_lost(NAME, lost("one")),
        # After a reboot the host knows that it had the kernel, or not even that.
        lambda monitor: monitor.update(NAME, [{"id": "one", "state": "dead"}]),
        lambda monitor: (monitor.update(NAME, []), monitor.record_lost(NAME, lost("one"))),
        lambda monitor: monitor.clear(NAME),
    ],
)
async def test_the_cell_that_ran_in_a_kernel_is_known_however_its_end_is_noticed(end):
    changes = ChangeFeed()
    changes.register_tpus(lambda name: Change(what="tpu", id=name.node))
    monitor = KernelMonitor(changes)
    interrupted: list[tuple[str, str]] = []
    monitor.interrupted.add(lambda ended: interrupted.append((ended.kernel.id, ended.kernel.cell)))
    monitor.update(NAME, [{"id": "one", "state": "busy", "cell": "c1"}, {"id": "idle"}])
    end(monitor)
    assert interrupted == [("one", "c1")]
    changes.close()


async def test_a_lost_kernel_is_published_although_its_tpu_is_forgotten_in_the_next_moment():
    changes = ChangeFeed()
    changes.register_tpus(lambda name: Change(what="tpu", id=name.node))
    monitor = KernelMonitor(changes)
    changes.register("kernel", monitor.find)
    published: list[tuple[str, bool]] = []
    changes.subscribe(lambda change: published.append((change.id, change.gone)))
    monitor.update(NAME, [{"id": "one", "state": "busy"}])
    monitor.record_lost(NAME, lost("one"))
    monitor.clear(NAME, lost=True)
    changes.flush()
    assert [gone for id, gone in published if id == "one"] == [False, True]
    changes.close()
