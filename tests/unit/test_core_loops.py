"""A failure in one of the fleet's loops is logged and shown, and ends none of them."""

import asyncio

from waiting import eventually

from jupyter_tpu.backoff import Backoff
from jupyter_tpu.fleet.core import loops as module
from jupyter_tpu.fleet.core.loops import Loops


async def test_a_loop_that_fails_goes_on_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(module, "PAUSES", Backoff(0.05, 60.0))
    rounds: list[str] = []
    third = asyncio.Event()

    async def fragile() -> None:
        rounds.append("fragile")
        if len(rounds) < 3:
            raise OSError("No space left on device")
        third.set()
        await asyncio.Event().wait()

    async def steady() -> None:
        await asyncio.Event().wait()

    loops = Loops()
    loops.start("fragile", fragile)
    loops.start("steady", steady)
    async with asyncio.timeout(10):
        await third.wait()
    fragile_status, steady_status = loops.status()
    assert (fragile_status.failures, steady_status.failures) == (2, 0)
    assert fragile_status.last_error == "OSError: No space left on device"
    assert fragile_status.last_failure
    assert (fragile_status.failing, steady_status.failing) == (True, False)
    await eventually(lambda: not any(status.failing for status in loops.status()))
    assert "No space left" in caplog.text
    await loops.close()
    assert all(task.cancelled() for task in loops._tasks)
