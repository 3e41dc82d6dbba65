"""The guard that a TPU is created with: it is set, however bad the moment, or shown as missing."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_parts import core_of
from waiting import eventually

from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.core.operation_records import Creation, GuardSetting, NodeClaim
from jupyter_tpu.fleet.core.operation_runner import OperationRunner
from jupyter_tpu.fleet.core.state_folder import ProcessLease
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.core.view import TPUFacts, view_tpu
from jupyter_tpu.fleet.jobs import guard_setting as guard_module
from jupyter_tpu.fleet.jobs.guard import (
    SERVER_SIDE_GRACE,
    guard_rule,
    limit_passed,
    server_side_limit,
)
from jupyter_tpu.fleet.jobs.guard_setting import GuardService
from jupyter_tpu.fleet.models import Cost, CreateTPU, Guard, Operation, Problem, SetGuard
from jupyter_tpu.fleet.models.core import timestamp

NAME = NodeName("p", "us-west4-a", "my-tpu")
NOW = 1_700_000_000.0
WHERE: dict[str, Any] = {"node_id": "7", "hosts": 1, "tier": "on-demand"}


def rule(request: SetGuard, cost: Cost, *, late: bool = True) -> dict[str, Any]:
    return guard_rule(request, NAME, cost, NOW, late=late, **WHERE)


@pytest.mark.parametrize(
    ("request_", "cost"),
    [
        (SetGuard(until=timestamp("seconds", at=NOW - 60)), Cost()),
        (SetGuard(max_cost=20.0), Cost(usd_per_hour=12.0, usd=36.0)),
    ],
)
@pytest.mark.parametrize(("ready_for", "notice"), [(0.0, 0.0), (40.0, 40.0), (9000.0, 300.0)])
def test_a_limit_that_has_passed_is_due_at_once(request_, cost, ready_for, notice):
    cost.since = timestamp("seconds", at=NOW - ready_for)
    assert limit_passed(request_, cost, NOW)
    made = rule(request_, cost)
    assert min(filter(None, (made["until"], made["cost_until"]))) <= NOW
    assert made["notice"] == notice, "who has had it for a moment has nothing to save"
    with pytest.raises(InvalidInput):
        rule(request_, cost, late=False)


class Guards:
    """Sets guards, unless there is something *wrong* with their host."""

    act: object
    awaited: object

    def __init__(self, wrong: TPUError | None = None, *, overdue: bool = False) -> None:
        self.wrong = wrong
        self.late = overdue
        self.asked: list[SetGuard] = []

    async def set_at_creation(self, name: NodeName, request: SetGuard) -> Guard:
        self.asked.append(request)
        if self.wrong is not None and not (self.wrong.field == "max_cost" and not request.max_cost):
            raise self.wrong
        return Guard(action=request.action)

    def overdue(self, name: NodeName, request: SetGuard) -> str:
        return "cost" if self.late and request.max_cost else ""


class Process:
    """One that follows TPUs which were created."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.observed = ObservedState()
        self.observed.nodes[NAME] = Node(name=NAME, id="7", type="v4-8", state=NodeState.READY)
        self.lease = ProcessLease(folder / "owners")
        self.runner = OperationRunner(store, self.lease)
        self.acted: list[str] = []
        cloud = SimpleNamespace(get_node=self._get)
        core = core_of(cloud=cloud, observed=self.observed, runner=self.runner)
        self.service = GuardService(core, Guards())
        self.guards = Guards()

    @property
    def guards(self) -> Guards:
        return self._guards

    @guards.setter
    def guards(self, guards: Guards) -> None:
        self._guards = self.service._guards = guards
        guards.act = self._act

    async def _get(self, name: NodeName) -> Node:
        raise TPUError("There is no such TPU.", Reason.NOT_FOUND)

    async def _act(self, name: NodeName, action: str, reason: str) -> Operation:
        assert reason == "cost"
        self.acted.append(action)

        async def stop(_: object) -> None:
            self.become(NodeState.STOPPED)

        return await self.runner.start(self.runner.new_record("stop", NAME), stop)

    def become(self, state: NodeState) -> None:
        self.observed.nodes[NAME] = Node(name=NAME, id="7", type="v4-8", state=state)

    def follow(self, request: SetGuard) -> None:
        self.service.follow(NAME, request, "7")

    @property
    def operation(self) -> Operation:
        return next(operation for operation in self.runner.known.all() if operation.kind == "guard")

    def shown(self) -> Problem | None:
        """What the TPU says."""
        node = self.observed.node(NAME)
        assert node is not None
        return view_tpu(
            TPUFacts(
                name=NAME,
                node=node,
                operations=self.runner.known.on(NAME),
                unguarded=self.service.problem(NAME),
            )
        ).problem


