"""`Environments`: Python environments on hosts, and the projects that are mirrored to them."""

from __future__ import annotations

from ..core.core import Core
from ..core.view import TPUFacts
from ..kernels.subject import Kernels
from .mirrored import MirroredProjects
from .packages import EnvironmentService
from .pythons import HostPythons


class Environments:
    def __init__(self, core: Core, kernels: Kernels) -> None:
        self.pythons = HostPythons(core)
        self._mirrored = MirroredProjects(core.connections, core.changes.mark_tpu_changed)
        core.ending.callback(self._mirrored.close)
        self.service = EnvironmentService(core, kernels.service, kernels.warm)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.environments = [*self.service.last_known(facts.name)]
        facts.projects = self._mirrored.on(facts.name)
