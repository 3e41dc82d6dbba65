"""`Core`: what every subject of the fleet is built on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from ...cloud import Node, NodeName
from ...links import HostGone, Links
from ...version import __version__
from ..kernelspecs import KernelSpecRegistry
from ..models import FleetStatus, Problem
from .changes import ChangeFeed
from .connections import ConnectedTPUs, HostConnections, PolledHosts
from .desired import DesiredState, SharedState
from .loops import Loops, TPUFailures
from .observer import ObservedState, Observer
from .operation_runner import ChangedOperation, OperationRunner
from .records import Snapshot
from .state_folder import Locks, ProcessLease
from .store import Store
from .tpus import KnownTPUs, TPUFinder

#: When a server looks for what was forgotten, after its start: when it has settled. Seconds.
FIRST_LOOK = 60.0


class Core:
    """Desired and observed state, links and operations.

    A subject that is built on it adds what it needs to know to `shared`, `observer`, `runner`,
    `connections` and `connected`, what others may see to `tpus` and `changes`, its loops to
    `loops`, and what ends it to `ending`, which is gone through from the last to the first.
    """

    def __init__(
        self,
        links: Links,
        kernelspecs: KernelSpecRegistry,
        store: Store,
        lease: ProcessLease,
        locks: Locks,
        ending: contextlib.AsyncExitStack,
        *,
        supervise: bool,
    ) -> None:
        cloud = self.cloud = links.cloud
        self.links = links
        self.store = store
        self.lease = lease
        self.locks = locks
        self.ending = ending
        self.supervise = supervise
        changes = self.changes = ChangeFeed()
        ending.callback(changes.close)
        shared = self.shared = SharedState(store)
        ending.push_async_callback(shared.close)

        desired = self.desired = DesiredState(store, changes.mark_tpu_changed)
        shared.reloaded.add(desired.reload)
        observed = self.observed = ObservedState()
        clock = asyncio.get_running_loop().time
        failures = self.failures = TPUFailures(clock, changes.mark_tpu_changed)

        connections = self.connections = HostConnections(links)
        connections.changed.add(changes.mark_tpu_changed)
        ending.callback(connections.close)
        self.polled = PolledHosts(connections)
        connected = self.connected = ConnectedTPUs(cloud, desired, kernelspecs, connections)

        runner = self.runner = OperationRunner(store, lease)
        known = runner.known
        runner.changed.add(self._operation_changed)
        runner.ended.add(self._operation_ended)
        shared.reloaded.add(self._reload_operations)
        connected.ends_with_tpu(runner.drop_resumable)
        changes.register("operation", known.find)

        observer = self.observer = Observer(
            cloud,
            observed,
            busy=known.changes_tpus,
            hunted=known.hunted,
            first_look=FIRST_LOOK if supervise else None,
        )
        for needed in (lambda: desired.connected, lambda: known.resumable, known.waits_for_tpu):
            observer.register_need(needed)
        observer.polled.add(self._observe_links)
        connections.changed.add(self._observe_gone)
        links.numbered.add(observer.upsert)

        self.loops = Loops(supervise=supervise)
        self.loops.register("poll of Google", observer.run, always=True)

        tpus = self.tpus = KnownTPUs(
            cloud, shared, desired, observer, connections, known, failures, supervised=supervise
        )
        changes.register_tpus(tpus.change)
        self.finder = TPUFinder(shared, tpus, observer)

    def status(self) -> FleetStatus:
        problem = self.store.problem
        return FleetStatus(
            project=self.observed.project,
            emulated=self.cloud.emulated,
            version=__version__,
            problem=self.observed.problem,
            storage=Problem.of(problem) if problem else None,
            loops=self.loops.status(),
            failing=self.failures.all(),
        )

    def _reload_operations(self, snapshot: Snapshot) -> None:
        self.runner.load(snapshot.operations, snapshot.requests)

    def _operation_changed(self, changed: ChangedOperation) -> None:
        self.changes.mark_changed("operation", changed.id)
        if changed.tpu is not None:
            self.changes.mark_tpu_changed(changed.tpu)

    def _operation_ended(self, name: NodeName) -> None:
        self.observer.request_refresh()

    def _observe_gone(self, name: NodeName) -> None:
        """A link has noticed that its TPU is not READY any more: Google is asked now, and not at
        the next poll, until which it would be shown as one that can be connected.
        """
        gone = any(isinstance(link.problem, HostGone) for link in self.connections.links(name))
        if gone and self.observed.is_ready(name):
            self.observer.request_refresh()

    def _observe_links(self, nodes: Collection[Node]) -> None:
        for node in nodes:
            self.links.observe(node)
