"""ZMTP, spoken with ZeroMQ itself: a keeper with its kernel's sockets, and a port with clients."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest
import zmq
import zmq.asyncio
from ports import free_port
from waiting import eventually

from jupyter_tpu.kernels.port import PUBLISHER, ROUTER, Port
from jupyter_tpu.on_host.agent.keeper.channels import KernelChannels
from jupyter_tpu.on_host.agent.protocol import zmtp
from jupyter_tpu.on_host.agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN

SMALL = [[b"", b"x" * 255, b"y" * 256], [b"only"], [b"a" * 70_000, b""]]
LARGE = os.urandom(zmtp.LARGE_PART_BYTES + 12_345)


class KernelSide:
    """A kernel's sockets, of ZeroMQ."""

    def __init__(self, folder: str) -> None:
        self.connection = {"ip": f"{folder}/ipc"}
        self.context = zmq.asyncio.Context()
        self.sockets = {}
        for number, (channel, kind, name) in enumerate(
            (
                (SHELL, zmq.ROUTER, "shell"),
                (CONTROL, zmq.ROUTER, "control"),
                (STDIN, zmq.ROUTER, "stdin"),
                (IOPUB, zmq.XPUB, "iopub"),
            )
        ):
            self.connection[f"{name}_port"] = number
            socket = self.sockets[channel] = self.context.socket(kind)
            socket.sndhwm = socket.rcvhwm = 0
            socket.linger = 0

    def bind(self) -> None:
        for number, socket in enumerate(self.sockets.values()):
            socket.bind(f"ipc://{self.connection['ip']}-{number}")


@contextlib.asynccontextmanager
async def kernel_side(folder) -> AsyncIterator[KernelSide]:
    kernel = KernelSide(str(folder))
    try:
        yield kernel
    finally:
        kernel.context.destroy(0)


async def test_a_keeper_and_a_kernel_exchange_messages_of_all_sizes(tmp_path):
    got = []
    async with asyncio.timeout(30), kernel_side(tmp_path) as kernel:
        channels = KernelChannels(kernel.connection, lambda *message: got.append(message))
        channels.send(SHELL, [b"early"])  # before the kernel listens
        kernel.bind()
        assert await kernel.sockets[SHELL].recv_multipart() == [b"keeper", b"early"]
        assert await kernel.sockets[IOPUB].recv_multipart() == [b"\1"]
        channels.send(STDIN, [b"here"])
        assert await kernel.sockets[STDIN].recv_multipart() == [b"keeper", b"here"]
        for message in [*SMALL, [LARGE], [LARGE, b"after"]]:
            channels.send(CONTROL, message)
            assert await kernel.sockets[CONTROL].recv_multipart() == [b"keeper", *message]
            await kernel.sockets[STDIN].send_multipart([b"keeper", *message])
            await kernel.sockets[IOPUB].send_multipart(message)
        await eventually(lambda: len(got) == 10, 30)
        for channel in (STDIN, IOPUB):
            assert [m for c, m in got if c == channel] == [*SMALL, [LARGE], [LARGE, b"after"]]
        channels.close()


async def test_a_large_last_part_is_taken_while_it_comes_and_the_order_stays(tmp_path):
    got = []

    class Writer(zmtp.PartWriter):
        def finish(self):
            got.append(("taken", bytes(self.data)))

    def take(channel, parts, size):
        got.append((channel, parts, size))
        return Writer(size)

    async with asyncio.timeout(30), kernel_side(tmp_path) as kernel:
        channels = KernelChannels(kernel.connection, lambda _, m: got.append(m), take)
        kernel.bind()
        await kernel.sockets[IOPUB].recv_multipart()
        for message in ([b"1"], [b"topic", LARGE], [b"2"]):
            await kernel.sockets[IOPUB].send_multipart(message)
        await eventually(lambda: [b"2"] in got, 30)
        assert got == [[b"1"], (IOPUB, [b"topic"], len(LARGE)), ("taken", LARGE), [b"2"]]
        channels.close()


async def test_what_an_ended_kernel_had_sent_is_delivered_and_the_rest_of_a_part_is_given_up(
    tmp_path,
):
    got = []

    class Writer(zmtp.PartWriter):
        def abort(self):
            got.append("aborted")

    connection = {"ip": f"{tmp_path}/ipc", **{f"{n}_port": 1 for n in ("shell", "control")}}
    connection |= {"stdin_port": 1, "iopub_port": 2}
    accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(
        lambda _, writer: accepted.set_result(writer), f"{tmp_path}/ipc-2"
    )
    async with asyncio.timeout(30):
        channels = KernelChannels(
            connection, lambda *m: got.append(m), lambda _, __, size: Writer(size)
        )
        writer = await accepted
        start = b"".join(zmtp.encode([b"topic", LARGE]))[:-1]
        writer.write(zmtp.greeting("XPUB") + b"".join(zmtp.encode([b"last"])) + start)
        await writer.drain()
        channels.drain()
        assert got == [(IOPUB, [b"last"]), "aborted"]
        writer.close()
        server.close()


async def test_a_port_serves_clients_of_zeromq():
    got, welcomes = [], []
    shell = Port(ROUTER, got.append)
    iopub = Port(PUBLISHER, on_subscriber=lambda: welcomes.append(1))
    at = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    async with asyncio.timeout(30):
        for port, endpoint in zip((shell, iopub), at, strict=True):
            await port.open(endpoint)
        with zmq.asyncio.Context() as context:
            dealer, other, all_topics, one_topic = (
                context.socket(kind) for kind in (zmq.DEALER, zmq.DEALER, zmq.SUB, zmq.SUB)
            )
            for socket in (dealer, other, all_topics, one_topic):
                socket.linger = 0
            dealer.identity, other.identity = b"one", b"other"
            dealer.connect(at[0])
            other.connect(at[0])
            for message in [*SMALL, [LARGE]]:
                await dealer.send_multipart(message)
                await eventually(lambda: bool(got), 30)
                assert got.pop() == [b"one", *message]
                shell.send([b"one", *message])
                assert await dealer.recv_multipart() == message
            shell.send([b"nobody", b"x"])
            await other.send(b"hello")
            await eventually(lambda: [b"other", b"hello"] in got, 30)

            all_topics.subscribe(b"")
            one_topic.subscribe(b"topic")
            one_topic.unsubscribe(b"topic")
            one_topic.subscribe(b"top")
            for socket in (all_topics, one_topic):
                socket.connect(at[1])
            await eventually(lambda: sum(bool(c.subscriptions) for c in iopub._all) == 2, 30)
            for message in ([b"else", b"1"], [b"topic", LARGE], [b"topic", b"2"]):
                iopub.publish(message)
            assert [await all_topics.recv_multipart() for _ in range(3)] == [
                [b"else", b"1"],
                [b"topic", LARGE],
                [b"topic", b"2"],
            ]
            assert [await one_topic.recv_multipart() for _ in range(2)] == [
                [b"topic", LARGE],
                [b"topic", b"2"],
            ]
            assert welcomes == [1]
            context.destroy(0)
        await shell.close()
        await iopub.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n" * 9, zmtp.GREETING + b"\0\0"])
async def test_who_speaks_something_else_at_a_port_is_disconnected(said):
    port = Port(ROUTER)
    number = free_port()
    async with asyncio.timeout(30):
        await port.open(f"tcp://127.0.0.1:{number}")
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        await eventually(lambda: not port._all, 30)
        writer.close()
        await port.close()
