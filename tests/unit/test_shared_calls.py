"""A hundred clients that ask for one list at the same time."""

import asyncio

from jupyter_tpu.concurrency import SharedCalls


class Answers:
    """Answers with the newest state when it is told to, and counts."""

    def __init__(self) -> None:
        self.state = self.calls = 0
        self.go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self.shared = SharedCalls[str, int]()

    async def answer(self) -> int:
        state = self.state
        self.calls += 1
        self.begun.set()
        await self.go_on.wait()
        return state

    def ask(self, key: str = "tpus") -> asyncio.Task[int]:
        return asyncio.ensure_future(self.shared.get(key, self.answer))


async def test_those_who_ask_meanwhile_share_one_call_that_begins_after_their_question():
    answers = Answers()
    first = answers.ask()
    await answers.begun.wait()
    answers.state = 1  # what the others have done, for example
    others = [answers.ask() for _ in range(100)]
    elsewhere = answers.ask("kernels")
    await asyncio.sleep(0)
    answers.go_on.set()
    assert await first == 0
    assert set(await asyncio.gather(*others)) == {1}
    assert (await elsewhere, answers.calls) == (1, 3)
    answers.state = 2
    assert await answers.ask() == 2, "nothing is kept"


async def test_one_who_leaves_takes_the_answer_from_nobody_and_all_hear_of_a_failure():
    answers = Answers()
    leaves, stays = answers.ask(), answers.ask()
    await answers.begun.wait()
    leaves.cancel()
    answers.go_on.set()
    assert await stays == 0

    async def fail() -> int:
        raise ValueError("no")

    calls = (answers.shared.get("tpus", fail) for _ in range(3))
    failed = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(error) for error in failed] == ["no"] * 3


async def test_after_its_end_no_call_is_left():
    answers = Answers()
    asked = [answers.ask()]
    await answers.begun.wait()
    asked.append(answers.ask())
    await asyncio.sleep(0)
    await answers.shared.close()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(end) for end in ended] == [asyncio.CancelledError] * 2