@pytest.fixture
def process(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setattr(guard_module, "PAUSES", itertools.repeat(0.0))
    process = Process(store, tmp_path)
    yield process
    process.lease.close()


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.INVALID])
async def test_a_guard_that_can_not_be_set_now_is_retried_and_shown_on_the_tpu(process, reason):
    process.guards = Guards(TPUError("It is repaired.", reason, "Wait."))
    process.follow(SetGuard(idle=7200.0))
    await eventually(lambda: len(process.guards.asked) > 5)
    problem = process.shown()
    assert problem.message == "The guard of my-tpu is not set yet: It is repaired."
    assert problem.hint == "Wait. Will be retried."
    process.guards.wrong = None
    assert (await process.runner.wait(process.operation.id)).state == "done"
    assert process.shown() is None


async def test_a_cost_limit_that_can_not_be_set_yet_keeps_no_other_limit_waiting(process):
    process.guards = Guards(InvalidInput("The price is not known.", field="max_cost"))
    process.follow(SetGuard(idle=7200.0, max_cost=20.0))
    await eventually(lambda: process.shown())
    process.guards.wrong = None
    assert (await process.runner.wait(process.operation.id)).state == "done"
    limits = [(rule.idle, rule.max_cost) for rule in process.guards.asked]
    assert limits[:2] == [(7200.0, 20.0), (7200.0, None)]
    assert limits[-1] == (7200.0, 20.0)


@pytest.mark.parametrize("idle", [None, 7200.0])
async def test_where_the_host_can_not_be_reached_a_limit_that_has_passed_is_kept_by_the_server(
    process, idle
):
    process.guards = Guards(TPUError("The link is down.", Reason.UNREACHABLE), overdue=True)
    process.follow(SetGuard(max_cost=20.0, idle=idle))
    await eventually(lambda: process.observed.nodes[NAME].state is NodeState.STOPPED)
    if idle is not None:  # it counts when someone has started the TPU again; the other is over
        process.guards.wrong = None
        process.become(NodeState.READY)
    assert (await process.runner.wait(process.operation.id)).state == "done"
    assert process.acted == ["stop"]
    assert process.guards.asked[1:] == ([] if idle is None else [SetGuard(idle=7200.0)])


@pytest.mark.parametrize("end", ["deleted", "preempted", "another"])
async def test_it_ends_with_its_tpu(process, end):
    process.guards = Guards(TPUError("No login.", Reason.NO_CREDENTIALS))
    process.follow(SetGuard(idle=7200.0))
    await eventually(lambda: process.shown())
    if end == "preempted":
        process.become(NodeState.PREEMPTED)
    elif end == "another":
        process.observed.nodes[NAME] = Node(name=NAME, id="8", type="v4-8", state=NodeState.READY)
    else:
        del process.observed.nodes[NAME]
    assert (await process.runner.wait(process.operation.id)).state == "done"
    assert process.operation.log[-1] == "my-tpu is gone: it needs no guard"


async def test_another_guard_that_a_user_chooses_takes_its_place(process):
    process.guards = Guards(TPUError("No login.", Reason.NO_CREDENTIALS))
    process.follow(SetGuard(idle=7200.0))
    await eventually(lambda: process.shown())
    await process.service.supersede(NAME)
    assert process.operation.state == "cancelled"
    assert process.shown() is None


@pytest.mark.parametrize("kind", ["guard", "create"])
async def test_a_command_that_has_ended_before_the_guard_was_set_is_named_on_the_tpu(
    process, store, tmp_path, kind
):
    ended = Process(store, tmp_path)
    create = CreateTPU(name="my-tpu", type="v4-8", guard=SetGuard(idle=7200.0))
    assert create.guard is not None
    record = ended.runner.new_record(
        kind,
        NAME,
        Creation(request=create, claim=NodeClaim(want="present", since=0.0))
        if kind == "create"
        else GuardSetting(request=create.guard, node_id="7"),
    )
    await ended.runner.save(record)
    process.runner.load([record], {})
    if kind == "guard":
        assert process.shown() is not None, "it is not set yet"
    assert "has ended" not in str(process.shown())
    ended.lease.close()
    problem = process.shown()
    assert problem.message.startswith("my-tpu has no guard yet. The command that should set it")
    assert "jupyter tpu guard set my-tpu" in problem.hint
    await process.service.supersede(NAME)
    saved = await store.refresh() or store.snapshot
    process.runner.load(saved.operations, saved.requests)
    assert process.shown() is None, "the user has chosen another one"


@pytest.mark.parametrize(
    ("request_", "hours"),
    [
        (SetGuard(until=timestamp("seconds", at=NOW + 7200)), 2.0),
        (SetGuard(max_cost=6.0), 3.0),
        (SetGuard(max_cost=6.0, until=timestamp("seconds", at=NOW + 3600)), 1.0),
        (SetGuard(until=timestamp("seconds", at=NOW - 60)), 0.0),
    ],
)
def test_google_deletes_a_new_tpu_a_while_after_its_guard_should_have(request_, hours):
    limit = server_side_limit(request_, Cost(usd_per_hour=2.0), NOW)
    assert limit == pytest.approx(hours * 3600 + SERVER_SIDE_GRACE)


def test_a_guard_of_idle_time_only_is_none_of_googles():
    assert server_side_limit(SetGuard(idle=3600.0), Cost(usd_per_hour=2.0), NOW) == 0
