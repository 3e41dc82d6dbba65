"""The kernels on hosts: which there are, warm ones, and what interrupts them.

A kernel ends only if somebody ends it, not with a link or a server.
"""

from __future__ import annotations

from functools import partial

from ..core.core import Core
from ..core.view import TPUFacts
from .kernels import Interruptions, KernelMonitor, KernelService
from .slice_kernels import SliceKernelService
from .warm_kernels import PodHosts, WarmKernelMonitor


class Kernels:
    """warm: whether an environment has a warm kernel if that was not decided for it."""

    def __init__(self, core: Core, *, warm: bool) -> None:
        self.monitor = KernelMonitor(core.changes)
        core.changes.register("kernel", self.monitor.find)
        pods = PodHosts(core.connections, core.polled.wake)
        core.loops.register("pods", pods.run)
        self.warm = WarmKernelMonitor(core, pods, by_default=warm)
        core.runner.ended.add(self.warm.resume)
        self.service = KernelService(core, self.monitor, self.warm)
        self.slices = SliceKernelService(core)
        forget = partial(self.service.clear, lost=True)
        core.connected.ends_with_tpu(forget, when_disconnected=True)
        self.interruptions = Interruptions(core.observed, core.changes.mark_tpu_changed)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        kernels = self.monitor.last_known(facts.name)
        facts.kernels = sum(kernel.state != "dead" for kernel in kernels)
        if facts.ready:
            facts.interruption = self.interruptions.last_known(facts.node)
