"""Creations, deletions and their cancelling when the cloud's API loses answers, refuses or is
silent, and when servers end in between: what is said is what is true at the cloud.
"""

import contextlib
import time

import pytest
from fleet_world import ZONE, Server, others
from msgspec import structs
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.agents import budgets
from jupyter_tpu.fleet.models import (
    TPU,
    Budget,
    CarryOutPlan,
    CreateTPU,
    Guard,
    KeepTPU,
    ListQuery,
    Operation,
    PlanTPU,
    Problem,
    Spending,
    StopTrying,
)
from jupyter_tpu.fleet.models.core import seconds_of
from jupyter_tpu.fleet.money.ledger import NOTICE_SECONDS


@pytest.mark.parametrize(
    "refusal",
    [
        "refuse-delete",
        "PERMISSION_DENIED",
        *others("INTERNAL", "ABORTED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"),
    ],
)
async def test_a_cancel_goes_on_until_the_tpu_is_gone_and_says_what_stands_in_its_way(
    world, faults, name, refusal
):
    server = await world.server()
    faults(kind="slow", seconds=30, zone=ZONE, count=1)
    if refusal == "refuse-delete":
        faults(kind=refusal, zone=ZONE)
    else:
        faults(kind="error", method="DeleteNode", code=refusal, message="No, not now.")
    operation = await server.create(name)
    await eventually(lambda: world.state(name) == "CREATING")
    await server.fleet.operations.cancel(operation.id)
    shown = lambda: server.fleet._core.tpus.tpu(NodeName("emulated", ZONE, name)).problem  # noqa: E731
    await eventually(lambda: shown() is not None)
    assert "is not deleted yet" in shown().message
    if refusal == "PERMISSION_DENIED":
        assert shown().retry_after >= 5, "people are told when it is tried again"
    world.emulator.request("DELETE", "/emulator/v1/faults")
    ended = await server.end(operation)
    assert (ended.state, world.state(name)) == ("cancelled", "gone")


async def test_a_deletion_that_was_refused_is_shown_for_as_long_as_the_tpu_is_there(
    world, faults, name
):
    first = await world.server()
    await first.end(await first.create(name))
    faults(kind="error", method="DeleteNode", code="PERMISSION_DENIED", message="You may not.")
    ended = await first.end(await first.fleet.delete(name))
    assert (ended.state, world.state(name)) == ("failed", "READY")

    async def problem(server: Server) -> Problem | None:
        return next(tpu.problem for tpu in (await server.fleet.tpus()).tpus if tpu.name == name)

    shown = await problem(first)
    assert shown.message == f"{name} was not deleted. You may not."
    assert shown.reason is Reason.PERMISSION
    await world.stop(first)
    second = await world.server()
    assert await problem(second) == shown
    world.emulator.request("DELETE", "/emulator/v1/faults")
    await second.end(await second.fleet.delete(name))
    assert name not in [tpu.name for tpu in (await second.fleet.tpus()).tpus]


async def test_a_list_that_lacks_a_tpu_once_gives_no_money_of_the_budget_away(world, faults, name):
    server = await world.server()
    me = (await server.fleet.budgets.show()).me
    await server.fleet.budgets.set(Budget(who=me, total=1.0))

    async def plan(name: str) -> Operation:
        tpu = CreateTPU(name=name, type="v5litepod-1", zone=ZONE)
        plan = await server.fleet.plans.make(PlanTPU(tpu=tpu, max_cost=0.8))
        done = await server.fleet.plans.carry_out(plan.id, CarryOutPlan())
        return await server.fleet.operations.get(done.operation)

    await server.end(await plan(name))
    lag = faults(kind="unlisted", node=name, count=2)
    for _ in range(2):
        listed = await server.fleet.tpus(ListQuery(fresh=True))
        await server.fleet._core.observer.refresh()
    await world.used(lag)
    assert name in [tpu.name for tpu in listed.tpus]
    overview = await server.fleet.budgets.show()
    assert (overview.spending[0].state, overview.budgets[0].committed) == (
        "ready",
        pytest.approx(0.8, abs=0.01),
    )
    with pytest.raises(TPUError, match=r"the budget of .* has \$0\.20 left"):
        await plan(f"{name}-2")
    world.remove(name)
    await server.fleet._core.observer.refresh()
    overview = await server.fleet.budgets.show()
    assert (overview.spending[0].state, overview.budgets[0].committed) == ("ended", 0.0)


