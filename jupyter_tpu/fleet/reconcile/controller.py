"""The loop that makes observed state follow desired state, one TPU at a time."""

from __future__ import annotations

import asyncio
import time

from ...cloud import NodeName, NodeState
from ...concurrency import cancel_all
from ...errors import Reason, TPUError
from ...links import Links
from ..core.changes import ChangeFeed
from ..core.connected import ConnectedTPUs
from ..core.connections import HostConnections
from ..core.desired import DesiredState
from ..core.failures import TPUFailures
from ..core.observed import ObservedState
from ..core.operation_runner import OperationRunner
from ..files import openssh
from ..forwarding.tunnels import Tunnels
from ..kernels.kernels import KernelService
from ..lifecycle.connect import ConnectService
from ..money.run_times import RunTimes
from .decide import Action, Desired, decide
from .inventory import Inventory

_WHAT = "Kernelspecs and links"


class Controller:
    """Decides and acts after each poll of Google and each end of an operation."""

    def __init__(
        self,
        links: Links,
        desired: DesiredState,
        observed: ObservedState,
        connections: HostConnections,
        tunnels: Tunnels,
        runner: OperationRunner,
        connected: ConnectedTPUs,
        kernels: KernelService,
        connect: ConnectService,
        inventory: Inventory,
        run_times: RunTimes,
        changes: ChangeFeed,
        failures: TPUFailures,
    ) -> None:
        self._links = links
        self._desired = desired
        self._observed = observed
        self._connections = connections
        self._tunnels = tunnels
        self._runner = runner
        self._connected = connected
        self._kernels = kernels
        self._connect = connect
        self._inventory = inventory
        self._run_times = run_times
        self._changes = changes
        self._shown: set[NodeName] = set()
        self._tasks: dict[NodeName, asyncio.Task[None]] = {}
        self._failures = failures
        self._again: set[NodeName] = set()  # to be reconciled again when their tasks end
        self._wake = asyncio.Event()
        self._wake.set()

    def wake(self) -> None:
        """There may be something to do: reconcile soon."""
        self._wake.set()

    def polled(self) -> None:
        """Google was polled: passes the result on to all parts that need it."""
        for node in self._observed.nodes.values():
            self._links.observe(node)
        self._run_times.observe(self._observed.nodes.values(), time.time())
        self._run_times.forget(
            name
            for name in self._run_times.names() - self._observed.nodes.keys()
            if self._observed.complete(name)
        )
        names = self._inventory.names()
        for name in names | self._shown:
            self._changes.mark_tpu_changed(name)
        self._shown = names
        if not self._observed.problem:
            openssh.refresh(self._links.cloud, self._observed.nodes.values())
        self.wake()

    async def run(self) -> None:
        """Reconciles until it is cancelled: all TPUs in parallel, each of them step by step."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            names = {*self._desired.names(), *self._runner.known.resumable, *self._tunnels.tpus()}
            self._failures.retain(_WHAT, names)
            self._again |= names & self._tasks.keys()
            for name in names - self._tasks.keys():
                seen = self._observed.complete(name) or self._observed.node(name) is not None
                if seen and not self._failures.waits(name, _WHAT):
                    self._tasks[name] = asyncio.create_task(self._reconcile_safely(name))

    async def close(self) -> None:
        await cancel_all(self._tasks.values())

    async def _reconcile_safely(self, name: NodeName) -> None:
        """A failure affects no other TPU. It is logged, shown, and retried after a while."""
        try:
            await self._reconcile(name)
        except Exception as error:
            pause = self._failures.record(name, _WHAT, error)
            asyncio.get_running_loop().call_later(pause, self.wake)
        else:
            self._failures.clear(name, _WHAT)
        finally:
            del self._tasks[name]
            if name in self._again:
                self._again.discard(name)
                self.wake()

    async def _reconcile(self, name: NodeName) -> None:
        node = self._observed.node(name)
        stopped = node is not None and node.state is NodeState.STOPPED
        todo = decide(
            Desired(
                node_id=self._desired.node_id(name) or self._tunnels.node_id(name),
                connected=name in self._desired.connected,
                unfinished=name in self._runner.known.resumable,
                unregistered=bool(self._connected.unregistered(name, stopped=stopped)),
            ),
            node,
            acquired=name in self._connections,
            busy=self._runner.known.works_on(name),
        )
        for action in todo:
            if action is Action.FORGET:
                if node is None and not await self._is_gone(name):
                    continue
                if not self._runner.known.works_on(name):
                    self._connected.forget(name)
            elif action is Action.RELEASE:
                self._connections.release(name)
                self._kernels.clear(name)  # the hosts are down
            elif action is Action.ACQUIRE:
                assert node is not None
                self._connections.acquire(name, len(node.endpoints))
            elif action is Action.REGISTER:
                for record in self._connected.unregistered(name, stopped=stopped):
                    self._connected.register(name, record, stopped=stopped)
            elif action is Action.RESUME:
                self._connect.resume(name)

    async def _is_gone(self, name: NodeName) -> bool:
        """Asks Google for the node itself: a list that lacks it is not enough to forget it.

        Raises why that is not known.
        """
        try:
            node = await self._links.cloud.get_node(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return True
            raise
        self._observed.nodes[name] = node
        return False
