"""Hosts that are asked again and again where they are."""

import asyncio

from jupyter_tpu.on_host.agent.pod.hosts import Asked
from jupyter_tpu.on_host.agent.pod.looks import Looks


class Hosts:
    """Takes the questions. Those who answer do so at once."""

    def __init__(self, answering: set[int]) -> None:
        self.asked: list[int] = []
        self.answering = answering
        self.looks = Looks(self)

    def ask(self, asked: Asked, *_: object) -> None:
        self.asked.append(asked.host)
        if asked.host in self.answering:
            asyncio.get_running_loop().call_soon(self.looks.told, "stack", asked.host)


async def test_a_host_that_does_not_answer_is_not_asked_again_before_it_does():
    hosts = Hosts({0})
    for _ in range(3):
        await hosts.looks.ask([0, 1], 1, chips=False)
    assert (hosts.asked.count(0), hosts.asked.count(1)) == (3, 1)
    hosts.looks.told("stack", 1)  # as it goes on
    await hosts.looks.ask([0, 1], 2, chips=False)
    assert (hosts.asked.count(0), hosts.asked.count(1)) == (4, 2)
