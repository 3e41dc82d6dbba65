"""Which TPUs there are, and how each is shown: from desired and observed state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ...cloud import Cloud, NodeName, NodeState, is_emulated
from ...errors import TPUError
from ..core.connections import HostConnections
from ..core.desired import DesiredState
from ..core.failures import TPUFailures
from ..core.observer import Observer
from ..core.operation_runner import OperationRunner
from ..core.store import Store
from ..environments.mirrored import MirroredProjects
from ..environments.packages import EnvironmentService
from ..files.shares import ShareService
from ..forwarding.tunnels import Tunnels
from ..jobs.guard import Guards
from ..jobs.guard_setting import GuardService
from ..jobs.guard_stops import GuardStops
from ..jobs.jobs import JobService
from ..kernels.interruptions import Interruptions
from ..kernels.kernels import KernelMonitor
from ..models import TPU, Change, TPUList
from ..money.grants import Grants
from ..money.owners import UNKNOWN, TPUOwners
from ..money.prices import Prices
from ..money.run_times import RunTimes
from .forgotten import ForgottenTPUs
from .references import resolve
from .view import view_tpu

log = logging.getLogger(__name__)

#: How long a request waits for what other processes have written; seconds. After that it is
#: answered with what this process knows.
RELOAD = 1.5


class Inventory:
    """supervised: whether this process keeps the links of connected TPUs up; reloaded() is called
    when another process has changed something.
    """

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        desired: DesiredState,
        observer: Observer,
        connections: HostConnections,
        kernels: KernelMonitor,
        environments: EnvironmentService,
        tunnels: Tunnels,
        jobs: JobService,
        projects: MirroredProjects,
        shares: ShareService,
        guards: Guards,
        awaited_guards: GuardService,
        guard_stops: GuardStops,
        interruptions: Interruptions,
        runner: OperationRunner,
        failures: TPUFailures,
        run_times: RunTimes,
        grants: Grants,
        prices: Prices,
        owners: TPUOwners,
        forgotten: ForgottenTPUs,
        *,
        supervised: bool,
        reloaded: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._store = store
        self._reloading = asyncio.Lock()
        self._desired = desired
        self._observer = observer
        self._observed = observer.observed
        self._connections = connections
        self._kernels = kernels
        self._environments = environments
        self._tunnels = tunnels
        self._jobs = jobs
        self._projects = projects
        self._shares = shares
        self._guards = guards
        self._awaited_guards = awaited_guards
        self._guard_stops = guard_stops
        self._interruptions = interruptions
        self._runner = runner
        self._failures = failures
        self._run_times = run_times
        self._grants = grants
        self._prices = prices
        self._owners = owners
        self._forgotten = forgotten
        self._supervised = supervised
        self._reloaded = reloaded

    def names(self) -> set[NodeName]:
        """All TPUs that are shown: observed, desired, or being created."""
        being_created = {
            name
            for name, records in self._runner.known.running_by_tpu().items()
            if any(record.create is not None for record in records)
        }
        desired = {*self._desired.connected, *self._tunnels.tpus()}
        unseen = {name for name in desired if not self._observed.complete(name)}
        return being_created | unseen | set(self._observed.nodes)

    async def find(self, ref: str) -> NodeName:
        """The TPU that a reference means; see :func:`resolve`."""
        return await resolve(ref, self.names, self._observer)

    def tpu(self, name: NodeName) -> TPU:
        node = self._observed.node(name)
        ready = node if node is not None and node.state is NodeState.READY else None
        owner = self._owners.of(node) if node else UNKNOWN
        return view_tpu(
            name,
            node,
            since=self._run_times.since(node) if node else None,
            seconds=self._run_times.seconds(node, time.time()) if node else 0.0,
            cost_of=self._grants.cost,
            emulated=is_emulated(self._cloud, name),
            connected=name in self._desired.connected,
            environments=[*self._environments.last_known(name)],
            links=self._connections.links(name),
            operations=self._runner.known.on(name),
            kernels=sum(kernel.state != "dead" for kernel in self._kernels.last_known(name)),
            projects=self._projects.on(name),
            shares=self._shares.last_known(node) if node else None,
            guard=self._guards.last_known(ready) if ready else None,
            guard_stop=self._guard_stops.of(node) if node else None,
            interruption=self._interruptions.last_known(ready) if ready else None,
            supervised=self._supervised,
            maintenance=self._observed.maintenance.get(node.id) if node else None,
            failure=self._failures.problem(name),
            unguarded=self._awaited_guards.problem(name) if node else None,
            undeleted=self._runner.known.failed_deletion(name) if node else None,
            owner=owner,
            forgotten=node is not None and self._forgotten.is_forgotten(node),
        )

    async def list(self, *, fresh: bool = False) -> TPUList:
        """fresh: Google is asked now; otherwise the regular poll serves all who ask."""
        await self.reload()
        await (self._observer.ensure_fresh() if fresh else self._observer.ensure_recent())
        names = sorted(self.names(), key=lambda name: (name.node, name.zone))
        return TPUList(tpus=[self.tpu(name) for name in names], problem=self._observed.problem)

    async def reload(self) -> None:
        """Takes over what other processes (a second server, a command) have written. Never fails:
        why it can't be read or saved now is the store's problem.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELOAD), self._reloading:
                try:
                    snapshot = await self._store.refresh()
                except TPUError as error:
                    log.debug("Other processes' changes are not known now: %s", error)
                    return
                if snapshot is not None:
                    self._desired.reload(snapshot)
                    self._tunnels.reload(snapshot.tunnels)
                    self._jobs.reload(snapshot.jobs)
                    self._runner.load(snapshot.operations, snapshot.requests)
                    self._run_times.reload(snapshot.runs)
                    self._guard_stops.reload(snapshot.guards)
                    self._grants.take_over(snapshot.grants)
                    self._prices.take_over(snapshot.prices)
                    self._reloaded()

    def describe(self, name: NodeName) -> Change:
        """The event for a TPU."""
        known = self.tpu(name) if name in self.names() else None
        return Change(what="tpu", id=f"{name.zone}/{name.node}", gone=known is None, tpu=known)
