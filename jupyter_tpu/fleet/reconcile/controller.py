"""The loop that makes observed state follow desired state, one TPU at a time.

What to do next is decided without I/O, by :func:`decide`. The loop is level-triggered: it calls
it again and again, after each poll of Google and each end of an operation. Every action may be
repeated and may be interrupted anywhere; the next call finds what is left to do.

======================  ==========================================================
the TPU                 what is done about what is desired
======================  ==========================================================
gone, or another one    FORGET: unregister its kernelspecs, drop what was desired
of the same name
READY                   ACQUIRE its links; REGISTER ready environments; RESUME what
                        a dead server was creating, unless an operation works on it
any other state         RELEASE its links (each try would cost a call to Google);
                        REGISTER, since kernelspecs say that a TPU is stopped
======================  ==========================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from ...cloud import Node, NodeName, NodeState
from ...concurrency import cancel_all
from ...errors import Reason, TPUError
from ..core.core import Core
from ..files import openssh
from ..forwarding.tunnels import Tunnels
from ..kernels.kernels import KernelService
from ..lifecycle.connect import ConnectService


class Action(StrEnum):
    FORGET = "forget"
    ACQUIRE = "acquire"
    RELEASE = "release"
    REGISTER = "register"
    RESUME = "resume"


class Desired(Struct, frozen=True, kw_only=True):
    """What is desired of one TPU that is connected or on which environments were created."""

    node_id: str  # of the node that was meant
    connected: bool
    unfinished: bool = False  # an environment that was being created when the server ended
    unregistered: bool = False  # a ready environment whose kernelspec is not as it should be


def decide(
    desired: Desired, node: Node | None, *, acquired: bool, busy: bool
) -> tuple[Action, ...]:
    """The next actions, in their order.

    node: None if Google's list, which was complete, does not have the TPU; acquired: whether
    this process holds its links; busy: whether an operation runs on it.
    """
    if busy:
        return ()  # the operation does what is needed, and ends with a call of this
    if node is None or (desired.node_id and node.id and node.id != desired.node_id):
        return (*((Action.RELEASE,) if acquired else ()), Action.FORGET)
    todo: list[Action] = []
    needed = desired.connected and node.state is NodeState.READY
    if needed != acquired:
        todo.append(Action.ACQUIRE if needed else Action.RELEASE)
    if desired.connected and desired.unregistered:
        todo.append(Action.REGISTER)
    if desired.unfinished and node.state is NodeState.READY:
        todo.append(Action.RESUME)
    return tuple(todo)


_WHAT = "Kernelspecs and links"


class Controller:
    """Decides and acts after each poll of Google and each end of an operation."""

    def __init__(
        self, core: Core, tunnels: Tunnels, kernels: KernelService, connect: ConnectService
    ) -> None:
        self._cloud = core.cloud
        self._desired = core.desired
        self._observed = core.observed
        self._connections = core.connections
        self._runner = core.runner
        self._connected = core.connected
        self._tpus = core.tpus
        self._changes = core.changes
        self._failures = core.failures
        self._tunnels = tunnels
        self._kernels = kernels
        self._connect = connect
        self._shown: set[NodeName] = set()
        self._tasks: dict[NodeName, asyncio.Task[None]] = {}
        self._again: set[NodeName] = set()  # to be reconciled again when their tasks end
        self._wake = asyncio.Event()
        self._wake.set()
        core.observer.polled.add(self._polled)
        core.runner.ended.add(lambda _: self.wake())
        core.shared.reloaded.add(lambda _: self.wake())
        core.loops.register("TPUs", self.run)
        core.ending.push_async_callback(self.close)

    def wake(self) -> None:
        """There may be something to do: reconcile soon."""
        self._wake.set()

    def _polled(self, nodes: Collection[Node]) -> None:
        """Google was polled: all that are shown may have changed."""
        names = self._tpus.names()
        for name in names | self._shown:
            self._changes.mark_tpu_changed(name)
        self._shown = names
        if not self._observed.problem:
            openssh.refresh(self._cloud, nodes)
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
                node_id=self._meant(name),
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
                if await self._is_gone(name) and not self._runner.known.works_on(name):
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

    def _meant(self, name: NodeName) -> str:
        """The id of the node that was meant; "" if that is not known."""
        return self._desired.node_id(name) or self._tunnels.node_id(name)

    async def _is_gone(self, name: NodeName) -> bool:
        """Asks Google for the node itself, and whether it is still the one that was meant.

        What was seen last is not enough to forget it: a list may lack it, and may be older than
        what another process has done since, such as replacing the TPU. Raises why that is not
        known.
        """
        try:
            node = await self._cloud.get_node(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return True
            raise
        self._observed.nodes[name] = node
        meant = self._meant(name)
        return bool(meant and node.id and node.id != meant)