@pytest.mark.long
async def test_a_guard_that_is_put_off_on_another_computer_is_asked_before_a_server_deletes(
    world, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(budgets, "LOOK_SECONDS", 0.5)
    other = tmp_path / "elsewhere"
    other.mkdir()
    here, elsewhere = await world.server(), await world.server(other)
    me = (await here.fleet.budgets.show()).me
    await here.fleet.budgets.set(Budget(who=me, total=3.0))
    tpu = CreateTPU(name=name, type="v5litepod-1", zone=ZONE)  # $1.20 an hour
    plan = await here.fleet.plans.make(PlanTPU(tpu=tpu, max_cost=0.8))
    done = await here.fleet.plans.carry_out(plan.id, CarryOutPlan())
    await here.end(await here.fleet.operations.get(done.operation))

    async def keep(hours: float) -> Guard | None:
        with contextlib.suppress(TPUError):  # it is being set
            return await elsewhere.fleet.guards.keep(name, KeepTPU(seconds=hours * 3600))
        return None

    async def end_now() -> Spending:
        """The ledger's time has come; what the ledger has when it has asked the guard."""
        ledger = here.fleet.guards._ledger
        [line] = ledger._open()
        passed = structs.replace(line, ends=time.time() - 200)
        ledger._save(passed)
        await eventually(lambda: ledger._lines[line.id].ends != passed.ends)
        return (await here.fleet.budgets.show()).spending[0]

    kept = await eventually(lambda: keep(1.5), 60)
    line = await end_now()
    assert (line.ends, line.shortened) == (kept.ends, False)
    assert line.most == pytest.approx(1.8, abs=0.1)
    # What the budget does not cover ends, but not without a notice.
    await eventually(lambda: keep(10.0))
    line = await end_now()
    assert line.shortened
    assert seconds_of(line.ends, "ends") == pytest.approx(time.time() + NOTICE_SECONDS, abs=20)
    guard = await eventually(lambda: _guard_until(here, name, line.ends))
    assert seconds_of(guard.ends, "ends") < time.time() + NOTICE_SECONDS + 60
    assert world.state(name) == "READY"


async def _guard_until(server: Server, name: str, until: str) -> Guard | None:
    guard = await server.fleet.guards.get(name)
    return guard if guard.until == until and guard.ends else None


@pytest.mark.parametrize("kind", ["delete", "cancel"])
async def test_what_google_never_deletes_is_reported_and_tried_until_somebody_ends_that(
    world, faults, name, kind
):
    first, second = await world.server(), await world.server()
    faults(kind="error", method="DeleteNode", code="FAILED_PRECONDITION", message="It has disks.")
    operation = await first.create(name)
    with pytest.raises(TPUError, match="is not refusing"):
        await first.fleet.operations.stop_trying(operation.id, StopTrying(keep_tpu=True))
    if kind == "delete":
        await first.end(operation)
        operation = await first.fleet.delete(name)
    else:
        await eventually(lambda: world.state(name) != "gone")
        await first.fleet.operations.cancel(operation.id)

    async def refused(server: Server) -> Operation | None:
        shown = await server.fleet.operations.get(operation.id)
        return shown if shown.undeleted == "retrying" else None

    async def shown(server: Server) -> TPU:
        return next(tpu for tpu in (await server.fleet.tpus()).tpus if tpu.name == name)

    for server in (first, second):
        shown_operation = await eventually(lambda server=server: refused(server))
        assert shown_operation.state == "running"
        problem = shown_operation.problem
        assert "It has disks." in problem.message
        assert problem.message.startswith(f"{name} is not deleted yet.")
        assert (await shown(server)).problem == problem
    with raises(Reason.STILL_BILLED, f"{name} will not be deleted"):
        await second.fleet.operations.stop_trying(operation.id)
    # Asked of the server that does not run it.
    await second.fleet.operations.stop_trying(operation.id, StopTrying(keep_tpu=True))
    ended = await second.ended(operation.id)
    assert (ended.state, ended.undeleted) == ("failed", "kept")
    assert "Trying to delete it was stopped. It has disks." in ended.problem.message
    assert world.state(name) in ended.problem.message
    for server in (first, second):
        problem = (await shown(server)).problem
        assert problem.message.startswith(f"{name} was not deleted.")
    world.emulator.request("DELETE", "/emulator/v1/faults")
    assert (await first.end(await first.fleet.delete(name))).state == "done"


@pytest.mark.parametrize("act", ["stop", *others("connect")])
async def test_the_next_server_goes_on_only_with_the_tpu_that_was_meant(world, faults, name, act):
    first = await world.server()
    await first.end(await first.create(name))
    faults(kind="error", method="GetNode", code="UNAVAILABLE")  # so that it does not get far
    operation = await (first.fleet.stop(name) if act == "stop" else first.fleet.connect(name))
    await world.stop(first)
    world.remove(name)
    world.emulator.request("DELETE", "/emulator/v1/faults")
    world.emulator.create(name, "v5litepod-1", ZONE)
    second = await world.server()
    ended = await second.ended(operation.id)
    assert (ended.state, world.state(name)) == ("failed", "READY")
    assert "A new TPU has the same name" in ended.problem.message


async def test_what_google_has_begun_to_stop_or_delete_can_not_be_cancelled(world, faults, name):
    server = await world.server()
    await server.end(await server.create(name))
    faults(kind="slow", seconds=2, zone=ZONE, count=1)
    operation = await server.fleet.delete(name)
    assert not operation.cancellable
    with pytest.raises(TPUError, match="can't be cancelled"):
        await server.fleet.operations.cancel(operation.id)
    assert (await server.end(operation)).state == "done"
