"""The subjects of the fleet, from the lowest: each builds its services on core and those before it.

A subject adds to `Core` what its services have to hear of, what TPUs show of them, their loops, and
what ends them.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial

from ..cloud import Node, NodeName
from ..paths import data_dir
from .agents.access import AgentAccess
from .agents.budgets import BudgetEnds, BudgetService
from .agents.plans import PlanService
from .chips.chips import ChipKernelService, Chips
from .chips.metrics import Metrics
from .core.core import FIRST_LOOK, Core
from .core.operation_runner import ChangedOperation
from .core.records import Snapshot
from .core.view import TPUFacts
from .environments.environment import HostPythons
from .environments.packages import EnvironmentService
from .files.contents import FileAccess
from .files.copies import CopyService
from .files.shares import ShareService
from .files.sync import MirroredProjects, SyncService
from .forwarding.apps import Apps, TensorBoardService
from .forwarding.tunnels import Tunnels
from .hunts.replacing import PreemptedTPUs, ReplacedTPUs
from .hunts.service import HuntService
from .jobs.guard import Guards
from .jobs.guard_setting import GuardService
from .jobs.guard_stops import GoogleEnds, GuardStops
from .jobs.jobs import JobService
from .jobs.profiles import ProfileService
from .jobs.runs import RunService
from .kernels.kernels import Interruptions, KernelMonitor, KernelService
from .kernels.slice_kernels import SliceKernelService
from .kernels.warm_kernels import PodHosts, WarmKernelMonitor
from .lifecycle.attached import AttachedService
from .lifecycle.availability import Availability
from .lifecycle.belongings import RunningWork, TPUBelongings
from .lifecycle.connect import ConnectService
from .lifecycle.create import CreateService
from .lifecycle.defaults import EnvironmentDefaults, UnattendedStarts
from .lifecycle.faults import FaultService
from .lifecycle.power import PowerService
from .lifecycle.queued import QueuedService
from .models import Cost
from .money.grants import Grants
from .money.ledger import Ledger
from .money.owners import TPUOwners
from .money.prices import Prices, ReservationService
from .money.run_times import RunTimes
from .reconcile.controller import Controller
from .reconcile.forgotten import ForgottenQueued, ForgottenTPUs, Leftovers
from .reconcile.operations import OperationService, Takeover
from .reconcile.poller import HostPoller
from .reconcile.usage import UsageService
from .setup.doctor import Doctor, MaintenanceWatch
from .setup.networks import LogService, NetworkService
from .setup.preflight import Preflight
from .setup.ssh_keys import SSHKeyService, Tokens


class Money:
    """What TPUs cost, who pays, and since when."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.owners = TPUOwners()
        self.run_times = RunTimes(core.store)
        self.prices = Prices(
            core.cloud, core.store, reload=core.shared.reload, changed=self._prices_changed
        )
        known = core.runner.known
        self.ledger = Ledger(
            core.store,
            core.observed,
            known,
            emulated=core.cloud.emulated,
            changed=lambda: core.changes.mark_changed("budgets", "budgets"),
            tpu_changed=core.changes.mark_tpu_changed,
        )
        self.grants = Grants(
            core.cloud,
            core.store,
            core.observed,
            self.prices,
            asked=known.demands,
            reload=core.shared.reload,
            look=core.observer.ensure_recent,
            starting=known.starting,
            ledger=self.ledger,
            changed=core.changes.mark_tpus_changed,
            grant_changed=core.changes.marker("grant"),
        )
        self.reservations = ReservationService(core.cloud, self.prices)
        core.shared.reloaded.add(self._reload)
        core.observer.described.add(self._described)
        core.observer.polled.add(self._polled)
        core.tpus.register(self._describe)
        core.changes.register("grant", self.grants.find)
        core.changes.register("prices", self.prices.find)

    def _prices_changed(self) -> None:
        self._core.changes.mark_changed("prices", "prices")
        self._core.changes.mark_tpus_changed(self._core.observed.nodes)

    def _described(self, node: Node) -> None:
        self.run_times.observe([node], time.time())
        self.ledger.observe([node], time.time())

    def _reload(self, snapshot: Snapshot) -> None:
        self.ledger.take_over(snapshot)
        self.run_times.reload(snapshot.runs)
        self.grants.take_over(snapshot.grants)
        self.prices.take_over(snapshot.prices)

    def _polled(self, nodes: Collection[Node]) -> None:
        observed = self._core.observed
        self.run_times.observe(nodes, time.time())
        self.ledger.polled(nodes, time.time())
        gone = self.run_times.names() - observed.nodes.keys()
        self.run_times.forget(name for name in gone if observed.complete(name))

    def _describe(self, facts: TPUFacts) -> None:
        facts.cost = self.grants.cost(facts.node)
        facts.agents_may_use = self.ledger.agents_may_use(facts.name)
        if facts.seen:
            facts.since = self.run_times.since(facts.node)
            facts.seconds = self.run_times.seconds(facts.node, time.time())
            owner = self.owners.of(facts.node)
            facts.owner, facts.not_yours = owner.name, owner.is_other


