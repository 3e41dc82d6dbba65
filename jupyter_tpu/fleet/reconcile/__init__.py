"""The loops that compare desired with observed state and act; operations, and what TPUs cost.

What was desired is carried out after a restart, a lost link or a preemption, without a request.
"""

from __future__ import annotations

from ..chips import TPUChips
from ..core.core import FIRST_LOOK, Core
from ..core.view import TPUFacts
from ..environments import Environments
from ..forwarding import Forwarding
from ..jobs import Jobs
from ..kernels import Kernels
from ..lifecycle import Lifecycle
from ..money import Money
from .controller import Controller
from .forgotten import ForgottenQueued, ForgottenTPUs, Leftovers
from .operations import OperationService, Takeover
from .poller import HostPoller
from .usage import UsageService


class Reconcile:
    def __init__(
        self,
        core: Core,
        money: Money,
        forwarding: Forwarding,
        kernels: Kernels,
        environments: Environments,
        jobs: Jobs,
        chips: TPUChips,
        lifecycle: Lifecycle,
    ) -> None:
        poller = HostPoller(
            core.connections,
            core.polled,
            kernels.monitor,
            kernels.warm,
            jobs.service.follower,
            chips.metrics,
            core.failures,
            environments.service.follow,
            jobs.guards.update,
            kernels.interruptions.update,
        )
        core.runner.ended.add(poller.refresh)
        core.loops.register("hosts", poller.run)

        self.controller = Controller(core, forwarding, kernels, lifecycle)

        self.takeover = Takeover(core.runner, core.shared.reload, supervise=core.supervise)
        core.loops.register("operations", self.takeover.run, always=True)
        self.operations = OperationService(
            core.cloud, core.runner, core.observed, money.grants, core.shared.reload
        )

        self._forgotten = ForgottenTPUs(core.desired, jobs.service, money.run_times, money.owners)
        core.observer.polled.add(self._forgotten.report)
        core.tpus.register(self._describe)
        forgotten_queued = ForgottenQueued(lifecycle.queued, FIRST_LOOK)
        core.loops.register("forgotten queued resources", forgotten_queued.run)
        core.loops.register("leftovers", Leftovers(core.cloud, FIRST_LOOK).run)

        self.usage = UsageService(core, money, self._forgotten)
        core.ending.push_async_callback(self.usage.close)

    def _describe(self, facts: TPUFacts) -> None:
        facts.forgotten = facts.seen and self._forgotten.is_forgotten(facts.node)
