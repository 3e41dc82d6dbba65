"""Operations that need no TPU: run, told, cancelled, found again, forgotten after a while."""

import asyncio

from refusals import raises

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.models import Change
from jupyter_tpu.fleet.reconcile.operations import LocalOperations


async def finds(progress: OperationProgress) -> None:
    progress.log("a line")
    progress.operation.result = {"answer": 42}


async def waits(progress: OperationProgress) -> None:
    await asyncio.Event().wait()


async def test_what_is_found_is_the_operations_result_and_told():
    operations = await LocalOperations.open()
    told: list[Change] = []
    operations.subscribe(told.append)
    started = await operations.start("compile", finds, "Waiting")
    assert (started.tpu, started.zone, started.message) == ("", "", "Waiting")
    ended = await operations.wait(started.id)
    assert (ended.state, ended.result, ended.log) == ("done", {"answer": 42}, ["a line"])
    assert (await operations.list()) == [ended]
    operations._changes.flush()
    assert told[-1].operation == ended
    await operations.close()


async def test_one_that_fails_says_why_and_one_that_is_cancelled_ends():
    operations = await LocalOperations.open()

    async def fails(progress: OperationProgress) -> None:
        raise TPUError("No.", Reason.TIMEOUT, "Wait.")

    failed = await operations.wait((await operations.start("compile", fails)).id)
    assert (failed.state, failed.problem.reason) == ("failed", Reason.TIMEOUT)
    cancelled = await operations.cancel((await operations.start("compile", waits)).id)
    assert cancelled.state == "cancelled"
    running = await operations.start("compile", waits)
    await operations.close()
    assert running.state == "running"  # with the process it is gone: nobody asks any more


async def test_old_ones_are_forgotten_and_that_is_told():
    operations = await LocalOperations.open(keep=2)
    told: list[Change] = []
    operations.subscribe(told.append)
    ids = []
    for _ in range(4):
        ids.append((await operations.start("compile", finds)).id)
        await operations.wait(ids[-1])
        operations._changes.flush()
    assert [operation.id for operation in await operations.list()] == [ids[3], ids[2]]
    assert [await operations.has(id) for id in ids] == [False, False, True, True]
    assert [change.id for change in told if change.gone] == ids[:2]
    with raises(Reason.NOT_FOUND):
        await operations.get(ids[0])
    await operations.close()


async def test_the_next_process_finds_what_was_found_and_says_what_was_interrupted(tmp_path):
    path = tmp_path / "local.sqlite"
    first = await LocalOperations.open(path)
    done = await first.wait((await first.start("compile", finds)).id)
    running = await first.start("compile", waits)
    await first.close()

    second = await LocalOperations.open(path)
    assert await second.get(done.id) == done
    assert await second.has(running.id)
    interrupted = await second.get(running.id)
    assert (interrupted.state, interrupted.problem.reason) == ("failed", Reason.INTERRUPTED)
    assert "Send the program again" in interrupted.problem.hint
    assert await second.cancel(running.id) == interrupted  # it has ended
    await second.close()

    third = await LocalOperations.open(path)
    assert {o.id: o for o in (await third.list())} == {done.id: done, running.id: interrupted}
    await third.close()


async def test_another_living_process_keeps_its_own_until_it_ends(tmp_path):
    mine, other = [await LocalOperations.open(tmp_path / "o.sqlite") for _ in range(2)]
    done = await other.wait((await other.start("compile", finds)).id)
    running = await other.start("compile", waits)
    assert not await mine.has(done.id)
    assert (await mine.list()) == []
    assert running.state == "running"
    await other.close()
    assert await mine.has(done.id)
    assert {o.id: o.state for o in (await mine.list())} == {done.id: "done", running.id: "failed"}
    await mine.close()


async def test_where_nothing_can_be_written_they_still_run(tmp_path, caplog):
    path = tmp_path / "local.sqlite"
    path.write_bytes(b"this is no database, but it is long enough" * 30)
    operations = await LocalOperations.open(path)
    assert "lost when the server ends" in caplog.text
    assert (await operations.wait((await operations.start("compile", finds)).id)).state == "done"
    await operations.close()
