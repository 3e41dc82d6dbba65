"""`TPUChips`: who uses which chips, and how much."""

from __future__ import annotations

from ..core.core import Core
from ..jobs.subject import Jobs
from ..kernels.subject import Kernels
from .chip_kernels import ChipKernelService
from .chips import Chips
from .metrics import Metrics


class TPUChips:
    def __init__(self, core: Core, kernels: Kernels, jobs: Jobs) -> None:
        self.metrics = Metrics(core)
        self.service = Chips(core, kernels.service, jobs.service, jobs.runs)
        self.kernels = ChipKernelService(core)
