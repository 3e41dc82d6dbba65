"""The chips of hosts: who uses them, how to free them, and their memory and load.

Several kernels can share one host if each gets some of its chips.
"""

from __future__ import annotations

from ..core.core import Core
from ..jobs import Jobs
from ..kernels import Kernels
from .chips import ChipKernelService, Chips
from .metrics import Metrics


class TPUChips:
    def __init__(self, core: Core, kernels: Kernels, jobs: Jobs) -> None:
        self.metrics = Metrics(core)
        self.service = Chips(core, kernels.service, jobs.service, jobs.runs)
        self.kernels = ChipKernelService(core)
