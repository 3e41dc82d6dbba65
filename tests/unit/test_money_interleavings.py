"""Creations, hunts, cancels, deletions, killed servers, outages, other people, mixed at random.

The product's own services, runner, store and takeover, against a model of Google. What must hold
is asserted at each end of an operation and after each step, and once more when all is quiet.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from core_parts import core_of, nothing, with_parts
from google_model import LATENCY, Google, GoogleSlices, VirtualLoop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jupyter_tpu import clock as tpu_clock
from jupyter_tpu.backoff import Backoff
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core import operation_runner, state_folder
from jupyter_tpu.fleet.core.database import Database
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.core.observer import ObservedState, Observer
from jupyter_tpu.fleet.core.operation_records import (
    Deletion,
    GuardSetting,
    HuntRecord,
    OperationRecord,
    TPUConnection,
)
from jupyter_tpu.fleet.core.operation_runner import OperationRunner
from jupyter_tpu.fleet.core.state_folder import Locks, ProcessLease
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.hunts import planner
from jupyter_tpu.fleet.hunts import run as hunt_run
from jupyter_tpu.fleet.hunts import service as hunt_service
from jupyter_tpu.fleet.hunts.replacing import PreemptedTPUs
from jupyter_tpu.fleet.hunts.service import HuntService
from jupyter_tpu.fleet.jobs.guard_setting import GuardService
from jupyter_tpu.fleet.jobs.guard_stops import GuardStops
from jupyter_tpu.fleet.lifecycle import create, power, queued
from jupyter_tpu.fleet.lifecycle.availability import Availability
from jupyter_tpu.fleet.lifecycle.create import CreateService
from jupyter_tpu.fleet.lifecycle.defaults import EnvironmentDefaults
from jupyter_tpu.fleet.lifecycle.power import PowerService
from jupyter_tpu.fleet.lifecycle.provisioning import LABEL
from jupyter_tpu.fleet.lifecycle.queued import QueuedService
from jupyter_tpu.fleet.models import (
    ConnectTPU,
    CreateTPU,
    DeleteTPU,
    Guard,
    Operation,
    SetGuard,
    StartHunt,
    StopTrying,
)
from jupyter_tpu.fleet.money.grants import Grants
from jupyter_tpu.fleet.money.owners import TPUOwners
from jupyter_tpu.fleet.money.prices import Prices
from jupyter_tpu.fleet.reconcile import operations
from jupyter_tpu.fleet.reconcile.operations import OperationService, Takeover

NAMES = [NodeName(Google.project, Google.zone, name) for name in ("tpu-a", "tpu-b")]
#: After this long without faults all has ended; seconds.
QUIET = 2400.0
#: How long the connect that follows a creation takes here; seconds.
CONNECTING = 5.0

FATES = {
    "create": [
        "unconnected",
        "lost",
        "answer lost",
        "late",
        "silent",
        "unreadable",
        "no capacity",
        "leaves a wreck",
        *("NO_CREDENTIALS", "PERMISSION", "QUOTA", "RATE_LIMITED", "UNAVAILABLE", "CONFLICT"),
    ],
    "delete": [
        "unconnected",
        "lost",
        "answer lost",
        "late",
        "silent",
        "unreadable",
        *("NO_CREDENTIALS", "PERMISSION", "RATE_LIMITED", "UNAVAILABLE", "CONFLICT", "QUOTA"),
    ],
    "node": ["silent", "unreadable", "NO_CREDENTIALS", "PERMISSION", "UNAVAILABLE", "CONFLICT"],
    "guard": ["UNREACHABLE", "NO_CREDENTIALS", "CONFLICT", "INVALID", "PERMISSION", "HOST_KEY"],
    "operation": [
        "silent",
        "unreadable",
        "forgotten",
        *("NO_CREDENTIALS", "PERMISSION", "NOT_FOUND", "CONFLICT", "UNAVAILABLE"),
    ],
}


class KillableStore(Store):
    """Writes nothing any more once its process is dead, not even what it has been given before."""

    dead = False

    async def _call(self, function: Callable[[], Any]) -> Any:
        if self.dead:
            raise sqlite3.ProgrammingError("the process is dead")
        return await super()._call(function)

    def kill(self) -> list[asyncio.Task[None]]:
        self.dead = True
        self._database.close()
        return [self._writer] if self._writer is not None else []


class Server:
    """One process: its parts are the product's, apart from what reaches hosts."""

    def __init__(self, world: World, store: KillableStore, path: Path) -> None:
        self.world = world
        self.google = world.google
        self.store = store
        self.lease = ProcessLease(path.with_name("owners"))
        self.runner = OperationRunner(self.store, self.lease)
        self.runner.ended.add(self._look)
        observer = Observer(
            self.google,
            ObservedState(),
            busy=bool,
        )
        links: Any = SimpleNamespace(cloud=self.google, key_metadata=dict)
        self.observed = observer.observed
        looks: Any = SimpleNamespace(observed=self.observed, ensure_recent=nothing)
        core = core_of(
            links=links,
            cloud=links.cloud,
            store=self.store,
            runner=self.runner,
            observed=self.observed,
            observer=observer,
            connections=SimpleNamespace(release=lambda _: None),
            connected=SimpleNamespace(forget=self.runner.drop_resumable),
            desired=SimpleNamespace(connected=()),
            locks=Locks(path.with_name("locks")),
        )
        idle = with_parts(core, observer=looks)  # does not ask Google by itself
        grants = self.grants = Grants(idle, Prices(core))
        nodes: Any = SimpleNamespace(node=lambda name: world.google.nodes.get(name))
        guards: Any = SimpleNamespace(
            set_at_creation=self._set_guard, overdue=lambda *_: False, act=self._act
        )
        guard = GuardService(with_parts(core, observed=nodes), guards)
        self.create = CreateService(
            core,
            Availability(links.cloud),
            grants,
            self.connect,
            guard.follow,
            lambda *_: None,
            lambda *_: None,
            EnvironmentDefaults(),
        )
        work: Any = SimpleNamespace(require_confirmation=nothing, shut_down_kernels=nothing)
        jobs: Any = SimpleNamespace(take_over=lambda _: None, await_successor=lambda _: None)
        owners = TPUOwners()
        sessions: Any = SimpleNamespace(  # of no TPU
            plan=lambda *_, **__: None, save=nothing, chosen=lambda _: None
        )
        self.power = PowerService(core, work, grants, owners, GuardStops(core), sessions, sessions)
        self.operations = OperationService(core, grants)
        self.hunts = HuntService(
            with_parts(idle, shared=SimpleNamespace(reload=self._reload)),
            self.create,
            grants,
            PreemptedTPUs(idle, self.power, jobs, SimpleNamespace(projects=lambda _: None)),
            SimpleNamespace(restore=nothing),  # no TPU is replaced here
        )
        self.queued = QueuedService(core, self.create, owners)
        self.runner.register_resume("connect", self.runner.keep_until_seen)
        self.takeover = Takeover(self.runner, self._reload, supervise=True)
        # In order: what they do in turn must not differ between two runs of one example.
        self.tasks: dict[asyncio.Task[Any], None] = {}

    async def begin(self) -> None:
        self.runner.load(self.store.snapshot.operations, self.store.snapshot.requests)
        await self.takeover.check()
        self._keep(asyncio.create_task(self.takeover.run()))
        self._keep(asyncio.create_task(self._resume_connects()))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self.tasks[task] = None
        task.add_done_callback(lambda ended: self.tasks.pop(ended, None))

    async def _reload(self) -> None:
        if (snapshot := await self.store.refresh()) is not None:
            self.runner.load(snapshot.operations, snapshot.requests)

    def connect(
        self, name: NodeName, request: ConnectTPU, node_id: str, job: str, _: object
    ) -> Operation:
        connection = TPUConnection(request=request, node_id=node_id, job=job)
        record = self.runner.new_record("connect", name, connection)
        self.world.connects.append(connection)
        self.runner.save_soon(record)
        return self.runner.resume(record, self._connecting)

    async def _set_guard(self, name: NodeName, request: SetGuard) -> Guard:
        """What host 0 does, which can't be reached now and then."""
        await asyncio.sleep(LATENCY)
        fates = self.google.fates.get("guard")
        if fates:
            raise TPUError("The guard can't be set.", Reason[fates.pop(0)])
        node = self.google.nodes.get(name)
        if node is None or node.state != "READY":
            raise TPUError("This needs a READY TPU.", Reason.CONFLICT)
        self.world.guarded.add(node.id)
        return Guard(action=request.action)

    async def _act(self, name: NodeName, action: str, reason: str) -> Operation:
        raise AssertionError("no limit has passed")

    async def _connecting(self, progress: OperationProgress) -> None:
        await asyncio.sleep(CONNECTING)

    async def _resume_connects(self) -> None:
        """What the controller does: a connect goes on when its TPU is seen and idle."""
        while True:
            for name, record in list(self.runner.known.resumable.items()):
                if not self.runner.known.running_on(name):
                    del self.runner.known.resumable[name]
                    if name in self.google.nodes:
                        self.runner.resume(record, self._connecting)
                    else:
                        self.runner.mark_interrupted(record)
            await asyncio.sleep(2.0)

    def do(self, work: Callable[[], Awaitable[Any]], then: Any = None) -> None:
        """A request of a user, whose answer *then* gets; refusals are answers, too."""

        async def answer() -> None:
            try:
                operation = await work()
            except TPUError:  # a refusal
                return
            except Exception as error:  # the task would swallow it
                if not self.store.dead:
                    self.world.failures.append(AssertionError(repr(error)))
                raise
            if then is not None:
                then(operation)

        self._keep(self.world.loop.create_task(answer()))

    def _look(self, name: NodeName) -> None:
        """An operation has just ended: what it says is so."""
        self._keep(self.world.loop.create_task(self._judge()))

    async def _judge(self) -> None:
        await self.store.flush()
        for record in self.world.records():
            if record.operation.state != "running":
                try:
                    self.world.judge(record)
                except AssertionError as failure:  # the runner's task would swallow it
                    self.world.failures.append(failure)

    def _left(self) -> list[asyncio.Task[Any]]:
        running = (operation.task for operation in self.runner.known.running.values())
        return [task for task in (*self.tasks, *running) if task and not task.done()]

    def kill(self) -> None:
        self.tasks |= dict.fromkeys(self.store.kill())
        while left := self._left():  # those that end may begin to judge
            for task in left:
                task.cancel()
            _, running = self.world.loop.run_until_complete(asyncio.wait(left, timeout=1))
            assert not running, f"it swallowed its cancel: {running}"
        self.lease.close()


