"""Waits of the agent on Pythons whose asyncio.wait_for swallows cancels: no cancel is lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jupyter_tpu.on_host.agent.daemon.warm_kernels import WarmKernels
from jupyter_tpu.on_host.agent.protocol.timeouts import cancel_all, is_set_within, with_timeout

#: Turns of the loop between the result of a wait and the caller's cancel: more than there are.
TURNS = range(8)


async def cancelled_after(
    waiting: Awaitable[object], result: Callable[[], object], turns: int
) -> bool:
    """Whether a cancel so many turns after the result of a wait has an effect."""
    task = asyncio.ensure_future(waiting)
    for _ in TURNS:
        await asyncio.sleep(0)
    result()
    for _ in range(turns):
        await asyncio.sleep(0)
    was_done = task.done()
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    if not task.done():  # the cancel was lost; another one ends it
        task.cancel()
        await asyncio.wait({task})
        return False
    return was_done or task.cancelled()


@pytest.mark.parametrize("turns", TURNS)
async def test_a_cancel_is_not_lost_when_the_result_comes_at_the_same_time(turns):
    event = asyncio.Event()

    async def forever() -> None:
        while True:
            event.clear()
            await is_set_within(event, 60)

    assert await cancelled_after(forever(), event.set, turns)


@pytest.mark.parametrize("turns", TURNS)
async def test_warm_kernels_end_when_they_are_told_to_while_something_changes(turns):
    warm = WarmKernels("")
    warm.request("client", [])
    assert await cancelled_after(warm.run(), lambda: warm.request("client", []), turns)


async def test_the_result_the_error_and_the_limit_reach_the_caller():
    async def result() -> str:
        await asyncio.sleep(0)
        return "it"

    async def error() -> None:
        raise OSError("why")

    assert await with_timeout(result(), 10) == "it"
    assert await with_timeout(result(), None) == "it"
    with pytest.raises(OSError, match="why"):
        await with_timeout(error(), 10)
    never = asyncio.Event()
    with pytest.raises(asyncio.TimeoutError):
        await with_timeout(never.wait(), 0.01)
    assert not await is_set_within(never, 0.01)


async def test_what_does_not_end_when_it_is_cancelled_is_not_waited_for():
    end = asyncio.Event()

    async def stubborn() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    tasks = {asyncio.ensure_future(stubborn()), asyncio.ensure_future(asyncio.sleep(60))}
    await asyncio.sleep(0)
    left = await cancel_all(tasks, 0.1)
    assert len(left) == 1
    end.set()
    await asyncio.wait(left)
