"""The life of a TPU: create, queue, connect, start, stop, delete; and attached machines.

What is asked for is stored before Google is called, and carried on by the next process.
"""

from __future__ import annotations

from ..core.core import Core
from ..files import Files
from ..forwarding import Forwarding
from ..jobs import Jobs
from ..kernels import Kernels
from ..money import Money
from .attached import AttachedService
from .availability import Availability
from .belongings import RunningWork, TPUBelongings
from .connect import ConnectService
from .create import CreateService
from .defaults import EnvironmentDefaults, UnattendedStarts
from .faults import FaultService
from .power import PowerService
from .queued import QueuedService


class Lifecycle:
    """defaults: what new environments get."""

    def __init__(
        self,
        core: Core,
        money: Money,
        files: Files,
        forwarding: Forwarding,
        kernels: Kernels,
        jobs: Jobs,
        defaults: EnvironmentDefaults,
    ) -> None:
        work = self.work = RunningWork(kernels.service, jobs.service)
        self.availability = Availability(core.cloud, lambda: money.prices.table)
        self.belongings = TPUBelongings(core, forwarding.tunnels, files.sync, files.shares)
        self.connect = ConnectService(core, work, forwarding.tensorboard, defaults, self.belongings)
        self.attached = AttachedService(core, work, forwarding.tensorboard)
        self.power = PowerService(
            core.cloud,
            core.observer,
            core.connections,
            core.connected,
            work,
            money.grants,
            money.owners,
            core.runner,
            jobs.guard_stops,
        )
        jobs.guards.act = self.power.act_for_guard
        self.create = CreateService(
            core.links,
            self.availability,
            core.observer,
            money.grants,
            core.runner,
            self.connect.follow,
            jobs.guard_setting.follow,
            UnattendedStarts(core.cloud, core.locks, defaults),
        )
        self.faults = FaultService(core.cloud, core.observer, work, money.owners, core.runner)
        self.queued = QueuedService(
            core.cloud,
            self.create,
            core.observer,
            core.runner,
            money.owners,
            core.changes.marker("queued"),
        )
        core.changes.register("queued", self.queued.find)