class World:
    def __init__(self, kind: type[Google] = Google) -> None:
        self.loop = VirtualLoop()
        self.slept = 0.0  # in seconds: timers stand still then, and the clocks do not
        self.clock_set = 0.0  # by how many seconds the time of day was set
        asyncio.set_event_loop(self.loop)
        self.google = kind(self.loop)
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.file = Database(self.folder / "fleet.sqlite", "google")
        self.servers: list[Server] = []
        self.judged: set[str] = set()
        self.failures: list[AssertionError] = []
        self.cancelled: set[str] = set()  # creations whose cancelling was accepted in time
        self.given_up: set[str] = set()  # operations whose deletion somebody gave up
        self.connects: list[TPUConnection] = []
        self.guarded: set[str] = set()  # ids of nodes

    def time(self) -> float:
        return self.loop.now + self.slept + self.clock_set

    def uptime(self) -> float:
        return self.loop.now + self.slept

    def start(self) -> None:
        path = self.folder / "fleet.sqlite"
        store = self.loop.run_until_complete(KillableStore.open(path, "google"))
        server = Server(self, store, path)
        self.servers.append(server)
        self.loop.run_until_complete(server.begin())

    def kill(self, server: Server) -> None:
        self.servers.remove(server)
        server.kill()

    def records(self) -> list[OperationRecord]:
        """As the next process would read them."""
        snapshot = self.file.read()
        return snapshot.operations

    def node(self, id: str) -> Any:
        return next((node for node in self.google.nodes.values() if node.id == id), None)

    # ---- what must hold ----

    def judge(self, record: OperationRecord) -> None:
        """That an operation which has just ended says what is so."""
        operation, claim = record.operation, record.claim
        if operation.kind == "guard":
            id = record.of(GuardSetting).node_id
            assert self.node(id) is None or id in self.guarded, "its guard was lost"
        if operation.kind in ("connect", "guard") or operation.id in self.judged:
            return
        self.judged.add(operation.id)
        recently = self.loop.now - self.google.others_acted.get(record.name, 0.0) < 1.0
        hunt = record.content if isinstance(record.content, HuntRecord) else None
        if hunt is not None and operation.state != "done":
            said = operation.problem.message if operation.problem else ""
            for number in range(1, hunt.attempted + 1):
                label = f"{operation.id}-{number}"
                node = self.google.of(label)
                assert not self.google.may_come(label), "an attempt may still make a TPU"
                assert node is None or node.state in said, f"{operation.state}, and it is there"
                if operation.undeleted != "kept":
                    waiting = self.google.labels_of_queued()
                    assert label not in waiting, f"{operation.state}, and it may still get a TPU"
            if operation.undeleted:
                self._judge_kept(record)
            return
        assert claim is not None
        if operation.kind in ("create", "hunt"):
            node = self.google.of(claim.label)
            if operation.state == "done":
                ready = node is not None and node.state == "READY"
                # Another operation of ours may delete it in the same moment.
                deleted = claim.want == "present" and claim.node_id in self.google.deletions
                assert recently or ready or deleted
                assert operation.id not in self.cancelled
                asked = record.creation.request.connect is not None
                follow = [connect for connect in self.connects if connect.node_id == claim.node_id]
                assert len(follow) == asked, "the connect that was asked for follows, once"
                if record.creation.request.guard is not None:
                    contents = [r.content for r in self.records()]
                    guards = [c for c in contents if isinstance(c, GuardSetting)]
                    set_on = [guard.node_id for guard in guards]
                    assert claim.node_id in set_on, "nothing sets its guard"
            else:
                assert not self.google.may_come(claim.label), "it may still appear"
                said = operation.problem.message if operation.problem else ""
                assert node is None or node.state in said, f"{operation.state}, and it is there"
            if operation.undeleted:
                self._judge_kept(record)
        elif operation.state == "done":
            assert self.node(claim.node_id) is None, "deleted, and it is there"
            deletion = record.content if isinstance(record.content, Deletion) else None
            origin = deletion.origin.created if deletion and deletion.origin else ""
            left = [queued.created for queued in self.google.queued.values()]
            assert not origin or origin not in left, "deleted, and its queued resource is there"
        else:
            node, alone = self.node(claim.node_id), self._is_alone(record)
            going = node is not None and node.state == "DELETING" and alone
            assert not going, "failed, and it is being deleted"
            if operation.undeleted:
                self._judge_kept(record)

    def _judge_kept(self, record: OperationRecord) -> None:
        assert record.operation.undeleted == "kept"
        assert record.operation.id in self.given_up
        if self.node(record.claim.node_id) is not None and self._is_alone(record):
            assert not self.google.may_go(record.name), "kept, and a deletion is on its way"

    def _is_alone(self, record: OperationRecord) -> bool:
        """Whether no other deletion is of the same node: that of another process goes on where one
        was given up.
        """
        assert record.claim is not None
        return not any(
            other.operation.id != record.operation.id
            and other.claim.node_id == record.claim.node_id
            for other in self.records()
            if other.operation.kind == "delete" and other.claim is not None
        )

    def check(self) -> None:
        for failure in self.failures:
            raise failure
        if not self.servers:
            return
        records = {record.operation.id: record for record in self.records()}
        for node in self.google.nodes.values():
            label = node.labels.get(LABEL)
            assert label is None or _id(label) in records, "a node that nobody knows of"
        for label, _ in self.google.late:
            assert not label or _id(label) in records or label.startswith("delete ")
        hunts = [r for r in records.values() if isinstance(r.content, HuntRecord)]
        running = [r for r in hunts if r.operation.state == "running"]
        hunted = [r.name.node for r in running]
        assert len(hunted) == len(set(hunted)), "two hunts for one name"
        deletions = [r.claim for r in records.values() if r.operation.kind == "delete"]
        meant = {claim.node_id for claim in deletions if claim is not None}  # by users
        for id in self.google.deletions:
            label = self.google.created[id].labels.get(LABEL, "")
            record = records.get(_id(label))
            claim = record.claim if record else None
            failed = record is not None and (claim is None or claim.label != label)  # a hunt's
            unwanted = failed or (
                claim is not None and (claim.want == "absent" or claim.failure is not None)
            )
            assert unwanted or id in meant, "somebody's TPU was deleted"

    def check_when_quiet(self) -> None:
        records = {record.operation.id: record for record in self.records()}
        running = [r for r in records.values() if r.operation.state == "running"]
        assert not running, [r.operation for r in running]
        assert not self.google.late
        for record in records.values():
            operation, claim = record.operation, record.claim
            if claim is not None and operation.id in self.cancelled:
                assert operation.state != "done"
                kept = operation.id in self.given_up and operation.undeleted == "kept"
                assert kept or self.google.of(claim.label) is None, "it was cancelled, and bills"

    def close(self) -> None:
        for server in list(self.servers):
            self.kill(server)
        self.file.close()
        self.loop.close()
        asyncio.set_event_loop(None)
        shutil.rmtree(self.folder)


