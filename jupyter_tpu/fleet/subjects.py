"""The subjects of the fleet, from the lowest: each builds its services on core and those before it.

A subject adds to `Core` what its services have to hear of, what TPUs show of them, their loops, and
what ends them.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from ..cloud import Node
from ..paths import data_dir
from .agents.access import AgentAccess
from .agents.budgets import BudgetEnds, BudgetService
from .agents.plans import PlanService
from .chips.chips import ChipKernelService, Chips
from .chips.metrics import Metrics
from .core.core import FIRST_LOOK, Core
from .core.records import Snapshot
from .core.view import TPUFacts
from .environments.environment import HostPythons
from .environments.packages import EnvironmentService
from .files.contents import FileAccess
from .files.copies import CopyService
from .files.mirrored_projects import MirroredProjects
from .files.shares import ShareService
from .files.sync import SyncService
from .forwarding.apps import Apps, TensorBoardService
from .forwarding.tunnels import Tunnels
from .homes.before_end import HomesBeforeEnd
from .homes.hosts import HomeHosts
from .homes.index import HomeIndex
from .homes.service import HomeService
from .hunts.replacing import PreemptedTPUs, ReplacedTPUs
from .hunts.service import HuntService
from .jobs.guard import Guards
from .jobs.guard_setting import GuardService
from .jobs.guard_stops import GoogleEnds, GuardStops
from .jobs.jobs import JobService
from .jobs.profiles import ProfileService
from .jobs.runs import RunService
from .kernels.kernels import Interruptions, KernelMonitor, KernelService
from .kernels.slice_kernels import PodAuthorizer, SliceKernelService, WarmKernelMonitor
from .lifecycle.attached import AttachedService
from .lifecycle.availability import Availability
from .lifecycle.belongings import RunningWork, TPUBelongings
from .lifecycle.connect import ConnectService
from .lifecycle.create import CreateService
from .lifecycle.defaults import EnvironmentDefaults
from .lifecycle.faults import FaultService
from .lifecycle.power import PowerService
from .lifecycle.queued import QueuedService
from .money.grants import Grants
from .money.ledger import Ledger
from .money.owners import ReadyTimes, TPUOwners
from .money.prices import Prices, ReservationService
from .reconcile.controller import Controller
from .reconcile.operations import OperationService, Takeover
from .reconcile.poller import HostPoller
from .reconcile.usage import ForgottenQueued, ForgottenTPUs, Leftovers, UsageService
from .sessions.before_end import SessionsBeforeEnd
from .sessions.computer import ComputerSessions
from .sessions.hosts import SessionHosts
from .sessions.index import SessionIndex
from .sessions.kernels import KernelSessions
from .sessions.retention import SessionRetention
from .sessions.service import SessionService
from .setup.doctor import Doctor, MaintenanceWatch
from .setup.networks import LogService, NetworkService
from .setup.preflight import Preflight
from .setup.ssh_keys import SSHKeyService, Tokens


class Money:
    """What TPUs cost, who pays, and since when."""

    def __init__(self, core: Core) -> None:
        self._observed = core.observed
        self.owners = TPUOwners()
        self.ready_times = ReadyTimes(core.store)
        self.prices = Prices(core)
        self.ledger = Ledger(core)
        core.connected.is_of_agent = self.ledger.created_by_agent
        self.grants = Grants(core, self.prices, self.ledger)
        self.reservations = ReservationService(core.cloud, self.prices)
        core.shared.reloaded.add(self._reload)
        core.observer.described.add(self._described)
        core.observer.polled.add(self._polled)
        core.observer.register_remembered(self.ready_times.tpus)
        core.observer.register_remembered(self.ledger.tpus)
        core.tpus.register(self._describe)
        core.changes.register("grant", self.grants.find)
        core.changes.register("prices", self.prices.find)

    def _described(self, node: Node) -> None:
        self.ready_times.observe([node], time.time())
        self.ledger.observe([node], time.time())

    def _reload(self, snapshot: Snapshot) -> None:
        self.ledger.take_over(snapshot)
        self.ready_times.reload(snapshot.ready_times)
        self.grants.take_over(snapshot.grants)
        self.prices.take_over(snapshot.prices)

    def _polled(self, nodes: Collection[Node]) -> None:
        self.ready_times.observe(nodes, time.time())
        self.ledger.polled(nodes, time.time())
        self.ready_times.forget(self._observed.gone)

    def _describe(self, facts: TPUFacts) -> None:
        facts.cost = self.grants.cost(facts.node)
        facts.agents_may_use = self.ledger.agents_may_use(facts.name)
        facts.planned_by = self.ledger.planned_by(facts.name)
        if facts.seen:
            facts.since = self.ready_times.since(facts.node)
            facts.seconds = self.ready_times.seconds(facts.node, time.time())
            facts.ended = self.ready_times.ended(facts.node)
            owner = self.owners.of(facts.node)
            facts.owner, facts.not_yours = owner.name, owner.is_other


class Forwarding:
    """Ports of hosts that can be reached here."""

    def __init__(self, core: Core) -> None:
        self.apps = Apps(core)
        self.tunnels = Tunnels(core)
        self.tensorboard = TensorBoardService(core, self.apps)


class Kernels:
    """The kernels on hosts, and what hosts say of interruptions of them.

    warm: whether an environment has a warm kernel if that was not decided for it.
    """

    def __init__(self, core: Core, *, warm: bool) -> None:
        self.monitor = KernelMonitor(core.changes)
        self.warm = WarmKernelMonitor(core, PodAuthorizer(core), by_default=warm)
        self.service = KernelService(core, self.monitor, self.warm)
        self.slices = SliceKernelService(core)
        self.interruptions = Interruptions(core.observed, core.changes.mark_tpu_changed)
        core.changes.register("kernel", self.monitor.find)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        kernels = self.monitor.last_known(facts.name)
        facts.kernels = sum(kernel.state != "dead" for kernel in kernels)
        if facts.ready:
            facts.interruption = self.interruptions.last_known(facts.node)


class Files:
    """Files of this machine and of hosts, copied, kept in sync and shared."""

    def __init__(self, core: Core) -> None:
        self.access = FileAccess(core)
        self.copies = CopyService(core)
        self.sync = SyncService(core, data_dir() / "sync")
        self.shares = ShareService(core)
        self._mirrored = MirroredProjects(core.connections, core.changes.mark_tpu_changed)
        core.ending.callback(self._mirrored.close)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.projects = self._mirrored.on(facts.name)


class Homes:
    """Home folders that are kept in buckets."""

    def __init__(self, core: Core, money: Money) -> None:
        index, hosts = self.index, self.hosts = HomeIndex(core), HomeHosts(core)
        self.service = HomeService(core, money.owners, index, hosts)
        self.before_end = HomesBeforeEnd(core, index, hosts)
        core.loops.register("home folders", self.service.run)
        core.ending.push_async_callback(self.service.shut_down)


class Sessions:
    """The saved variables of kernels."""

    def __init__(
        self, core: Core, money: Money, kernels: Kernels, files: Files, homes: Homes
    ) -> None:
        index, service = SessionIndex(core), kernels.service
        hosts, saver = SessionHosts(core, index), KernelSessions(core, index)
        computer = ComputerSessions(core, index, hosts)
        self.service = SessionService(
            core, service, money.owners, index, hosts, saver, homes.service, files.sync, computer
        )
        self.before_end = SessionsBeforeEnd(core, service, index, saver, computer)
        kernels.monitor.reported.add(
            lambda reported: index.note_reported(reported.tpu, reported.kernel, reported.report)
        )
        kernels.monitor.interrupted.add(lambda ended: index.note_interrupted(*ended))
        core.loops.register("sessions", SessionRetention(core, index, hosts, computer).run)
        core.loops.register("session copies", computer.run)


class Environments:
    """Python environments on hosts."""

    def __init__(self, core: Core, kernels: Kernels) -> None:
        self.pythons = HostPythons(core)
        self.service = EnvironmentService(core, kernels.service, kernels.warm)


class Jobs:
    """What runs on hosts besides kernels, and the guards that end what nothing uses.

    What can stop and delete TPUs adds that to `guards` as its ``act``.
    """

    def __init__(
        self,
        core: Core,
        money: Money,
        files: Files,
        homes: Homes,
        forwarding: Forwarding,
        kernels: Kernels,
    ) -> None:
        self.runs = RunService(core)
        self.service = JobService(core, files.sync, homes.service)
        self.profiles = ProfileService(core, kernels.service, forwarding.tensorboard)
        self.guard_stops = GuardStops(core)
        ends = GoogleEnds(core.cloud, core.observer)
        self.guards = Guards(core, money.owners, self.guard_stops, ends, money.ledger)
        self.guard_setting = GuardService(core, self.guards)
        core.observer.polled.add(lambda nodes: self.guard_stops.observe(nodes, time.time()))
        core.observer.register_remembered(self.guard_stops.tpus)
        core.shared.reloaded.add(lambda snapshot: self.guard_stops.reload(snapshot.guards))
        core.loops.register("guards", self.guards.run)
        core.tpus.register(self._describe)

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
        homes: Homes,
        forwarding: Forwarding,
        kernels: Kernels,
        jobs: Jobs,
        sessions: Sessions,
        defaults: EnvironmentDefaults,
    ) -> None:
        before_end = sessions.before_end, homes.before_end
        work = self.work = RunningWork(core, kernels.service, jobs.service, *before_end)
        self.availability = Availability(core.cloud, lambda: money.prices.table)
        self.belongings = TPUBelongings(core, forwarding.tunnels, files.sync, files.shares)
        self.connect = ConnectService(
            core, work, forwarding.tensorboard, defaults, self.belongings, homes.service
        )
        self.attached = AttachedService(core, work, forwarding.tensorboard)
        self.power = PowerService(
            core, work, money.grants, money.owners, jobs.guard_stops, *before_end
        )
        jobs.guards.act = self.power.act_for_guard
        self.create = CreateService(
            core,
            self.availability,
            money.grants,
            self.connect.follow,
            jobs.guard_setting.follow,
            sessions.service.choose,
            homes.service.choose,
            defaults,
        )
        self.faults = FaultService(core, work, money.owners)
        self.queued = QueuedService(core, self.create, money.owners)
        core.changes.register("queued", self.queued.find)


class Hunts:
    """Creating TPUs when Google has no capacity now."""

    def __init__(self, core: Core, money: Money, jobs: Jobs, lifecycle: Lifecycle) -> None:
        power = lifecycle.power
        self.service = HuntService(
            core,
            lifecycle.create,
            money.grants,
            PreemptedTPUs(core, power, jobs.service, lifecycle.belongings),
            ReplacedTPUs(core, power, lifecycle.work, jobs.guards, lifecycle.belongings),
        )
        core.runner.changed.add(lambda changed: core.changes.mark_changed("hunt", changed.id))
        core.changes.register("hunt", self.service.find)
        core.ending.push_async_callback(self.service.shut_down)


class Setup:
    """What else a project and its TPUs need, and whether they have it."""

    def __init__(self, core: Core, lifecycle: Lifecycle) -> None:
        cloud = core.cloud
        self.tokens = Tokens()
        self.networks = NetworkService(cloud, core.connections)
        self.ssh_key = SSHKeyService(cloud, core.links.login_changed)
        self.logs = LogService(core)
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
        homes: Homes,
        environments: Environments,
        jobs: Jobs,
        chips: TPUChips,
        lifecycle: Lifecycle,
    ) -> None:
        poller = HostPoller(
            core,
            kernels.monitor,
            kernels.warm,
            jobs.service.follower,
            chips.metrics,
            environments.service.follow,
            jobs.guards.update,
            kernels.interruptions.update,
            homes.index.update,
        )
        core.runner.ended.add(poller.refresh)
        core.loops.register("hosts", poller.run)
        self.controller = Controller(core, forwarding.tunnels, kernels.service, lifecycle.connect)
        self.takeover = Takeover(core.runner, core.shared.reload, supervise=core.supervise)
        core.loops.register("operations", self.takeover.run, always=True)
        self.operations = OperationService(core, money.grants)
        forgotten = ForgottenTPUs(core, jobs.service, money.ready_times, money.owners)
        forgotten_queued = ForgottenQueued(lifecycle.queued, FIRST_LOOK)
        core.loops.register("forgotten queued resources", forgotten_queued.run)
        core.loops.register("leftovers", Leftovers(core.cloud, FIRST_LOOK).run)
        self.usage = UsageService(core, money.grants, money.ready_times, money.owners, forgotten)


class Agents:
    """Budgets, plans, and what coding agents may do."""

    def __init__(
        self, core: Core, money: Money, jobs: Jobs, lifecycle: Lifecycle, hunts: Hunts
    ) -> None:
        ledger = money.ledger
        self.plans = PlanService(core, lifecycle.create, hunts.service, money.grants, ledger)
        ends = BudgetEnds(core, ledger, jobs.guards, lifecycle.power)
        self.budgets = BudgetService(core, ledger, money.owners, self.plans, ends)
        self.access = AgentAccess(core, ledger, self.plans)
