"""`Fleet`: the TPUs of one project, by subject. Each subject is built on those below it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from ..links import Links
from ..paths import data_dir
from . import models
from .api import FleetAPI
from .core.core import Core
from .core.state_folder import Locks, ProcessLease
from .core.store import Store
from .kernels.kernels import KernelService
from .kernelspecs import KernelSpecRegistry
from .lifecycle.defaults import EnvironmentDefaults
from .ray.service import RayService
from .serving.service import ServingService
from .sessions.service import SessionService
from .subjects import (
    Agents,
    Environments,
    Files,
    Forwarding,
    Homes,
    Hunts,
    Jobs,
    Kernels,
    Lifecycle,
    Money,
    Reconcile,
    Sessions,
    Setup,
    TPUChips,
)


class Fleet(FleetAPI):
    """The TPUs of one project, as a :class:`~jupyter_tpu.fleet.api.FleetAPI`.

    Lives on the core thread's loop. Made by :meth:`open`, ended by :meth:`close`.
    """

    _ending: contextlib.AsyncExitStack

    def __init__(self, core: Core, *, warm_kernels: bool, defaults: EnvironmentDefaults) -> None:
        self._core = core
        money = Money(core)
        forwarding = Forwarding(core)
        kernels = Kernels(core, warm=warm_kernels)
        files = Files(core)
        homes = Homes(core, money)
        environments = Environments(core, kernels)
        jobs = Jobs(core, money, files, homes, forwarding, kernels)
        sessions = Sessions(core, money, kernels, files, homes)
        chips = TPUChips(core, kernels, jobs)
        lifecycle = self._lifecycle = Lifecycle(
            core, money, files, homes, forwarding, kernels, jobs, sessions, defaults
        )
        hunts = Hunts(core, money, jobs, lifecycle)
        setup = self._setup = Setup(core, lifecycle)
        reconcile = self._reconcile = Reconcile(
            core, money, forwarding, kernels, homes, environments, jobs, chips, lifecycle
        )

        agents = Agents(core, money, jobs, lifecycle, hunts)

        self.budgets, self.plans, self.agents = agents.budgets, agents.plans, agents.access
        self.operations = reconcile.operations
        self.usage = reconcile.usage
        self.attached = lifecycle.attached
        self.queued = lifecycle.queued
        self.hunts = hunts.service
        self.grants, self.prices = money.grants, money.prices
        self.reservations = money.reservations
        self.environments, self.pythons = environments.service, environments.pythons
        self.kernels: KernelService = kernels.service  # the server adds to it
        self.slice_kernels = kernels.slices
        self.chips, self.chip_kernels = chips.service, chips.kernels
        self.metrics = chips.metrics
        self.jobs, self.runs, self.profiles = jobs.service, jobs.runs, jobs.profiles
        self.guards = jobs.guards
        self.sessions: SessionService = sessions.service  # the server adds to it
        self.homes = homes.service
        self.ray = RayService(core, forwarding.apps, environments.service, jobs.service)
        self.serving = ServingService(
            core, forwarding.tunnels, jobs.service, self.ray, lifecycle.power
        )
        self.tunnels, self.apps = forwarding.tunnels, forwarding.apps
        self.tensorboard = forwarding.tensorboard
        self.files, self.copies = files.access, files.copies
        self.sync, self.shares = files.sync, files.shares
        self.doctor, self.networks = setup.doctor, setup.networks
        self.logs, self.ssh_key, self.tokens = setup.logs, setup.ssh_key, setup.tokens

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
            opened.pop_all()
            opened.callback(lease.close)  # last: what is saved until then is this process's
            opened.push_async_callback(store.close)
            locks = Locks(path.with_name("locks"))
            core = Core(links, kernelspecs, store, lease, locks, opened, supervise=supervise)
            fleet = cls(core, warm_kernels=warm_kernels, defaults=defaults or EnvironmentDefaults())
            opened.push_async_callback(core.loops.close)
            opened.push_async_callback(core.runner.close)
            await fleet._begin()
            fleet._ending = opened.pop_all()
        return fleet

    async def _begin(self) -> None:
        snapshot = self._core.store.snapshot
        self._core.runner.load(snapshot.operations, snapshot.requests)
        await self._reconcile.takeover.check()
        self._core.loops.start_all()

    async def close(self) -> None:
        """Ends what this object runs; desired state stays, interrupted work can be resumed."""
        await self._ending.aclose()

    def subscribe(self, callback: Callable[[models.Change], None]) -> Callable[[], None]:
        return self._core.changes.subscribe(callback)

    async def status(self) -> models.FleetStatus:
        return self._core.status()

    # ---- TPUs ----

    async def catalog(self, zone: str | None = None) -> models.Catalog:
        return await self._lifecycle.availability.catalog(zone)

    async def tpus(self, query: models.ListQuery | None = None) -> models.TPUList:
        return await self._core.tpus.list(fresh=query is not None and query.fresh)

    async def tpu(self, ref: str) -> models.TPU:
        name = await self._core.finder.find(ref)
        await self._setup.maintenance.ensure_known()
        return self._core.tpus.tpu(name)

    async def quote(self, request: models.CreateTPU) -> models.Quote:
        return await self._lifecycle.create.quote(request)

    async def create(self, request: models.CreateTPU) -> models.Operation:
        return await self._lifecycle.create.start(request)

    async def start(self, ref: str, options: models.StartTPU | None = None) -> models.Operation:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.power.start(name, options or models.StartTPU())

    async def stop(self, ref: str, options: models.StopTPU | None = None) -> models.Operation:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.power.stop(name, options or models.StopTPU())

    async def delete(self, ref: str, options: models.DeleteTPU | None = None) -> models.Operation:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.power.delete(name, options or models.DeleteTPU())

    async def consequences(self, ref: str, query: models.ConsequencesQuery) -> models.Consequences:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.work.consequences(query, name)

    async def report_fault(
        self, ref: str, request: models.ReportFault | None = None
    ) -> models.Operation:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.faults.report(name, request or models.ReportFault())

    async def connect(self, ref: str, request: models.ConnectTPU | None = None) -> models.Operation:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.connect.connect(name, request or models.ConnectTPU())

    async def disconnect(
        self, ref: str, options: models.DisconnectTPU | None = None
    ) -> models.Operation:
        name = await self._core.finder.find(ref)
        return await self._lifecycle.connect.disconnect(name, options or models.DisconnectTPU())
