"""Hunts: the search for capacity over zones, types and tiers, until there is a TPU.

A hunt continues after a restart of the server; stopping it deletes what it has asked for.
"""

from __future__ import annotations

from ..core.core import Core
from ..core.operation_runner import ChangedOperation
from ..jobs import Jobs
from ..lifecycle import Lifecycle
from ..money import Money
from .replacing import PreemptedTPUs, ReplacedTPUs
from .service import HuntService


class Hunts:
    def __init__(self, core: Core, money: Money, jobs: Jobs, lifecycle: Lifecycle) -> None:
        self._core = core
        self.service = HuntService(
            core.cloud,
            core.store,
            lifecycle.create,
            core.observer,
            money.grants,
            core.runner,
            PreemptedTPUs(core.cloud, core.observer, core.desired, lifecycle.power, core.runner),
            core.shared.reload,
            core.changes.mark_tpu_changed,
            ReplacedTPUs(core, lifecycle.power, lifecycle.work, jobs.guards, lifecycle.belongings),
        )
        core.runner.changed.add(self._operation_changed)
        core.changes.register("hunt", self.service.find)
        core.ending.push_async_callback(self.service.shut_down)

    def _operation_changed(self, changed: ChangedOperation) -> None:
        self._core.changes.mark_changed("hunt", changed.id)
