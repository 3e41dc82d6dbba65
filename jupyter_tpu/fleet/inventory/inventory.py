"""Which TPUs there are, and how each is shown: from all that is known."""

from __future__ import annotations

import time

from msgspec import structs

from ...cloud import Cloud, NodeName
from ..discovery.observer import Observer
from ..forwarding.tunnels import Tunnels
from ..hosts.connections import HostConnections
from ..hosts.kernels import KernelMonitor
from ..hosts.warm_kernels import WarmKernelMonitor
from ..knowledge.desired import DesiredState
from ..knowledge.failures import TPUFailures
from ..knowledge.run_times import RunTimes
from ..models import TPU, Change, TPUList
from ..operations.runner import OperationRunner
from .references import resolve
from .view import view_tpu


class Inventory:
    """supervised: whether this process keeps the links of connected TPUs up."""

    def __init__(
        self,
        cloud: Cloud,
        desired: DesiredState,
        observer: Observer,
        connections: HostConnections,
        kernels: KernelMonitor,
        warm: WarmKernelMonitor,
        tunnels: Tunnels,
        runner: OperationRunner,
        failures: TPUFailures,
        run_times: RunTimes,
        *,
        supervised: bool,
    ) -> None:
        self._cloud = cloud
        self._desired = desired
        self._observer = observer
        self._observed = observer.observed
        self._connections = connections
        self._kernels = kernels
        self._warm = warm
        self._tunnels = tunnels
        self._runner = runner
        self._failures = failures
        self._run_times = run_times
        self._supervised = supervised

    def names(self) -> set[NodeName]:
        """All TPUs that are shown: observed, desired, or being created."""
        being_created = {
            name
            for name, records in self._runner.running_by_tpu().items()
            if any(record.operation.kind == "create" for record in records)
        }
        desired = {*self._desired.connected, *self._tunnels.tpus()}
        unseen = {name for name in desired if not self._observed.complete(name)}
        return being_created | unseen | set(self._observed.nodes)

    async def find(self, ref: str) -> NodeName:
        """The TPU that a reference means; see :func:`resolve`."""
        return await resolve(ref, self.names, self._observer)

    def tpu(self, name: NodeName) -> TPU:
        environments = [
            structs.replace(record.environment, warm=self._warm.status(name, env))
            for env, record in self._desired.environments(name).items()
        ]
        node = self._observed.node(name)
        return view_tpu(
            name,
            node,
            since=self._run_times.since(node) if node else None,
            seconds=self._run_times.seconds(node, time.time()) if node else 0.0,
            emulated=self._cloud.emulated,
            connected=name in self._desired.connected,
            environments=environments,
            links=self._connections.links(name),
            operations=self._runner.running_on(name),
            kernels=sum(kernel.state != "dead" for kernel in self._kernels.known(name)),
            supervised=self._supervised,
            failure=self._failures.problem(name),
        )

    async def list(self) -> TPUList:
        self.reload()
        await self._observer.ensure_fresh()
        names = sorted(self.names(), key=lambda name: (name.node, name.zone))
        return TPUList(tpus=[self.tpu(name) for name in names], problem=self._observed.problem)

    def reload(self) -> None:
        """Takes over what other processes (a second server, a command) have written."""
        if self._desired.changed_elsewhere():
            self._desired.reload(keep=self._runner.running_by_tpu())
            self._runner.load()

    def describe(self, name: NodeName) -> Change:
        """The event for a TPU."""
        known = self.tpu(name) if name in self.names() else None
        return Change(what="tpu", id=f"{name.zone}/{name.node}", gone=known is None, tpu=known)
