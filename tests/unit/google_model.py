"""A model of Cloud TPU in memory, and a loop whose clock jumps to the next thing that happens.

The model stands where `Cloud` does. It loses requests and answers, refuses, is silent, forgets
operations, carries requests out late, and other people use it, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from jupyter_tpu.catalog import types_in, versions, zones
from jupyter_tpu.cloud import (
    Maintenance,
    Node,
    NodeName,
    NodeSpec,
    NodeState,
    QueuedList,
    QueuedSpec,
    QueuedTPUs,
)
from jupyter_tpu.cloud.tpu.operations import OperationStatus
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.lifecycle.provisioning import LABEL

#: Half a round trip; seconds.
LATENCY = 0.05
#: How long a call waits for its answer: what `Cloud` waits. Seconds.
DEADLINE = {"create": 60.0, "delete": 60.0, "stop": 60.0, "node": 20.0, "operation": 20.0}
#: How late a request may still be carried out that nobody waits for any more; seconds.
LATE = 60.0
#: How long Google needs for a creation and a deletion; seconds.
TAKES = {"create": 30.0, "delete": 10.0, "start": 30.0, "stop": 10.0}


class _Instant:
    """A selector that does not wait: it moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> Any:
        ready = self._real.select(0)
        if not ready and timeout is None:
            raise AssertionError("nothing will ever happen")
        if not ready:
            self._loop.now += timeout or 0.0
        return ready

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class VirtualLoop(asyncio.SelectorEventLoop):
    """*now* is its clock, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        super().__init__(_Instant(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        done = self.create_future()
        done.set_result(func(*args))
        return done

    def pass_time(self, seconds: float) -> None:
        self.run_until_complete(asyncio.sleep(seconds))


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test whose time passes at once."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(**fixtures))

    return run


class Google:
    """All nodes of a project. Times are the loop's.

    fates: what the next calls meet, by the name of the call.
    outage: what all of them meet, and until when.
    """

    project = "p"
    zone = "us-west4-a"
    emulated = False
    identity = "google"
    apis = ("tpu",)

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.nodes: dict[NodeName, Node] = {}
        self.queued: dict[NodeName, QueuedTPUs] = {}
        self.asked: list[QueuedSpec] = []  # of all queued resources that ever were
        self.created_as: list[NodeSpec] = []  # of all creations without the queue
        self.fates: dict[str, list[str]] = {}
        self.outage = ("", 0.0)
        self.deletes_creating = True  # else a deletion is refused while the node is CREATING
        self.deletes = True  # else every deletion is refused
        self.late_after_kill = False  # whether a request of a killed process arrives
        self.stopped = 0  # how many times it has begun to stop a node
        self.created: dict[str, Node] = {}  # all that ever were, by id
        #: Ids of what we asked Google to delete: of the nodes that had the names then.
        self.deletions: list[str] = []
        #: When other people last deleted or created a node of a name.
        self.others_acted: dict[NodeName, float] = {}
        self.late: list[tuple[str, Callable[[], object]]] = []  # label, what will happen
        self._operations: dict[str, tuple[float, TPUError | None]] = {}

    # ---- as `Cloud` ----

    def of_api(self, api: str) -> Google:
        return self

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        label = spec.labels[LABEL]
        self.created_as.append(spec)
        return await self._call("create", lambda fate: self._create(name, label, fate), label)

    async def begin_delete(self, name: NodeName) -> str:
        node = self.nodes.get(name)
        moment = self._loop.now - self.others_acted.get(name, 0.0)
        if node is not None and moment > 3 * LATENCY:  # nobody can know what happened just now
            self.deletions.append(node.id)
        return await self._call("delete", lambda _: self._delete(name), f"delete {name.node}")

    async def begin_start(self, name: NodeName) -> str:
        return await self._call(
            "node", lambda _: self._begin("start", self._node(name), NodeState.READY)
        )

    async def begin_stop(self, name: NodeName) -> str:
        return await self._call("stop", lambda _: self._stop(name))

    async def get_node(self, name: NodeName) -> Node:
        return await self._call("node", lambda _: self._node(name))

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        label = spec.node.labels[LABEL]
        return await self._call("create", lambda fate: self._queue(name, spec, fate), label)

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        return await self._call("node", lambda _: self._queued(name))

    async def list_queued(self) -> QueuedList:
        return await self._call("list", lambda _: QueuedList(queued=(*self.queued.values(),)))

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        node, queued = self.nodes.get(name), self.queued.get(name)
        if force and node is not None and queued is not None and node.labels == queued.labels:
            self.deletions.append(node.id)
        return await self._call(
            "delete", lambda _: self._unqueue(name, force=force), f"delete {name.node}"
        )

    async def operation(self, operation: str) -> OperationStatus:
        def look(fate: str) -> OperationStatus:
            if fate == "forgotten":
                raise TPUError("There is no such operation.", Reason.NOT_FOUND)
            ends, error = self._operations[operation]
            return OperationStatus(
                ends <= self._loop.now, error if ends <= self._loop.now else None
            )

        return await self._call("operation", look)

    async def maintenance(self) -> dict[str, Maintenance]:
        return {}

    async def locations(self) -> tuple[str, ...]:
        return zones()

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        return tuple(kind.name for kind in types_in(zone))

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        return versions()

    async def _call(self, method: str, act: Callable[[str], Any], label: str = "") -> Any:
        fates = self.fates.get(method)
        outage, until = self.outage
        fate = fates.pop(0) if fates else outage if self._loop.now < until else ""
        if fate == "unconnected":
            raise TPUError("Google can't be reached.", Reason.UNAVAILABLE) from OSError(
                "failed to connect to all addresses"
            )
        changes = method in ("create", "delete")
        try:
            await asyncio.sleep(LATENCY)
        except asyncio.CancelledError:  # the process was killed, and the request is on its way
            if changes and self.late_after_kill:
                self._happens_later(lambda: act(""), label)
            raise
        if fate in Reason.__members__:
            raise TPUError("Refused.", Reason[fate])
        if fate in ("silent", "late"):
            await asyncio.sleep(DEADLINE[method])
            if changes and fate == "late":
                self._happens_later(lambda: act(""), label)
            raise TPUError("Google did not answer.", Reason.TIMEOUT)
        if fate == "lost":
            raise TPUError("The line broke.", Reason.UNAVAILABLE)
        done = act(fate)
        await asyncio.sleep(LATENCY)
        if fate == "answer lost":
            raise TPUError("The line broke.", Reason.UNAVAILABLE)
        if fate == "unreadable":
            raise TPUError("The answer could not be read.", Reason.INTERNAL)
        return done

    def _happens_later(self, act: Callable[[], object], label: str) -> None:
        entry = (label, act)
        self.late.append(entry)

        def happen() -> None:
            self.late.remove(entry)
            with contextlib.suppress(TPUError):  # nobody hears it
                act()

        self._loop.call_later(LATE, happen)

    # ---- what it does ----

    def _create(self, name: NodeName, label: str, fate: str = "") -> str:
        if name in self.nodes:
            raise TPUError("It exists.", Reason.EXISTS)
        node = Node(
            name=name,
            id=str(len(self.created) + 1),
            type="v5litepod-1",
            state=NodeState.CREATING,
            labels={LABEL: label} if label else {},
        )
        self.nodes[name] = self.created[node.id] = node
        if fate in ("no capacity", "leaves a wreck"):
            error = TPUError("There is no capacity.", Reason.NO_CAPACITY)
            left = NodeState.TERMINATED if fate == "leaves a wreck" else None
            return self._begin("create", node, left, error)
        return self._begin("create", node, NodeState.READY)

    def _queue(self, name: NodeName, spec: QueuedSpec, fate: str = "") -> str:
        if name in self.nodes or name in self.queued:
            raise TPUError("It exists.", Reason.EXISTS)
        self.asked.append(spec)
        queued = self.queued[name] = QueuedTPUs(
            name=name,
            state="ACCEPTED",
            created=f"queued {len(self.asked)}",
            labels={LABEL: spec.node.labels[LABEL]},
        )
        steps = {
            "no capacity": [(1.0, "WAITING_FOR_RESOURCES"), (60.0, "PROVISIONING")],
            "no room": [(1.0, "WAITING_FOR_RESOURCES")],
            "leaves a wreck": [(1.0, "WAITING_FOR_RESOURCES"), (20.0, "FAILED")],
        }
        usual = [(1.0, "WAITING_FOR_RESOURCES"), (5.0, "PROVISIONING")]
        for seconds, state in steps.get(fate, usual):
            self._loop.call_later(seconds, self._move, queued, state)
        return self._ended(0.0)

    def get_room(self, name: NodeName) -> None:
        self._move(self.queued[name], "PROVISIONING")

    def _move(self, was: QueuedTPUs, state: str) -> None:
        now = self.queued.get(was.name)
        if now is None or now.created != was.created or now.state in ("FAILED", "DELETING"):
            return
        if state == "PROVISIONING":
            if was.name in self.nodes:
                state = "FAILED"
            else:
                self._create(was.name, was.labels[LABEL])
                made = msgspec.structs.replace(self.nodes[was.name], queued=was.name.node)
                self.nodes[was.name] = made
                self._loop.call_later(TAKES["create"] + 1.0, self._move, was, "ACTIVE")
        elif state == "ACTIVE":
            node = self.nodes.get(was.name)
            if node is None or node.labels != was.labels or node.state != "READY":
                state = "SUSPENDED"
        self.queued[was.name] = msgspec.structs.replace(now, state=state)

    def _queued(self, name: NodeName) -> QueuedTPUs:
        if name not in self.queued:
            raise TPUError("There is no such queued resource.", Reason.NOT_FOUND)
        if self.queued[name].state == "ACTIVE":
            self._move(self.queued[name], "ACTIVE")  # its TPU may be gone
        return self.queued[name]

    def _unqueue(self, name: NodeName, *, force: bool) -> str:
        queued = self._queued(name)
        node = self.nodes.get(name)
        if node is not None and node.labels != queued.labels:
            node = None
        if not self.deletes:
            raise TPUError("It has attached disks.", Reason.CONFLICT)
        if queued.state == "DELETING":
            raise TPUError("Another operation is in progress.", Reason.CONFLICT)
        if node is not None and not force:
            raise TPUError("It has TPUs.", Reason.CONFLICT)
        self.queued[name] = msgspec.structs.replace(queued, state="DELETING")
        if node is not None and node.state != "DELETING":
            self.nodes[name] = msgspec.structs.replace(node, state=NodeState.DELETING)
            self._begin("delete", node, None)
        self._loop.call_later(TAKES["delete"], self._forget, queued)
        return self._ended(TAKES["delete"])

    def _forget(self, was: QueuedTPUs) -> None:
        now = self.queued.get(was.name)
        if now is not None and now.created == was.created:
            del self.queued[was.name]

    def _ended(self, seconds: float, error: TPUError | None = None) -> str:
        """An operation that ends then."""
        operation = f"operation-{len(self._operations)}"
        self._operations[operation] = (self._loop.now + seconds, error)
        return operation

    def _delete(self, name: NodeName) -> str:
        node = self._node(name)
        if not self.deletes:
            raise TPUError("It has attached disks.", Reason.CONFLICT)
        if node.state == "CREATING" and not self.deletes_creating:
            raise TPUError("Not supported while in state CREATING.", Reason.CONFLICT)
        self.nodes[name] = msgspec.structs.replace(node, state=NodeState.DELETING)
        return self._begin("delete", node, None)

    def _stop(self, name: NodeName) -> str:
        node = self._node(name)
        if node.state != "READY":
            raise TPUError(f"Not supported while in state {node.state}.", Reason.CONFLICT)
        self.stopped += 1
        self.nodes[name] = msgspec.structs.replace(node, state=NodeState.STOPPING)
        return self._begin("stop", node, NodeState.STOPPED)

    def _node(self, name: NodeName) -> Node:
        if name not in self.nodes:
            raise TPUError("There is no such node.", Reason.NOT_FOUND)
        return self.nodes[name]

    def _begin(
        self, verb: str, node: Node, state: NodeState | None, error: TPUError | None = None
    ) -> str:
        """An operation after which *node* is in *state*, or gone."""

        def end() -> None:
            now = self.nodes.get(node.name)
            if now is None or now.id != node.id or (verb == "create" and now.state != "CREATING"):
                return
            if state is None:
                del self.nodes[node.name]
            else:
                self.nodes[node.name] = msgspec.structs.replace(now, state=state)

        self._loop.call_later(TAKES[verb], end)
        return self._ended(TAKES[verb], error)

    # ---- other people ----

    def others_create(self, name: NodeName) -> None:
        if name not in self.nodes:
            self._create(name, "")
            self.others_acted[name] = self._loop.now

    def others_delete(self, name: NodeName) -> None:
        """At once, for what they do between two looks of ours."""
        if self.nodes.pop(name, None) is not None:
            self.others_acted[name] = self._loop.now

    def of(self, label: str) -> Node | None:
        """The node that carries our label for an operation."""
        return next((n for n in self.nodes.values() if n.labels.get(LABEL) == label), None)

    def labels_of_queued(self) -> set[str]:
        return {queued.labels[LABEL] for queued in self.queued.values()}

    def may_come(self, label: str) -> bool:
        return any(request == label for request, _ in self.late)

    def may_go(self, name: NodeName) -> bool:
        return self.may_come(f"delete {name.node}")


class GoogleSlices(Google):
    """TPUs of several hosts, as Compute Engine has them: a template, a policy and a group.

    A creation makes the next part, a deletion removes the last one. Only the group is billed, and
    it is made of the other two. The same request is carried out once.
    """

    PARTS = 3
    #: For how long a request is known; seconds.
    KNOWN = 60.0

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.parts: dict[NodeName, int] = {}  # of ours, how many there are
        self._requests: dict[tuple[str, int], tuple[float, str]] = {}

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        label = spec.labels[LABEL]
        part = self.parts.get(name, 0) + 1  # by what the backend has seen
        return await self._call(
            "create", lambda fate: self._make_part(name, label, part, fate), label
        )

    def _make_part(self, name: NodeName, label: str, part: int, fate: str) -> str:
        asked, operation = self._requests.get((label, part), (float("-inf"), ""))
        if self._loop.now - asked < self.KNOWN:
            return operation
        node = self.nodes.get(name)
        if node is not None and (node.labels.get(LABEL) != label or not node.unfinished):
            raise TPUError("It exists.", Reason.EXISTS)
        if part != self.parts.get(name, 0) + 1:
            raise TPUError("Its template does not exist.", Reason.INVALID)
        operation = self._make(name, label, part, fate)
        self._requests[label, part] = self._loop.now, operation
        return operation

    def _make(self, name: NodeName, label: str, part: int, fate: str) -> str:
        refused = fate in ("no capacity", "leaves a wreck")
        error = TPUError("There is no capacity.", Reason.NO_CAPACITY) if refused else None
        if part < self.PARTS and error is not None:
            return self._ended(1.0, error)
        node = Node(
            name=name,
            id=label,
            type="v6e-2x4",
            state=NodeState.CREATING,
            labels={LABEL: label},
            unfinished=part < self.PARTS,
            problem=error,  # a group goes on trying
        )
        self.nodes[name] = self.created[node.id] = node
        self.parts[name] = part
        if part < self.PARTS or error is not None:
            return self._ended(1.0)
        return self._begin("create", node, NodeState.READY)

    def _delete(self, name: NodeName) -> str:
        node = self._node(name)
        if name not in self.parts or not (node.unfinished or node.state == "DELETING"):
            return super()._delete(name)
        if not self.deletes:
            raise TPUError("It is in use.", Reason.CONFLICT)
        if not node.unfinished:
            raise TPUError("It is not ready.", Reason.CONFLICT)
        self._remove_part(node)
        return self._ended(1.0)

    def _begin(
        self, verb: str, node: Node, state: NodeState | None, error: TPUError | None = None
    ) -> str:
        if verb != "delete" or node.name not in self.parts:
            return super()._begin(verb, node, state, error)

        def end() -> None:
            now = self.nodes.get(node.name)
            if now is not None and now.id == node.id and now.state == "DELETING":
                self._remove_part(now)

        self._loop.call_later(TAKES[verb], end)
        return self._ended(TAKES[verb])

    def _remove_part(self, node: Node) -> None:
        name = node.name
        self.parts[name] -= 1
        if not self.parts[name]:
            del self.parts[name], self.nodes[name]
            return
        left = msgspec.structs.replace(
            node, state=NodeState.CREATING, unfinished=True, problem=None
        )
        self.nodes[name] = left

    def others_delete(self, name: NodeName) -> None:
        self.parts.pop(name, None)
        super().others_delete(name)
