"""`Fleet`: the TPUs of one project. It wires the parts together and runs their loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..cloud import NodeName
from ..links import Links
from ..paths import data_dir
from . import models
from .chips.chip_kernels import ChipKernelService
from .chips.chips import Chips
from .chips.metrics import Metrics
from .core.changes import ChangeFeed
from .core.connected import ConnectedTPUs
from .core.connections import HostConnections
from .core.desired import DesiredState
from .core.failures import TPUFailures
from .core.finder import TPUFinder
from .core.locks import Locks
from .core.observed import ObservedState
from .core.observer import Observer
from .core.operation_runner import OperationRunner
from .core.process_lease import ProcessLease
from .core.store import Store
from .environments.mirrored import MirroredProjects
from .environments.packages import EnvironmentService
from .environments.pythons import HostPythons
from .files.copies import CopyService
from .files.file_access import FileAccess
from .files.shares import ShareService
from .files.sync import SyncService
from .forwarding.apps import Apps
from .forwarding.tensorboard import TensorBoardService
from .forwarding.tunnels import Tunnels
from .hunts.preempted import PreemptedTPUs
from .hunts.service import HuntService
from .jobs.guard import Guards
from .jobs.guard_setting import GuardService
from .jobs.guard_stops import GuardStops
from .jobs.jobs import JobService
from .jobs.profiles import ProfileService
from .jobs.runs import RunService
from .kernels.interruptions import Interruptions
from .kernels.kernels import KernelMonitor, KernelService
from .kernels.warm_kernels import WarmKernelMonitor
from .kernelspecs import KernelSpecRegistry
from .lifecycle.attached import AttachedService
from .lifecycle.availability import Availability
from .lifecycle.connect import ConnectService
from .lifecycle.create import CreateService
from .lifecycle.defaults import EnvironmentDefaults
from .lifecycle.power import PowerService
from .lifecycle.queued import QueuedService
from .lifecycle.running_work import RunningWork
from .lifecycle.unattended import UnattendedStarts
from .money.grants import Grants
from .money.owners import TPUOwners
from .money.prices import Prices
from .money.run_times import RunTimes
from .reconcile.controller import Controller
from .reconcile.forgotten import ForgottenQueued, ForgottenTPUs
from .reconcile.inventory import Inventory
from .reconcile.loops import Loops
from .reconcile.operation_service import OperationService
from .reconcile.poller import HostPoller
from .reconcile.takeover import Takeover
from .reconcile.usage import UsageService
from .setup.doctor import Doctor
from .setup.logging import LogService
from .setup.maintenance import MaintenanceWatch
from .setup.networks import NetworkService
from .setup.preflight import Preflight
from .setup.ssh_keys import SSHKeyService
from .setup.tokens import Tokens

log = logging.getLogger(__name__)

#: When a server looks for what was forgotten, after its start: when it has settled. Seconds.
FIRST_LOOK = 60.0


class Fleet:
    """The TPUs of one project, as a :class:`~jupyter_tpu.fleet.api.FleetAPI`.

    Lives on the core thread's loop. Made by :meth:`open`, ended by :meth:`close`.
    """

    def __init__(
        self,
        links: Links,
        kernelspecs: KernelSpecRegistry,
        store: Store,
        lease: ProcessLease,
        locks: Locks,
        *,
        supervise: bool,
        warm_kernels: bool,
        defaults: EnvironmentDefaults,
    ) -> None:
        cloud = links.cloud
        self._store = store
        self._lease = lease
        self._supervise = supervise

        changes = self._changes = ChangeFeed()
        desired = DesiredState(store, changes.mark_tpu_changed)
        observed = self._observed = ObservedState()
        failures = self._failures = TPUFailures(
            asyncio.get_running_loop().time, changes.mark_tpu_changed
        )
        run_times = RunTimes(store)
        owners = TPUOwners()

        finder = self._finder = TPUFinder(
            lambda: self._inventory.reload(), lambda ref: self._inventory.find(ref), observed
        )
        connections = self._connections = HostConnections(links, self._links_changed)
        connected = ConnectedTPUs(cloud, desired, kernelspecs, connections)
        self.files = FileAccess(finder, connections)
        monitor = KernelMonitor(changes)
        warm = self._warm = WarmKernelMonitor(
            connections, desired, changes, by_default=warm_kernels
        )
        kernels = self.kernels = KernelService(
            finder, connections, monitor, warm, desired, observed, changes,
            lambda host: self._poller.reports(host),
            lambda name, record, chips: connected.register_chips(name, record, chips)[0],
        )  # fmt: skip
        connected.ends_with_tpu(partial(kernels.clear, lost=True), when_disconnected=True)
        prices = self.prices = Prices(
            cloud, store, reload=finder.reload, changed=self._prices_changed
        )
        availability = self._availability = Availability(cloud, lambda: prices.table)
        tunnels = self.tunnels = Tunnels(
            links, finder, store, lease, failures, changes.marker("tunnel")
        )
        connected.ends_with_tpu(tunnels.forget)
        self.tokens = Tokens()
        self.networks = NetworkService(cloud, connections)
        self.ssh_key = SSHKeyService(cloud, links.login_changed)
        self.logs = LogService(cloud, finder)
        preflight = Preflight(cloud, availability, links.key_metadata)
        self.doctor = Doctor(finder, desired, connections, preflight.check, cloud.emulated)
        apps = self.apps = Apps(links, finder, changes.marker("app"))
        connected.ends_with_tpu(apps.forget, when_disconnected=True)

        self.pythons = HostPythons(finder, connections, desired)
        self.runs = RunService(finder, desired, connections, changes.marker("run"))
        jobs = self.jobs = JobService(
            finder, connections, desired, observed, store, self._job_changed
        )
        connected.ends_with_tpu(jobs.forget)
        work = RunningWork(kernels, jobs)
        metrics = self.metrics = Metrics(
            finder,
            desired,
            observed,
            connections,
            polled=lambda host: self._poller.polls(host),
            wake=lambda: self._poller.wake(),
            emulated=cloud.emulated,
        )
        interruptions = Interruptions(observed, changes.mark_tpu_changed)
        poller = self._poller = HostPoller(
            connections, monitor, warm, jobs.follower, metrics, failures,
            lambda name, reports: self.environments.follow(name, reports),
            lambda name, report: self.guards.update(name, report), interruptions.update,
        )  # fmt: skip
        self.chips = Chips(finder, desired, connections, kernels, jobs, self.runs)

        runner = self._runner = OperationRunner(
            store, lease, changed=self._operation_changed, ended=self._operation_ended
        )
        connected.ends_with_tpu(runner.drop_resumable)
        observer = self._observer = Observer(
            cloud,
            observed,
            needed=lambda: bool(
                desired.connected
                or runner.known.resumable
                or runner.known.waits_for_tpu()
                or tunnels.tpus()
                or jobs.unfinished()
            ),
            busy=runner.known.changes_tpus,
            polled=self._polled,
            described=lambda node: run_times.observe([node], time.time()),
            hunted=runner.known.hunted,
            first_look=FIRST_LOOK if supervise else None,
        )
        self._maintenance = MaintenanceWatch(cloud, observed, changes.mark_tpus_changed)
        grants = self.grants = Grants(
            cloud,
            store,
            observed,
            prices,
            asked=runner.known.demands,
            reload=finder.reload,
            look=observer.ensure_recent,
            starting=runner.known.starting,
            changed=changes.mark_tpus_changed,
            grant_changed=changes.marker("grant"),
        )
        self.operations = OperationService(cloud, runner, observed, grants, finder.reload)
        self.chip_kernels = ChipKernelService(finder, desired, observed, connected)
        self.tensorboard = TensorBoardService(finder, connections, apps, runner)
        self.profiles = ProfileService(
            finder, desired, links, connections, kernels, self.tensorboard, runner
        )
        self.sync = SyncService(finder, connections, runner, data_dir() / "sync")
        self.copies = CopyService(finder, links, runner)
        self.shares = ShareService(finder, connections, runner, changes.mark_tpu_changed)
        mirrored = self._mirrored = MirroredProjects(connections, changes.mark_tpu_changed)
        connect = self._connect = ConnectService(
            cloud, desired, observer, connections, connected, work, self.tensorboard, runner, locks,
            poller.wake, defaults, jobs.start_once,
        )  # fmt: skip
        self.attached = AttachedService(
            finder,
            observer,
            connected,
            work,
            self.tensorboard,
            runner,
            lambda name: self._inventory.tpu(name),
        )
        environments = self.environments = EnvironmentService(
            finder,
            desired,
            observer,
            connections,
            connected,
            kernels,
            warm,
            runner,
            locks,
            poller.wake,
        )
        guard_stops = self._guard_stops = GuardStops(store, observed, changes.mark_tpu_changed)
        power = self._power = PowerService(
            cloud, observer, connections, connected, work, grants, owners, runner, guard_stops
        )
        guard = GuardService(cloud, observed, runner, lambda: self.guards, power.act_for_guard)
        self.guards = Guards(
            finder,
            connections,
            observed,
            owners,
            cost_of=lambda name: self._inventory.tpu(name).cost,
            changed=changes.mark_tpu_changed,
            act=power.act_for_guard,
            stops=guard_stops,
            awaited=guard.problem,
            supersede=guard.supersede,
        )
        self._create = CreateService(
            links, availability, observer, grants, runner, connect.follow, guard.follow,
            UnattendedStarts(cloud, locks, defaults),
        )  # fmt: skip
        self.hunts = HuntService(
            cloud, store, self._create, observer, grants, runner,
            PreemptedTPUs(cloud, observer, desired, power, runner), finder.reload,
            changes.mark_tpu_changed,
        )  # fmt: skip
        queued = self.queued = QueuedService(
            cloud, self._create, observer, runner, owners, changes.marker("queued")
        )
        self._takeover = Takeover(
            runner,
            self._create,
            power,
            self.hunts,
            queued,
            guard,
            finder.reload,
            supervise=supervise,
        )
        forgotten = self._forgotten = ForgottenTPUs(desired, jobs, run_times, owners)
        self._forgotten_queued = ForgottenQueued(queued, FIRST_LOOK)
        inventory = self._inventory = Inventory(
            cloud, store, desired, observer, connections, monitor, environments, tunnels, jobs,
            mirrored, self.shares, self.guards, guard, guard_stops, interruptions, runner, failures,
            run_times, grants, prices, owners, forgotten, supervised=supervise,
            reloaded=lambda: self._controller.wake(),
        )  # fmt: skip
        self.usage = UsageService(
            cloud, finder, observer, desired, run_times, grants, owners, forgotten,
            changes.mark_tpu_changed,
        )  # fmt: skip
        self._controller = Controller(
            links, desired, observed, connections, tunnels, runner, connected, kernels, connect,
            inventory, run_times, changes, failures,
        )  # fmt: skip
        changes.register_tpus(inventory.describe)
        changes.register("operation", runner.known.find)
        changes.register("kernel", monitor.find)
        changes.register("tunnel", tunnels.find)
        changes.register("app", apps.find)
        changes.register("run", self.runs.find)
        changes.register("job", jobs.find)
        changes.register("hunt", self.hunts.find)
        changes.register("grant", grants.find)
        changes.register("queued", queued.find)
        changes.register("prices", prices.find)
        self._loops = Loops()

    @classmethod
    async def open(
        cls,
        links: Links,
        kernelspecs: KernelSpecRegistry,
        path: Path | None = None,
        *,
        supervise: bool = True,
        warm_kernels: bool | None = None,
        defaults: EnvironmentDefaults | None = None,
    ) -> Fleet:
        """A fleet on the cloud of *links*, with its state in *path* (in the data folder if None).

        supervise: keep the links of connected TPUs up and resume what a dead process left; False
        for a process that does one thing only, such as a command without a server.
        warm_kernels: whether environments have a warm kernel if that was not decided for them;
        None: yes, but not on emulated TPUs, whose hosts use this machine's memory.
        defaults: what new environments get.
        """
        path = path or data_dir() / "fleet.sqlite"
        if warm_kernels is None:
            warm_kernels = not links.cloud.emulated
        async with contextlib.AsyncExitStack() as opened:  # if this fails, it is tried again
            store = await Store.open(path, links.cloud.identity)
            opened.push_async_callback(store.close)
            lease = ProcessLease(path.with_name(path.name + ".owners"))
            opened.callback(lease.close)
            locks = Locks(path.with_name("locks"))
            fleet = cls(
                links,
                kernelspecs,
                store,
                lease,
                locks,
                supervise=supervise,
                warm_kernels=warm_kernels,
                defaults=defaults or EnvironmentDefaults(),
            )
            opened.push_async_callback(fleet._loops.close)  # before the store
            await fleet._begin()
            opened.pop_all()
        return fleet

    async def _begin(self) -> None:
        snapshot = self._store.snapshot
        self._runner.load(snapshot.operations, snapshot.requests)
        await self._takeover.check()
        self._loops.start("poll of Google", self._observer.run)
        self._loops.start("maintenance", self._maintenance.run)
        self._loops.start("operations", self._takeover.run)
        if self._supervise:
            self._loops.start("TPUs", self._controller.run)
            self._loops.start("hosts", self._poller.run)
            self._loops.start("tunnels", self.tunnels.run)
            self._loops.start("jobs", self.jobs.run)
            self._loops.start("guards", self.guards.run)
            self._loops.start("forgotten queued resources", self._forgotten_queued.run)

    async def close(self) -> None:
        """Ends what this object runs; desired state stays, interrupted work can be resumed."""
        await self._runner.close()
        await self._loops.close()
        await self._controller.close()
        self._mirrored.close()
        await self.runs.shut_down()
        await self.hunts.shut_down()
        await self.tunnels.shut_down()
        await self.apps.shut_down()
        await self.usage.close()
        self._connections.close()
        self._changes.close()
        await self._store.close()
        self._lease.close()  # last: what is saved now is this process's

    def subscribe(self, callback: Callable[[models.Change], None]) -> Callable[[], None]:
        return self._changes.subscribe(callback)

    def _prices_changed(self) -> None:
        self._changes.mark_changed("prices", "prices")
        self._changes.mark_tpus_changed(self._observed.nodes)

    def _polled(self) -> None:
        self._maintenance.polled()
        self._controller.polled()
        self._guard_stops.observe(self._observed.nodes.values(), time.time())
        self._forgotten.report(self._observed.nodes.values())

    def _links_changed(self, name: NodeName) -> None:
        self._changes.mark_tpu_changed(name)
        self._poller.wake()

    def _job_changed(self, id: str) -> None:
        self._changes.mark_changed("job", id)
        self._poller.wake()

    def _operation_changed(self, id: str, name: NodeName | None) -> None:
        self._changes.mark_changed("operation", id)
        self._changes.mark_changed("hunt", id)
        if name is not None:
            self._changes.mark_tpu_changed(name)

    def _operation_ended(self, name: NodeName) -> None:
        self._observer.request_refresh()
        self._controller.wake()
        self._warm.resume(name)
        self._poller.refresh(name)

    async def status(self) -> models.FleetStatus:
        return models.FleetStatus(
            project=self._observed.project,
            emulated=self._observer.emulated,
            problem=self._observed.problem,
            storage=models.Problem.of(self._store.problem) if self._store.problem else None,
            loops=self._loops.status(),
            failing=self._failures.all(),
        )

    # ---- TPUs ----

    async def catalog(self, zone: str | None = None) -> models.Catalog:
        return await self._availability.catalog(zone)

    async def tpus(self, query: models.ListQuery | None = None) -> models.TPUList:
        return await self._inventory.list(fresh=query is not None and query.fresh)

    async def tpu(self, ref: str) -> models.TPU:
        name = await self._finder.find(ref)
        await self._maintenance.ensure_known()
        return self._inventory.tpu(name)

    async def quote(self, request: models.CreateTPU) -> models.Quote:
        return await self._create.quote(request)

    async def create(self, request: models.CreateTPU) -> models.Operation:
        return await self._create.start(request)

    async def start(self, ref: str, options: models.StartTPU | None = None) -> models.Operation:
        return await self._power.start(await self._finder.find(ref), options or models.StartTPU())

    async def stop(self, ref: str, options: models.StopTPU | None = None) -> models.Operation:
        return await self._power.stop(await self._finder.find(ref), options or models.StopTPU())

    async def delete(self, ref: str, options: models.DeleteTPU | None = None) -> models.Operation:
        return await self._power.delete(await self._finder.find(ref), options or models.DeleteTPU())

    async def connect(self, ref: str, request: models.ConnectTPU | None = None) -> models.Operation:
        return await self._connect.connect(
            await self._finder.find(ref), request or models.ConnectTPU()
        )

    async def disconnect(
        self, ref: str, options: models.DisconnectTPU | None = None
    ) -> models.Operation:
        return await self._connect.disconnect(
            await self._finder.find(ref), options or models.DisconnectTPU()
        )
