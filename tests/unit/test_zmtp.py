"""ZMTP, spoken with ZeroMQ itself: a keeper with its kernel's sockets."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest
import zmq
import zmq.asyncio
from waiting import eventually

from jupyter_tpu.on_host.agent.keeper import channels as keeper_channels
from jupyter_tpu.on_host.agent.keeper.channels import KernelChannels
from jupyter_tpu.on_host.agent.protocol import zmtp
from jupyter_tpu.on_host.agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN

WELCOME = zmtp.greeting("XPUB")
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
        data = b""

        def write(self, piece):
            self.data += piece

        def finish(self):
            got.append(("taken", self.data))

    def take(channel, parts, size):
        got.append((channel, parts, size))
        return Writer()

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
        channels = KernelChannels(connection, lambda *m: got.append(m), lambda *_: Writer())
        writer = await accepted
        start = b"".join(zmtp.encode([b"topic", LARGE]))[:-1]
        writer.write(zmtp.greeting("XPUB") + b"".join(zmtp.encode([b"last"])) + start)
        await writer.drain()
        channels.drain()
        assert got == [(IOPUB, [b"last"]), "aborted"]
        writer.close()
        server.close()


def wire(*parts: bytes) -> bytes:
    return b"".join(zmtp.encode(parts))


def long_head(size: int, more: bool = False) -> bytes:
    return bytes([2 | more]) + size.to_bytes(8, "big")


def test_an_error_of_who_takes_a_part_does_not_repeat_what_came_before_it():
    def take(parts, size):
        raise MemoryError

    decoder, got = zmtp.ZmtpDecoder(take), []
    with pytest.raises(MemoryError):
        got.extend(decoder.feed(WELCOME + wire(b"1") + wire(LARGE) + wire(b"2")))
    decoder.abort()
    got.extend(decoder.feed(b""))
    assert got == [[b"1"], [b"2"]]


@pytest.mark.parametrize("taken", [False, True])
def test_a_message_above_the_limit_is_dropped_as_it_comes(monkeypatch, taken):
    size = 3 << 20
    monkeypatch.setattr(zmtp, "MAX_COLLECTED", size)
    ends = []

    class Writer(zmtp.PartWriter):
        def finish(self):
            ends.append("finished")

    def take(parts, size):
        ends.append((list(parts), size))
        return Writer() if taken else None

    decoder = zmtp.ZmtpDecoder(take)
    pieces = [wire(b"1"), b"\1\1t", long_head(size, more=True), *[bytes(1 << 20)] * 3]
    pieces += [b"\1\1x", b"\0\1y", wire(b"2")]
    got = [message for piece in [WELCOME, *pieces] for message in decoder.feed(piece)]
    assert got == [[b"1"], [b"2"]]
    assert ends == [([b"t"], size + 2), *["finished"] * taken]


def test_what_a_peer_announces_takes_no_memory_and_has_a_limit():
    decoder = zmtp.ZmtpDecoder()
    assert list(decoder.feed(WELCOME + wire(b"1") + long_head((1 << 63) - 1) + b"abc")) == [[b"1"]]
    assert list(decoder.feed(bytes(1 << 20))) == []
    decoder.abort()
    for head in (long_head(1 << 63), b"\6" + (1 << 40).to_bytes(8, "big")):
        decoder = zmtp.ZmtpDecoder()
        with pytest.raises(zmtp.ZmtpError):
            list(decoder.feed(WELCOME + head))


def test_a_ping_is_answered_with_its_context():
    decoder = zmtp.ZmtpDecoder()
    assert list(decoder.feed(WELCOME + b"\4\x0a\4PING\0\x0aabc" + wire(b"1"))) == [[b"1"]]
    assert decoder.answers == [b"\4\x08\4PONGabc"]


async def test_the_kernel_gets_all_that_waited_once_though_it_closes_and_is_asked_less_often(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(keeper_channels, "LAST_RETRY", 0.04)
    connection = {"ip": f"{tmp_path}/ipc", **{f"{n}_port": 1 for n in ("shell", "control")}}
    connection |= {"stdin_port": 1, "iopub_port": 2}
    answers = [b"something else" * 9] * 2 + [WELCOME]
    problems, times = [], []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
    read: asyncio.Queue[bytes] = asyncio.Queue()

    async def accept(reader, writer):
        times.append(loop.time())
        writer.write(answers.pop(0) if answers else WELCOME)
        if len(times) < 3:
            await reader.read()
        elif len(times) == 3:  # it ends in the middle of the second message
            head = len(zmtp.greeting("SUB") + wire(b"\1"))
            await reader.readexactly(head + len(wire(b"first")) + 100)
        else:
            await reader.readexactly(len(zmtp.greeting("SUB") + wire(b"\1")))
            await read.put(await reader.readexactly(len(wire(LARGE) + wire(b"last"))))
        writer.close()

    server = await asyncio.start_unix_server(accept, f"{tmp_path}/ipc-2")
    async with asyncio.timeout(30):
        channels = KernelChannels(connection, lambda *_: None)
        for message in (b"first", LARGE, b"last"):
            channels.send(IOPUB, [message])
        assert await read.get() == wire(LARGE) + wire(b"last")
        channels.close()
    assert [type(problem) for problem in problems] == [zmtp.ZmtpError]
    assert times[2] - times[1] >= 0.02 - 0.002
    server.close()
