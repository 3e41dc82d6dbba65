"""Coalescing of questions about a node."""

import asyncio

import pytest

from jupyter_tpu.links.single_flight import SingleFlight


class Question:
    """Counts how often it is asked; answers when it is allowed to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.allowed = asyncio.Event()
        self.error = error

    async def __call__(self, key: str) -> str:
        self.asked.append(key)
        await self.allowed.wait()
        if self.error:
            raise self.error
        return f"{key} {len(self.asked)}"


async def test_many_who_ask_at_once_are_one_call():
    question = Question()
    shared: SingleFlight[str, str] = SingleFlight(question)
    waiting = [asyncio.ensure_future(shared.get("node")) for _ in range(32)]
    other = asyncio.ensure_future(shared.get("other"))
    question.allowed.set()
    assert set(await asyncio.gather(*waiting)) == {"node 1"}
    await other
    assert question.asked == ["node", "other"]


async def test_an_answer_is_kept_only_for_the_given_time():
    question = Question()
    question.allowed.set()
    kept: SingleFlight[str, str] = SingleFlight(question, keep=60)
    assert await kept.get("node") == await kept.get("node") == "node 1"
    kept.forget("node")
    assert await kept.get("node") == "node 2"
    kept.note("node", "seen elsewhere")
    assert await kept.get("node") == "seen elsewhere"
    fresh: SingleFlight[str, str] = SingleFlight(question)
    await fresh.get("node")
    await fresh.get("node")
    assert len(question.asked) == 4


async def test_an_error_reaches_all_who_asked_and_is_not_kept():
    question = Question(OSError("no"))
    question.allowed.set()
    shared: SingleFlight[str, str] = SingleFlight(question, keep=60)
    results = await asyncio.gather(*(shared.get("a") for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no"] * 3
    question.error = None
    assert await shared.get("a") == "a 2"


async def test_one_who_gives_up_does_not_disturb_the_others():
    question = Question()
    shared: SingleFlight[str, str] = SingleFlight(question)
    impatient = asyncio.ensure_future(shared.get("node"))
    patient = asyncio.ensure_future(shared.get("node"))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    question.allowed.set()
    assert await patient == "node 1"


async def test_closing_ends_the_questions_under_way():
    question = Question()
    shared: SingleFlight[str, str] = SingleFlight(question)
    waiting = asyncio.ensure_future(shared.get("node"))
    await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
