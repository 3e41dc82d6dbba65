"""What is remembered of kernels that are dead."""

from __future__ import annotations

from typing import Any

from jupyter_tpu.cloud.models import NodeName
from jupyter_tpu.fleet.hosts.kernels import LOST, KernelMonitor
from jupyter_tpu.fleet.models import Kernel

NAME = NodeName("p", "us-west4-a", "my-tpu")


def lost(id: str) -> Kernel:
    return Kernel(id=id, tpu=NAME.node, zone=NAME.zone, environment="default", state="dead")


def test_of_lost_kernels_that_nobody_looks_at_the_last_ones_are_remembered() -> None:
    changed: list[str] = []
    nobody: Any = None
    monitor = KernelMonitor(nobody, nobody, lambda name, ids: changed.extend(sorted(ids)))
    for number in range(LOST + 2):
        monitor.record_lost(NAME, lost(f"k{number:03}"))
    assert [kernel.id for kernel in monitor.known(NAME)] == [f"k{n:03}" for n in range(2, LOST + 2)]
    assert changed[-4:] == ["k000", f"k{LOST:03}", "k001", f"k{LOST + 1:03}"]
    assert monitor.find("k000") is None  # so that it is told as gone
    assert monitor.dismiss_lost(NAME, "k002")
    monitor.forget_lost(NAME)
    assert monitor.known(NAME) == []