def use_clock(world: World, patch: pytest.MonkeyPatch) -> None:
    """Has the fleet ask the world's clock, and leave nothing to chance."""
    clock = SimpleNamespace(time=world.time, monotonic=world.loop.time)
    for module in (create, hunt_service, power, queued, tpu_clock):
        patch.setattr(module, "time", clock)
    for module in (power, tpu_clock):
        patch.setattr(module, "uptime", world.uptime)
    patch.setattr(hunt_run, "random", SimpleNamespace(random=lambda: 0.5))
    # What a server finds abandoned it takes over in the order of the ids.
    chance = random.Random(0)
    ids = SimpleNamespace(uuid4=lambda: uuid.UUID(int=chance.getrandbits(128), version=4))
    for module in (operation_runner, state_folder):
        patch.setattr(module, "uuid", ids)
    patch.setattr(hunt_run, "WAIT_SLICE_SECONDS", 600.0)


def _id(label: str) -> str:
    """The ID of the operation with this label: those of a hunt's attempts are numbered."""
    return label.partition("-")[0]


names = st.sampled_from(NAMES)
numbers = st.integers(0, 1)
rarely = st.sampled_from([False, False, False, True])
#: How long nothing else happens after a step; half a round trip is 0.05 s.
pauses = st.sampled_from([0.0, 0.07, 0.12, 0.3, 3.0, 15.0, 130.0])


