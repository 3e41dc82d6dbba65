"""What faces see of an operation: steps, progress, log, and no more events than needed."""

import asyncio

from jupyter_tpu.fleet.core.changes import ChangeFeed
from jupyter_tpu.fleet.core.known_operations import LOG_LINES, OperationProgress
from jupyter_tpu.fleet.models import Change, Operation
from jupyter_tpu.progress import StepPlan

STEPS = [StepPlan("a", "First", 1), StepPlan("b", "Second", 3)]


def new_progress(measured: bool = True) -> OperationProgress:
    progress = OperationProgress(Operation(id="1", kind="connect", tpu="t"), lambda: None)
    progress.plan(STEPS, hosts=2, measured=measured)
    return progress


def test_progress_is_the_weighted_sum_of_the_steps_and_never_goes_back():
    progress = new_progress()
    progress.begin("a")
    progress.done("a")
    assert progress.operation.progress == 0.25
    progress.begin("b")
    progress.part("b", 0.5)
    progress.part("b", 0.2)
    assert progress.operation.progress == 0.625
    assert progress.operation.message == "Second"


def test_progress_that_nobody_knows_is_not_invented():
    progress = new_progress(measured=False)
    progress.begin("a")
    progress.done("a")
    assert progress.operation.progress is None


def test_the_step_that_runs_is_the_one_that_failed():
    progress = new_progress()
    progress.begin("a")
    progress.host_done("a")
    progress.fail()
    assert [step.state for step in progress.operation.steps] == ["failed", "waiting"]
    assert (progress.operation.steps[0].hosts_done, progress.operation.steps[0].hosts) == (1, 2)


def test_a_step_that_begins_again_counts_its_hosts_again():
    """JAX is checked a second time where hosts had other versions."""
    progress = new_progress()
    for _ in range(2):
        progress.begin("a")
        progress.host_done("a")
        progress.host_done("a")
    assert (progress.operation.steps[0].hosts_done, progress.operation.steps[0].hosts) == (2, 2)


def test_the_log_keeps_its_last_lines_without_control_characters():
    progress = new_progress()
    for number in range(LOG_LINES + 10):
        progress.log(f"line {number}\x1b[31m\r\n")
    assert len(progress.operation.log) == LOG_LINES
    assert progress.operation.log[-1] == f"line {LOG_LINES + 9}[31m"


async def test_a_thousand_log_lines_make_few_events_and_the_last_is_told():
    operation = Operation(id="1", kind="connect", tpu="t")
    told: list[int] = []
    changes = ChangeFeed(interval=0.02)
    changes.register("operation", lambda id: operation)
    complete = asyncio.Event()

    def tell(change: Change) -> None:
        told.append(len(operation.log))
        if told[-1] == 1000:
            complete.set()

    changes.subscribe(tell)
    for number in range(1000):
        operation.log.append(str(number))
        changes.mark_changed("operation", "1")
        if number % 100 == 0:
            await asyncio.sleep(0)
    await asyncio.wait_for(complete.wait(), 60)
    assert len(told) < 20


async def test_what_did_not_change_is_not_told_and_what_is_gone_is_told_once():
    there = True
    told: list[bool] = []
    changes = ChangeFeed(interval=60)
    changes.register("operation", lambda id: Operation(id=id, kind="connect") if there else None)
    unsubscribe = changes.subscribe(lambda change: told.append(change.gone))
    for _ in range(3):
        changes.mark_changed("operation", "1")
        changes.flush()
    there = False
    for _ in range(3):
        changes.mark_changed("operation", "1")
        changes.flush()
    assert told == [False, True]
    unsubscribe()
    there = True
    changes.mark_changed("operation", "1")
    changes.flush()
    assert told == [False, True]