class Forwarding:
    """Ports of hosts that can be reached here."""

    def __init__(self, core: Core) -> None:
        apps = self.apps = Apps(core)
        core.connected.ends_with_tpu(apps.forget, when_disconnected=True)
        core.changes.register("app", apps.find)
        core.ending.push_async_callback(apps.shut_down)

        tunnels = self.tunnels = Tunnels(core)
        core.connected.ends_with_tpu(tunnels.forget)
        core.tpus.register_desired(tunnels.tpus)
        core.observer.register_need(tunnels.tpus)
        core.shared.reloaded.add(self._reload)
        core.changes.register("tunnel", tunnels.find)
        core.loops.register("tunnels", tunnels.run)
        core.ending.push_async_callback(tunnels.shut_down)

        self.tensorboard = TensorBoardService(core, apps)

    def _reload(self, snapshot: Snapshot) -> None:
        self.tunnels.reload(snapshot.tunnels)


class Kernels:
    """The kernels on hosts, and what hosts say of interruptions of them.

    warm: whether an environment has a warm kernel if that was not decided for it.
    """

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


class Files:
    """Files of this machine and of hosts, copied, kept in sync and shared."""

    def __init__(self, core: Core) -> None:
        self.access = FileAccess(core.finder, core.connections)
        self.copies = CopyService(core)
        self.sync = SyncService(core, data_dir() / "sync")
        self.shares = ShareService(core)
        self._mirrored = MirroredProjects(core.connections, core.changes.mark_tpu_changed)
        core.ending.callback(self._mirrored.close)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.projects = self._mirrored.on(facts.name)
        if facts.seen:
            facts.shares = self.shares.last_known(facts.node)


class Environments:
    """Python environments on hosts."""

    def __init__(self, core: Core, kernels: Kernels) -> None:
        self.pythons = HostPythons(core)
        self.service = EnvironmentService(core, kernels.service, kernels.warm)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.environments = [*self.service.last_known(facts.name)]


class Jobs:
    """What runs on hosts besides kernels, and the guards that end what nothing uses.

    What can stop and delete TPUs adds that to `guards` as its ``act``.
    """

    def __init__(self, core: Core, money: Money, forwarding: Forwarding, kernels: Kernels) -> None:
        self._core = core
        runs = self.runs = RunService(
            core.finder, core.desired, core.connections, core.changes.marker("run")
        )
        core.changes.register("run", runs.find)
        core.ending.push_async_callback(runs.shut_down)

        jobs = self.service = JobService(core, self._changed)
        core.connected.ends_with_tpu(jobs.forget)
        core.observer.register_need(jobs.unfinished)
        core.changes.register("job", jobs.find)
        core.loops.register("jobs", jobs.run)

        self.profiles = ProfileService(core, kernels.service, forwarding.tensorboard)

        changed = core.changes.mark_tpu_changed
        self.guard_stops = GuardStops(core.store, core.observed, changed)
        core.observer.polled.add(self._polled)
        self.guards = Guards(
            core.finder,
            core.connections,
            core.observed,
            money.owners,
            cost_of=self._cost,
            changed=changed,
            stops=self.guard_stops,
            ends=GoogleEnds(core.cloud, core.observer),
        )
        core.loops.register("guards", self.guards.run)
        self.guard_setting = GuardService(core.cloud, core.observed, core.runner, self.guards)

        core.shared.reloaded.add(self._reload)
        core.tpus.register(self._describe)

    def _changed(self, id: str) -> None:
        self._core.changes.mark_changed("job", id)
        self._core.polled.wake()

    def _cost(self, name: NodeName) -> Cost:
        return self._core.tpus.tpu(name).cost

    def _polled(self, nodes: Collection[Node]) -> None:
        self.guard_stops.observe(nodes, time.time())

    def _reload(self, snapshot: Snapshot) -> None:
        self.service.reload(snapshot.jobs)
        self.guard_stops.reload(snapshot.guards)

    def _describe(self, facts: TPUFacts) -> None:
        if facts.ready:
            facts.guard = self.guards.last_known(facts.node)
        if facts.seen:
            facts.guard_stop = self.guard_stops.of(facts.node)
            facts.unguarded = self.guard_setting.problem(facts.name)