class Then(NamedTuple):
    """What follows a step: some time, and then perhaps the server's death."""

    pause: float
    killed: bool
    arrives: bool  # whether requests of the dead server that are on their way do
    again: bool  # whether another server starts at once


what_follows = st.builds(Then, pauses, st.booleans(), st.booleans(), st.booleans())


class Interleavings(RuleBasedStateMachine):
    queues = False  # whether hunts wait in the queue, too
    kind: type[Google] = Google

    def __init__(self) -> None:
        super().__init__()
        world = self.world = World(self.kind)
        # What is logged of it is expected.
        logging.disable(logging.CRITICAL)
        self.patch = pytest.MonkeyPatch()
        use_clock(world, self.patch)
        for reason in (Reason.QUOTA, Reason.NO_CAPACITY):
            self.patch.setitem(planner.MENDED_BY_TIME, reason, Backoff(20.0, 80.0))
        # The first turn ends about when the usual queued resource gets room.
        self.patch.setattr(planner, "TURN", Backoff(6.0, 60.0))
        self.patch.setattr(operations, "CHECK_SECONDS", 15.0)  # most of them find nothing to do
        world.start()

    @property
    def google(self) -> Google:
        return self.world.google

    def _server(self, which: int) -> Server:
        return self.world.servers[which % len(self.world.servers)]

    def _running(self, kind: str = "") -> list[tuple[Server, OperationRecord]]:
        return [
            (server, record)
            for server in self.world.servers
            for records in server.runner.known.running_by_tpu().values()
            for record in records
            if record.operation.kind == (kind or record.operation.kind)
        ]

    # ---- users ----

    @precondition(lambda self: bool(self.world.servers) and len(self._running("create")) < 2)
    @rule(
        name=names,
        connect=st.booleans(),
        guarded=st.booleans(),
        which=numbers,
        twice=rarely,
        then=what_follows,
    )
    def create(
        self, name: NodeName, connect: bool, guarded: bool, which: int, twice: bool, then: Then
    ) -> None:
        server = self._server(which)
        accepted: list[Operation] = []
        request = CreateTPU(
            name=name.node,
            type="v5litepod-1",
            zone=name.zone,
            confirm_price=True,
            connect=ConnectTPU() if connect else None,
            guard=SetGuard(idle=3600.0) if guarded else None,
        )
        for _ in range(1 + twice):
            server.do(lambda: server.create.start(request), accepted.append)
        if twice:
            self.world.loop.pass_time(0.2)
            assert len(accepted) < 2, "two creations of one name at once"
        self._follow(server, then)

    @precondition(lambda self: bool(self.world.servers) and not self._running("hunt"))
    @rule(
        name=names,
        which=numbers,
        everywhere=st.booleans(),
        queued=st.booleans(),
        direct=st.booleans(),
        then=what_follows,
    )
    def hunt(
        self, name: NodeName, which: int, everywhere: bool, queued: bool, direct: bool, then: Then
    ) -> None:
        """With *everywhere*, all processes are asked at the same moment."""
        asked = self._server(which)
        tpu = CreateTPU(name=name.node, type="v5litepod-1", zone=name.zone, confirm_price=True)
        accepted: list[object] = []

        def ask(server: Server) -> None:
            types = ["v5litepod-1", "v5litepod-4"]
            waits = queued and self.queues
            request = StartHunt(tpu=tpu, types=types, queued=waits, direct=waits and direct)
            server.do(lambda: server.hunts.start(request), accepted.append)

        for server in self.world.servers if everywhere else [asked]:
            ask(server)
        if everywhere:
            self.world.loop.pass_time(0.01)
            assert len(accepted) < 2, "two hunts for one name at once"
        self._follow(asked, then)

    @precondition(lambda self: bool(self._running("create") or self._running("hunt")))
    @rule(which=numbers, asked=numbers, then=what_follows)
    def cancel(self, which: int, asked: int, then: Then) -> None:
        """Asked of any process, also of one that does not run it."""
        running = [*self._running("create"), *self._running("hunt")]
        owner, record = running[which % len(running)]
        server = self._server(asked)
        server.do(lambda: server.runner.cancel(record.operation.id))
        self.world.loop.pass_time(0.01)  # the answer comes only when the wish is on disk
        if record.operation.state != "done" and server is owner:
            self.world.cancelled.add(record.operation.id)
        self._follow(server, then)

    @precondition(lambda self: bool(self.world.servers) and bool(self.google.nodes))
    @rule(data=st.data(), which=numbers, then=what_follows)
    def delete(self, data: Any, which: int, then: Then) -> None:
        name = data.draw(st.sampled_from(sorted(self.google.nodes)))
        server = self._server(which)
        server.do(lambda: server.power.delete(name, DeleteTPU(end_kernels=True)))
        self._follow(server, then)

    @precondition(lambda self: any(r.operation.undeleted for _, r in self._running()))
    @rule(which=numbers, asked=numbers, then=what_follows)
    def stop_trying(self, which: int, asked: int, then: Then) -> None:
        """Asked of any process, also of one that does not run it."""
        refused = [record for _, record in self._running() if record.operation.undeleted]
        record = refused[which % len(refused)]
        server = self._server(asked)
        self.world.given_up.add(record.operation.id)
        id, options = record.operation.id, StopTrying(keep_tpu=True)
        server.do(lambda: server.operations.stop_trying(id, options))
        self._follow(server, then)

    # ---- processes ----

    @precondition(lambda self: len(self.world.servers) < 2)
    @rule(pause=pauses)
    def start_server(self, pause: float) -> None:
        self.world.start()
        self.world.loop.pass_time(pause)

    @precondition(lambda self: bool(self._running()))
    @rule(which=numbers, then=what_follows)
    def kill_server(self, which: int, then: Then) -> None:
        self._follow(self._server(which), Then(then.pause, True, then.arrives, then.again))

    def _follow(self, server: Server, then: Then) -> None:
        self.world.loop.pass_time(then.pause)
        if then.killed:
            self.google.late_after_kill = then.arrives
            self.world.kill(server)
            if then.again:
                self.world.start()

    # ---- Google, and other people ----

    @rule(data=st.data(), method=st.sampled_from(sorted(FATES)))
    def meet(self, data: Any, method: str) -> None:
        fates = st.lists(st.sampled_from(FATES[method]), min_size=1, max_size=3)
        self.google.fates.setdefault(method, []).extend(data.draw(fates))

    @rule(
        outage=st.sampled_from(["silent", "unconnected", "UNAVAILABLE", "PERMISSION"]),
        seconds=pauses,
    )
    def outage(self, outage: str, seconds: float) -> None:
        self.google.outage = (outage, self.world.loop.now + seconds)

    @precondition(lambda self: any(n.state == "CREATING" for n in self.google.nodes.values()))
    @rule()
    def refuse_to_delete_what_is_creating(self) -> None:
        self.google.deletes_creating = False

    @rule(deletes=st.booleans())
    def refuse_to_delete(self, deletes: bool) -> None:
        self.google.deletes = deletes

    @precondition(lambda self: len(self.google.nodes) < len(NAMES))
    @rule(name=names, pause=pauses)
    def others_create(self, name: NodeName, pause: float) -> None:
        self.google.others_create(name)
        self.world.loop.pass_time(pause)

    @precondition(lambda self: bool(self.google.nodes))
    @rule(data=st.data(), again=st.booleans(), pause=pauses)
    def others_delete(self, data: Any, again: bool, pause: float) -> None:
        name = data.draw(st.sampled_from(sorted(self.google.nodes)))
        self.google.others_delete(name)
        if again:
            self.google.others_create(name)
        self.world.loop.pass_time(pause)

    @precondition(lambda self: bool(self._running()))
    @rule(seconds=st.sampled_from([-3600.0, -30.0, 30.0, 3600.0]))
    def set_clock(self, seconds: float) -> None:
        self.world.clock_set += seconds

    @precondition(lambda self: bool(self._running()))
    @rule(seconds=pauses)
    def wait(self, seconds: float) -> None:
        self.world.loop.pass_time(seconds)

    # ---- what holds ----

    @invariant()
    def nothing_is_lost_or_taken(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        world, google = self.world, self.google
        try:
            google.fates.clear()
            google.outage, google.deletes_creating, google.deletes = ("", 0.0), True, True
            if not world.servers:
                world.start()
            end = world.loop.now + QUIET
            while world.loop.now < end:
                world.loop.pass_time(20.0)
                world.check()
                if not any(r.operation.state == "running" for r in world.records()):
                    break
            while google.late:
                world.loop.pass_time(10.0)
            world.check()
            world.check_when_quiet()
        finally:
            world.close()
            self.patch.undo()
            logging.disable(logging.NOTSET)


class ManyInterleavings(Interleavings):
    """The same, for longer, and with hunts in the queue."""

    queues = True


class SliceInterleavings(Interleavings):
    """The same, of TPUs that are made and deleted part by part."""

    kind = GoogleSlices


# `make test-long` has many more.
SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = SETTINGS
TestSliceInterleavings = SliceInterleavings.TestCase
TestSliceInterleavings.settings = settings(SETTINGS, max_examples=40)
TestManySliceInterleavings = pytest.mark.timeout(1800)(
    pytest.mark.long(type("ManySliceInterleavings", (SliceInterleavings,), {}).TestCase)
)
TestManySliceInterleavings.settings = settings(SETTINGS, max_examples=2000)
TestManyInterleavings = pytest.mark.timeout(1800)(pytest.mark.long(ManyInterleavings.TestCase))
TestManyInterleavings.settings = settings(SETTINGS, max_examples=2000)
