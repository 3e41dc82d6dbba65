"""`Fleet`: desired state, and the loop that makes it so. The core behind every face."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from ..cloud import NodeName
from ..errors import Reason, TPUError
from ..links import Links
from ..paths import data_dir
from .discovery.availability import Availability
from .kernelspecs import KernelSpecRegistry
from .models import (
    TPU,
    Catalog,
    Change,
    ConnectTPU,
    CreateTPU,
    DeleteTPU,
    DisconnectTPU,
    Environment,
    Operation,
    StopTPU,
    TPUList,
)
from .models.requests import validated
from .operations import checks
from .operations.progress import Progress
from .operations.runner import NON_EXCLUSIVE_KINDS
from .operations.tensorboard import TensorBoardService
from .operations.work import Work
from .ports import FleetPorts
from .reconcile.decide import Action, decide
from .state import State
from .store.database import Store
from .store.process_lease import ProcessLease

log = logging.getLogger(__name__)


class Fleet(FleetPorts):
    """The TPUs of one project, as a :class:`~jupyter_tpu.fleet.api.FleetAPI`.

    Lives on the core thread's loop. Made by :meth:`open`, ended by :meth:`close`.
    """

    def __init__(self, state: State, store: Store, owner: ProcessLease) -> None:
        self._state = state
        self._store = store
        self._owner = owner
        self._work = Work(state)
        self._offer = Availability(state.cloud)
        self._boards = TensorBoardService(state)
        self._act = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        links: Links,
        kernelspecs: KernelSpecRegistry,
        path: Path | None = None,
        *,
        supervise: bool = True,
        warm_kernels: bool | None = None,
    ) -> Fleet:
        """A fleet on the cloud of *links*, with its state in *path* (in the data folder if None).

        supervise: hold the links of connected TPUs and go on with what a dead process left; False
        for a process that only does one thing, such as a command beside no server.
        warm_kernels: whether environments have a warm kernel that nobody has decided on; None: yes,
        but not on emulated TPUs, whose hosts' memory is this machine's.
        """
        path = path or data_dir() / "fleet.sqlite"
        with contextlib.ExitStack() as opened:  # closed again if this fails: it is tried again
            store = Store(path, links.cloud.identity)
            opened.callback(store.close)
            owner = ProcessLease(path.with_name(path.name + ".owners"))
            opened.callback(owner.close)
            act = asyncio.Event()
            fleet = cls(State(links, kernelspecs, store, owner, act.set), store, owner)
            fleet._act = act
            emulated = links.cloud.emulated
            fleet._state.warm_by_default = not emulated if warm_kernels is None else warm_kernels
            fleet._begin(supervise)
            opened.pop_all()
        return fleet

    def _begin(self, supervise: bool) -> None:
        state = self._state
        state.supervised = supervise
        for record in state.operations.load(resume=supervise):
            self._resume(record)
        runs = [state.observer.run()]
        if supervise:
            runs += [self._loop(), state.kernels.run(), state.warm.run(), state.tunnels.run()]
        self._tasks = [asyncio.create_task(run) for run in runs]
        for task in self._tasks:
            task.add_done_callback(_died)

    async def close(self) -> None:
        """Ends what this object runs; desired state stays, interrupted work can go on later."""
        await self._state.operations.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        await self._state.tunnels.close()
        await self._state.apps.close()
        self._state.connections.close()
        self._state.changes.close()
        self._owner.close()
        self._store.close()

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        return self._state.changes.subscribe(callback)

    def refresh_kernels(self) -> None:
        """A kernel was started or ended in this process: ask the agents soon."""
        self._state.kernels.wake()

    # ---- asking ----

    async def catalog(self, zone: str | None = None) -> Catalog:
        return await self._offer.catalog(zone)

    async def tpus(self) -> TPUList:
        state = self._state
        state.refresh()
        await state.observer.ensure_fresh()
        names = sorted(state.names(), key=lambda name: (name.node, name.zone))
        return TPUList(tpus=[state.tpu(name) for name in names], problem=state.observer.problem)

    async def tpu(self, ref: str) -> TPU:
        return self._state.tpu(await self._find(ref))

    async def environments(self, ref: str) -> list[Environment]:
        return self._state.tpu(await self._find(ref)).environments

    async def operations(self) -> list[Operation]:
        self._state.refresh()
        return self._state.operations.all()

    async def operation(self, id: str) -> Operation:
        self._state.refresh()
        return self._state.operations.get(id)

    async def wait(self, id: str) -> Operation:
        """Waits until an operation has ended; for callers in this process."""
        return await self._state.operations.wait(id)

    async def cancel(self, id: str) -> Operation:
        for name, record in list(self._state.interrupted.items()):
            if record.operation.id == id:
                self._state.drop_interrupted(name)
        return await self._state.operations.cancel(id)

    # ---- changing ----

    async def create(self, wanted: CreateTPU) -> Operation:
        wanted = validated(wanted)
        checks.labels(wanted)
        if wanted.connect is not None:
            checks.environment(wanted.connect)
        wanted = await self._offer.complete(wanted)
        assert wanted.zone is not None
        name = NodeName(self._state.cloud.project, wanted.zone, wanted.name)
        await self._must_be_new(name)
        record = self._state.operations.new_record("create", name, create=wanted)
        return self._state.operations.start(
            record,
            lambda progress: self._work.create(name, wanted, progress),
            lambda progress: self._work.undo_create(name, progress),
        )

    async def start(self, ref: str) -> Operation:
        name = await self._find(ref)
        node_state = self._state.tpu(name).state
        if node_state not in ("STOPPED", "STOPPING"):
            raise TPUError(
                f"{name.node} is {node_state}; only a stopped TPU can be started.", Reason.CONFLICT
            )
        return self._start("start", name, self._work.start)

    async def stop(self, ref: str, how: StopTPU | None = None) -> Operation:
        name = await self._find(ref)
        node_state = self._state.tpu(name).state
        if node_state != "READY":
            raise TPUError(
                f"{name.node} is {node_state}; only a TPU that is READY can be stopped.",
                Reason.CONFLICT,
            )
        await self._may_end_kernels(name, how is not None and how.end_kernels, "Stopping")
        return self._start("stop", name, self._work.stop)

    async def delete(self, ref: str, how: DeleteTPU | None = None) -> Operation:
        name = await self._find(ref)
        for record in self._state.operations.running_on(name):
            if record.operation.kind == "create":
                raise TPUError(
                    f"{name.node} is still being created.",
                    Reason.CONFLICT,
                    "Cancel its creation: that deletes what was made.",
                )
        await self._may_end_kernels(name, how is not None and how.end_kernels, "Deleting")
        await self._stop_connecting(name)
        return self._start("delete", name, self._work.delete)

    async def connect(self, ref: str, wanted: ConnectTPU | None = None) -> Operation:
        wanted = validated(wanted or ConnectTPU())
        checks.environment(wanted)
        name = await self._find(ref)
        for record in self._state.operations.running_on(name):
            if record.operation.kind == "connect" and record.connect == wanted:
                return record.operation  # pressed twice
        self._must_be_idle(name)
        node_state = self._state.tpu(name).state
        if node_state != "READY":
            raise TPUError(
                f"{name.node} is {node_state}; it can be connected when it is READY.",
                Reason.CONFLICT,
                "Start it first." if node_state == "STOPPED" else "",
            )
        self._state.drop_interrupted(name)
        return self._state.operations.get(self._work.start_connect(name, wanted))

    async def disconnect(self, ref: str, how: DisconnectTPU | None = None) -> Operation:
        name = await self._find(ref)
        await self._may_end_kernels(name, how is not None and how.end_kernels, "Disconnecting")
        await self._stop_connecting(name)
        return self._start("disconnect", name, self._work.disconnect)

    # ---- conditions ----

    def _start(self, kind, name: NodeName, work) -> Operation:
        self._must_be_idle(name)
        self._state.drop_interrupted(name)
        operations = self._state.operations
        return operations.start(
            operations.new_record(kind, name), lambda progress: work(name, progress)
        )

    def _must_be_idle(self, name: NodeName) -> None:
        for record in self._state.operations.running_on(name):
            if record.operation.kind in NON_EXCLUSIVE_KINDS:
                continue
            doing = {"stop": "stopping"}.get(
                record.operation.kind, record.operation.kind.removesuffix("e") + "ing"
            )
            raise TPUError(
                f"Something else is being done with {name.node}: {doing}.",
                Reason.CONFLICT,
                "Wait for its end, or cancel it.",
            )

    async def _must_be_new(self, name: NodeName) -> None:
        exists = TPUError(
            f"There is a TPU called {name.node} in {name.zone} already.",
            Reason.EXISTS,
            "Choose another name.",
        )
        if self._state.operations.running_on(name):
            raise exists
        try:
            await self._state.cloud.get_node(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return
            raise
        raise exists

    async def _stop_connecting(self, name: NodeName) -> None:
        for record in self._state.operations.running_on(name):
            if record.operation.kind == "connect":
                await self._state.operations.cancel(record.operation.id, patience=15)

    # ---- the loop ----

    async def _loop(self) -> None:
        """Compares and acts after each look and each end of an operation."""
        self._act.set()
        while True:
            await self._act.wait()
            self._act.clear()
            state = self._state
            wanted = {*state.wished, *state.environments, *state.interrupted}
            for name in wanted | state.tunnels.names():
                if state.observer.complete(name.zone) or state.observed(name) is not None:
                    self._reconcile(name)

    def _reconcile(self, name: NodeName) -> None:
        state = self._state
        todo = decide(
            state.desired(name),
            state.observed(name),
            acquired=name in state.connections,
            busy=bool(state.operations.running_on(name)),
        )
        for action in todo:
            if action is Action.FORGET:
                state.forget(name)
            elif action is Action.RELEASE:
                state.connections.release(name)
                state.kernels.forget(name)  # the VM is down, and its kernels with it
            elif action is Action.ACQUIRE:
                state.connections.acquire(name, len(state.observer.nodes[name].endpoints))
            elif action is Action.REGISTER:
                for record in list(state.environments.get(name, {}).values()):
                    if record.environment.state == "ready":
                        state.register(name, record)
            elif action is Action.RESUME:
                self._resume_connect(name)

    def _resume(self, record) -> None:
        """Goes on with an operation that a dead process left."""
        name = record.name
        if record.operation.kind == "connect" and record.connect is not None:
            self._state.interrupted[name] = record  # the loop does, when the TPU is seen
        elif record.create is not None:
            wanted = record.create
            self._state.operations.start(
                record,
                lambda progress: self._work.resume_create(name, wanted, progress),
                lambda progress: self._work.undo_create(name, progress),
            )

    def _resume_connect(self, name: NodeName) -> None:
        record = self._state.interrupted.pop(name)
        wanted = record.connect
        assert wanted is not None

        async def go_on(progress: Progress) -> None:
            progress.log("The server was restarted; going on with it.")
            await self._work.connect(name, wanted, progress)

        self._state.operations.start(record, go_on)


def _died(task: asyncio.Task[None]) -> None:
    """These tasks end by being cancelled only; anything else is a fault of ours."""
    if not task.cancelled() and task.exception() is not None:
        log.error("A part of the fleet has ended", exc_info=task.exception())
