"""Python environments of hosts, and their packages.

They stay on the hosts when a TPU is disconnected, and are there when it is connected again.
"""

from __future__ import annotations

from ..core.core import Core
from ..core.view import TPUFacts
from ..kernels import Kernels
from .environment import HostPythons
from .packages import EnvironmentService


class Environments:
    def __init__(self, core: Core, kernels: Kernels) -> None:
        self.pythons = HostPythons(core)
        self.service = EnvironmentService(core, kernels.service, kernels.warm)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.environments = [*self.service.last_known(facts.name)]