class TPUChips:
    """Who uses which chips, and how much."""

    def __init__(self, core: Core, kernels: Kernels, jobs: Jobs) -> None:
        self.metrics = Metrics(core)
        self.service = Chips(core, kernels.service, jobs.service, jobs.runs)
        self.kernels = ChipKernelService(core)


class Lifecycle:
    """TPUs are created, connected, stopped and deleted. defaults: what new environments get."""

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


class Hunts:
    """Creating TPUs when Google has no capacity now."""

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


class Setup:
    """What else a project and its TPUs need, and whether they have it."""

    def __init__(self, core: Core, lifecycle: Lifecycle) -> None:
        cloud = core.cloud
        self.tokens = Tokens()
        self.networks = NetworkService(cloud, core.connections)
        self.ssh_key = SSHKeyService(cloud, core.links.login_changed)
        self.logs = LogService(cloud, core.finder)
        preflight = Preflight(cloud, lifecycle.availability, core.links.key_metadata)
        self.doctor = Doctor(core, preflight.check)
        self.maintenance = MaintenanceWatch(cloud, core.observed, core.changes.mark_tpus_changed)
        core.observer.polled.add(lambda _: self.maintenance.polled())
        core.loops.register("maintenance", self.maintenance.run, always=True)


class Reconcile:
    """TPUs, hosts and operations are watched, and follow what is desired."""

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

        self.controller = Controller(core, forwarding.tunnels, kernels.service, lifecycle.connect)

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

        self.usage = UsageService(
            core, money.grants, money.run_times, money.owners, self._forgotten
        )
        core.ending.push_async_callback(self.usage.close)

    def _describe(self, facts: TPUFacts) -> None:
        facts.forgotten = facts.seen and self._forgotten.is_forgotten(facts.node)


class Agents:
    """Budgets, plans, and what coding agents may do."""

    def __init__(
        self, core: Core, money: Money, jobs: Jobs, lifecycle: Lifecycle, hunts: Hunts
    ) -> None:
        self._core = core
        self._ledger = money.ledger
        plans = self.plans = PlanService(
            core.cloud,
            core.store,
            lifecycle.create,
            hunts.service,
            money.grants,
            money.ledger,
            core.shared.reload,
            changed=lambda: core.changes.mark_changed("budgets", "budgets"),
        )
        ends = BudgetEnds(money.ledger, jobs.guards, lifecycle.power, core.observed)
        self.budgets = BudgetService(core, money.ledger, money.owners, plans, ends.shorten)
        self.access = AgentAccess(core.finder, money.ledger, self._begun_by)
        core.shared.reloaded.add(self._reload)
        core.changes.register("budgets", self.budgets.find)
        core.loops.register("budgets", ends.run)

    def _reload(self, snapshot: Snapshot) -> None:
        self.plans.take_over(snapshot.plans)

    def _begun_by(self, id: str) -> tuple[str, NodeName]:
        known = self._core.runner.known
        operation = next(
            (candidate for candidate in known.all() if id in (candidate.id, candidate.tpu)), None
        ) or known.get(id)
        name = NodeName(self._core.cloud.project, operation.zone, operation.tpu)
        begun = self.plans.began(operation.id) or self._ledger.is_of_agent(operation.id)
        return "agent" if begun else "", name
