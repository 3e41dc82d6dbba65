"""The ports of kernels on this machine: who answers at them, and what they cost."""

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import zmq
import zmq.asyncio
from ports import free_port
from waiting import eventually

from jupyter_tpu.errors import TPUError
from jupyter_tpu.kernels.ports import KernelPorts


def connection() -> dict[str, Any]:
    names = ("shell", "control", "stdin", "iopub", "hb")
    return {"ip": "127.0.0.1", **{f"{name}_port": free_port() for name in names}}


async def bound(at: dict[str, Any]) -> KernelPorts:
    ports = KernelPorts(lambda *_: None, lambda: None)
    await ports.bind(at)
    return ports


@asynccontextmanager
async def heart(ports: KernelPorts) -> AsyncIterator[zmq.asyncio.Socket]:
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as client:
        client.linger = 0
        client.connect(ports.endpoints["hb"])
        yield client


async def beats(client: zmq.asyncio.Socket, message: bytes, wait: float) -> bool:
    await client.send(message)
    while await client.poll(round(wait * 1000)):
        if await client.recv() == message:
            return True
    return False


async def test_a_heartbeat_is_answered_while_the_kernel_lives_and_only_its_own_stops():
    one, other = [await bound(connection()) for _ in range(2)]
    async with heart(one) as first, heart(other) as second:
        assert await beats(first, b"1", 30)
        assert await beats(second, b"1", 30)
        one.set_heartbeat(beating=False)
        assert not await beats(first, b"2", 0.3)
        assert await beats(second, b"2", 30)
        one.set_heartbeat(beating=True)  # it was restarted
        assert await beats(first, b"3", 30)
        await one.close()
        assert await beats(second, b"3", 30)
    await other.close()


async def test_ports_that_were_closed_are_free():
    numbers = connection()
    ports = await bound(numbers)
    await ports.close()

    async def bind() -> bool:
        with suppress(TPUError):  # the system frees them a moment later
            await ports.bind(numbers)
            return True
        return False

    await eventually(bind, 30)
    async with heart(ports) as client:
        assert await beats(client, b"1", 30)
    await ports.close()


async def test_each_kernel_costs_two_descriptors_a_port_and_no_thread():
    def cost() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    everything = [await bound(connection())]
    before = cost()
    python_threads = threading.active_count()
    everything += [await bound(connection()) for _ in range(10)]
    after = cost()
    assert after[0] - before[0] <= 10 * 5 * 2
    assert after[1] == before[1]
    assert threading.active_count() == python_threads
    for ports in everything:
        await ports.close()
