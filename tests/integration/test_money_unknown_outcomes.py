"""Creations, deletions and their cancelling when the cloud's API loses answers, refuses or is
silent, and when servers end in between: what is said is what is true at the cloud.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from fleet_world import ZONE, Server, World, others
from msgspec import structs
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.agents import budgets
from jupyter_tpu.fleet.core.operation_records import NodeClaim
from jupyter_tpu.fleet.lifecycle import provisioning
from jupyter_tpu.fleet.models import (
    TPU,
    Budget,
    CarryOutPlan,
    ConnectTPU,
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


@pytest.mark.asyncio
@pytest.mark.parametrize("code", ["UNAVAILABLE", *others("DEADLINE_EXCEEDED", "INTERNAL")])
async def test_a_create_whose_answer_is_lost_is_done(
    world: World, faults: Any, name: str, code: str
) -> None:
    server = await world.server()
    faults(kind="lost-answer", method="CreateNode", code=code, count=1)
    ended = await server.end(await server.create(name))
    assert (ended.state, world.state(name)) == ("done", "READY")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "code", ["UNAUTHENTICATED", *others("PERMISSION_DENIED", "NOT_FOUND", "ABORTED", "INTERNAL")]
)
async def test_an_error_while_an_operation_is_polled_is_not_its_end(
    world: World, faults: Any, name: str, code: str
) -> None:
    server = await world.server()
    faults(kind="error", method="GetOperation", code=code, count=1)
    ended = await server.end(await server.create(name))
    assert (ended.state, world.state(name)) == ("done", "READY")
    faults(kind="error", method="GetOperation", code=code, count=1)
    ended = await server.end(await server.fleet.stop(name))
    assert (ended.state, world.state(name)) == ("done", "STOPPED")
    faults(kind="error", method="GetOperation", code=code, count=1)
    ended = await server.end(await server.fleet.start(name))
    assert (ended.state, world.state(name)) == ("done", "READY")
    faults(kind="error", method="GetOperation", code=code, count=1)
    ended = await server.end(await server.fleet.delete(name))
    assert (ended.state, world.state(name)) == ("done", "gone")


@pytest.mark.asyncio
async def test_a_create_that_is_cancelled_while_google_has_not_answered_leaves_nothing(
    world: World, faults: Any, name: str
) -> None:
    server = await world.server()
    faults(kind="silent", method="CreateNode", seconds=4, count=1)
    operation = await server.create(name)
    await eventually(lambda: _claim(server, name).sent)
    cancelled = await server.fleet.operations.cancel(operation.id)
    assert cancelled.state == "running", "Google may still create it"
    ended = await server.end(operation)
    assert (ended.state, world.state(name)) == ("cancelled", "gone")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "refusal",
    [
        "refuse-delete",
        "PERMISSION_DENIED",
        *others("INTERNAL", "ABORTED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"),
    ],
)
async def test_a_cancel_goes_on_until_the_tpu_is_gone_and_says_what_stands_in_its_way(
    world: World, faults: Any, name: str, refusal: str
) -> None:
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


@pytest.mark.asyncio
async def test_a_deletion_that_was_refused_is_shown_for_as_long_as_the_tpu_is_there(
    world: World, faults: Any, name: str
) -> None:
    first = await world.server()
    await first.end(await first.create(name))
    faults(kind="error", method="DeleteNode", code="PERMISSION_DENIED", message="You may not.")
    ended = await first.end(await first.fleet.delete(name))
    assert (ended.state, world.state(name)) == ("failed", "READY")

    async def problem(server: Server) -> Problem | None:
        return next(tpu.problem for tpu in (await server.fleet.tpus()).tpus if tpu.name == name)

    shown = await problem(first)
    assert shown is not None
    assert shown.message == f"{name} was not deleted. You may not."
    assert shown.reason is Reason.PERMISSION
    await world.stop(first)
    second = await world.server()
    assert await problem(second) == shown
    world.emulator.request("DELETE", "/emulator/v1/faults")
    await second.end(await second.fleet.delete(name))
    assert name not in [tpu.name for tpu in (await second.fleet.tpus()).tpus]


@pytest.mark.asyncio
async def test_a_list_that_lacks_a_tpu_once_gives_no_money_of_the_budget_away(
    world: World, faults: Any, name: str
) -> None:
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


@pytest.mark.asyncio
@pytest.mark.long
async def test_a_guard_that_is_put_off_on_another_computer_is_asked_before_a_server_deletes(
    world: World, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["delete", "cancel"])
async def test_what_google_never_deletes_is_reported_and_tried_until_somebody_ends_that(
    world: World, faults: Any, name: str, kind: str
) -> None:
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
        assert problem is not None
        assert "It has disks." in problem.message
        assert problem.message.startswith(f"{name} is not deleted yet.")
        assert (await shown(server)).problem == problem
    with pytest.raises(TPUError, match=f"{name} will not be deleted") as caught:
        await second.fleet.operations.stop_trying(operation.id)
    assert caught.value.reason is Reason.STILL_BILLED
    # Asked of the server that does not run it.
    await second.fleet.operations.stop_trying(operation.id, StopTrying(keep_tpu=True))
    ended = await second.ended(operation.id)
    assert (ended.state, ended.undeleted) == ("failed", "kept")
    assert ended.problem is not None
    assert "Trying to delete it was stopped. It has disks." in ended.problem.message
    assert world.state(name) in ended.problem.message
    for server in (first, second):
        problem = (await shown(server)).problem
        assert problem is not None
        assert problem.message.startswith(f"{name} was not deleted.")
    world.emulator.request("DELETE", "/emulator/v1/faults")
    assert (await first.end(await first.fleet.delete(name))).state == "done"


@pytest.mark.asyncio
async def test_the_next_server_goes_on_deleting_what_was_cancelled(
    world: World, faults: Any, name: str
) -> None:
    first = await world.server()
    faults(kind="error", method="DeleteNode", code="UNAVAILABLE")
    operation = await first.create(name)
    await eventually(lambda: world.state(name) == "CREATING" or world.state(name) == "READY")
    await first.fleet.operations.cancel(operation.id)
    await world.stop(first)
    assert world.state(name) != "gone"
    second = await world.server()
    world.emulator.request("DELETE", "/emulator/v1/faults")
    ended = await second.ended(operation.id)
    assert (ended.state, world.state(name)) == ("cancelled", "gone")


@pytest.mark.asyncio
async def test_the_next_server_finishes_a_create_whose_answer_was_lost(
    world: World, faults: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provisioning, "SETTLE_SECONDS", 3.0)
    first = await world.server()
    silent = faults(kind="silent", method="CreateNode", count=1)
    operation = await first.create(name)
    await eventually(lambda: _claim(first, name).sent)
    await world.used(silent)
    await world.stop(first)  # the call is given up, and was not carried out
    second = await world.server()
    assert (await second.fleet.operations.get(operation.id)).state == "running"
    ended = await second.ended(operation.id)
    assert (ended.state, world.state(name)) == ("done", "READY")


@pytest.mark.asyncio
@pytest.mark.long
async def test_an_api_that_is_silent_for_minutes_makes_nothing_fail(
    world: World, faults: Any, name: str
) -> None:
    server = await world.server()
    faults(kind="lost-answer", method="CreateNode", code="DEADLINE_EXCEEDED", count=1)
    request = CreateTPU(name=name, type="v5litepod-1", zone=ZONE, connect=ConnectTPU())
    operation = await server.fleet.create(request)
    await eventually(lambda: world.state(name) != "gone")
    silence = faults(kind="silent", zone=ZONE)
    await asyncio.sleep(340)
    assert (await server.fleet.operations.get(operation.id)).state == "running"
    world.emulator.request("DELETE", f"/emulator/v1/faults/{silence['id']}")
    assert (await server.end(operation)).state == "done"
    [connect] = [o for o in await server.fleet.operations.list() if o.kind == "connect"]
    assert connect.state == "running"
    await server.fleet.operations.cancel(connect.id)


@pytest.mark.asyncio
async def test_a_resumed_create_takes_nobody_elses_tpu(
    world: World, faults: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provisioning, "SETTLE_SECONDS", 2.0)
    first = await world.server()
    silent = faults(kind="silent", method="CreateNode", count=1)
    operation = await first.create(name)
    await eventually(lambda: _claim(first, name).sent)
    await world.used(silent)
    await world.stop(first)  # Google has not heard of it
    theirs = world.emulator.create(name, "v5litepod-4", ZONE)
    second = await world.server()
    ended = await second.ended(operation.id)
    assert ended.problem is not None
    assert (ended.state, ended.problem.reason) == ("failed", Reason.EXISTS)
    node = world.node(name)
    assert node is not None
    assert (node["id"], node["state"]) == (theirs["id"], "READY")


@pytest.mark.asyncio
@pytest.mark.parametrize("act", ["stop", *others("connect")])
async def test_the_next_server_goes_on_only_with_the_tpu_that_was_meant(
    world: World, faults: Any, name: str, act: str
) -> None:
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
    assert ended.problem is not None
    assert (ended.state, world.state(name)) == ("failed", "READY")
    assert "A new TPU has the same name" in ended.problem.message


@pytest.mark.asyncio
async def test_another_living_server_takes_over_when_one_ends(world: World, name: str) -> None:
    first, second = await world.server(), await world.server()
    operation = await first.create(name)
    await eventually(lambda: world.state(name) != "gone")
    await world.stop(first)
    ended = await second.ended(operation.id)
    assert (ended.state, world.state(name)) == ("done", "READY")


@pytest.mark.asyncio
async def test_a_delete_that_was_accepted_is_carried_out_by_the_next_server(
    world: World, faults: Any, name: str
) -> None:
    first = await world.server()
    await first.end(await first.create(name))
    faults(kind="error", method="GetNode", code="UNAVAILABLE")  # so that it does not get far
    operation = await first.fleet.delete(name)
    await world.stop(first)
    assert world.state(name) == "READY"
    world.emulator.request("DELETE", "/emulator/v1/faults")
    second = await world.server()
    ended = await second.ended(operation.id)
    assert (ended.state, world.state(name)) == ("done", "gone")


@pytest.mark.asyncio
async def test_a_delete_that_is_refused_has_failed_and_one_in_conflict_is_tried_again(
    world: World, faults: Any, name: str
) -> None:
    server = await world.server()
    await server.end(await server.create(name))
    faults(kind="error", method="DeleteNode", code="PERMISSION_DENIED", count=1)
    ended = await server.end(await server.fleet.delete(name))
    assert ended.state == "failed"
    assert ended.problem is not None
    assert (ended.problem.reason, world.state(name)) == (Reason.PERMISSION, "READY")
    faults(kind="error", method="DeleteNode", code="ABORTED", count=2)
    ended = await server.end(await server.fleet.delete(name))
    assert (ended.state, world.state(name)) == ("done", "gone")


@pytest.mark.asyncio
async def test_cancelling_a_create_leaves_a_tpu_of_the_name_that_somebody_else_created(
    world: World, faults: Any, name: str
) -> None:
    server = await world.server()
    # Nobody has the name when it is asked for, and somebody does when Google hears of it.
    silent = faults(kind="silent", method="CreateNode", count=1)
    operation = await server.create(name)
    await eventually(lambda: _claim(server, name).sent)
    await world.used(silent)  # or the other one's call would be hit
    theirs = world.emulator.create(name, "v5litepod-4", ZONE)
    world.emulator.request("DELETE", f"/emulator/v1/faults/{silent['id']}")
    await server.fleet.operations.cancel(operation.id)
    ended = await server.end(operation)
    assert ended.state == "cancelled"
    node = world.node(name)
    assert node is not None
    assert node["id"] == theirs["id"]


@pytest.mark.asyncio
async def test_a_delete_leaves_a_new_tpu_that_someone_else_created_under_the_name(
    world: World, faults: Any, name: str
) -> None:
    server = await world.server()
    await server.end(await server.create(name))
    held = faults(kind="error", method="GetNode", code="UNAVAILABLE")
    operation = await server.fleet.delete(name)
    world.remove(name)
    world.emulator.request("DELETE", f"/emulator/v1/faults/{held['id']}")
    theirs = world.emulator.create(name, "v5litepod-1", ZONE)
    ended = await server.end(operation)
    assert ended.state == "done", "the one that was meant is gone"
    node = world.node(name)
    assert node is not None
    assert node["id"] == theirs["id"]


@pytest.mark.asyncio
async def test_what_google_has_begun_to_stop_or_delete_can_not_be_cancelled(
    world: World, faults: Any, name: str
) -> None:
    server = await world.server()
    await server.end(await server.create(name))
    faults(kind="slow", seconds=2, zone=ZONE, count=1)
    operation = await server.fleet.delete(name)
    assert not operation.cancellable
    with pytest.raises(TPUError, match="can't be cancelled"):
        await server.fleet.operations.cancel(operation.id)
    assert (await server.end(operation)).state == "done"


def _claim(server: Server, name: str) -> NodeClaim:
    runner = server.fleet._core.runner
    [record] = runner.known.running_on(NodeName("emulated", ZONE, name))
    assert record.claim is not None
    return record.claim
