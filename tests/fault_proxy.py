"""A line that misbehaves: a TCP proxy that delays, limits, loses, cuts, stalls and kills flows.

It works on bytes, not on packets, so what TCP makes of a bad line is imitated, not caused:

*delay*  each byte arrives so many seconds later, each way; a connection's opening is not delayed.
*rate*   bytes per second, each way, shared by all flows as a line is. No more is under way than
         such a line holds; the rest waits at the sender, whose writes are held up.
*loss*   the share of packets (1448 bytes) that get lost. TCP sends a lost packet again, so no byte
         is ever missing: the bytes of the packet and all behind it in its flow come late by a
         retransmission time (a round trip + 0.2 s, the shortest that Linux waits). A real sender
         would also slow down afterwards; set *rate* for that.
*cut*    all flows are reset (RST) and new ones as well, until `mend`.
*full*   flows that exist go on; new ones are reset until `mend`.
*hole*   everything is accepted and nothing carried, either way, until `mend`: then it goes on.
*dead*   the flows that exist are silent for ever, to both ends; new ones work. For a line that is
         silent at first, `hole` besides.
*garble* one bit of what comes from the good end is another one.

Everything may be called from any thread; the proxy has a loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine

PACKET = 1448
#: Bytes of one read, and of the system's buffers on the proxy's sides: what they hold waits
#: where no setting of the line can reach it.
CHUNK = 64 << 10
#: Bytes under way on a line without a rate: enough for 40 MB/s at a round trip of 100 ms.
UNDER_WAY = 4 << 20
#: SO_LINGER: closing is a reset.
RESET = struct.pack("ii", 1, 0)


class _Direction:
    """What all flows share one way."""

    def __init__(self) -> None:
        self.carried = 0  # bytes
        self.free_at = 0.0  # when the line has put everything given to it on its way


class FaultProxy:
    """Leads `address`, `port` to *host*, *to*, over a line that can be made bad.

    Parameters
    ----------
    host, to: where the good end is.
    address: where to listen.
    delay, rate, loss: see above; attributes, as is garble, which may be set at any time.
    beside: another proxy, which leads elsewhere over the same line.
    source: the address from which it goes on to the good end; "": the system chooses.
    """

    def __init__(
        self,
        host: str,
        to: int,
        *,
        address: str = "127.0.0.1",
        delay: float = 0.0,
        rate: float = 0.0,
        loss: float = 0.0,
        beside: FaultProxy | None = None,
        source: str = "",
    ) -> None:
        self.delay, self.rate, self.loss = delay, rate, loss
        self.garble = False
        self._target = host, to
        self._source = source
        self._up, self._down = (
            (beside._up, beside._down) if beside is not None else (_Direction(), _Direction())
        )
        self._chance = random.Random(1)
        self._flows: set[_Flow] = set()
        self._is_full = False
        self._carrying = asyncio.Event()
        self._carrying.set()
        self._ended = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server((address, 0), backlog=64)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        self.address, self.port = self._listener.getsockname()[:2]
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the line

    def cut(self) -> None:
        """Resets all flows, and new ones too until `mend`."""
        self._call(self._cut)

    def full(self) -> None:
        """Resets new flows until `mend`."""
        self._call(self._fill)

    def reset(self) -> None:
        """Resets all flows; new ones work."""
        self._call(self._reset)

    def hole(self) -> None:
        """Carries nothing until `mend`."""
        self._call(self._carrying.clear)

    def dead(self) -> None:
        """No flow that exists now carries anything any more, nor says so."""
        self._call(self._kill)

    def mend(self) -> None:
        """The line is good again; flows that are dead stay so."""
        self._call(self._mend)

    @property
    def flows(self) -> int:
        """How many there are."""
        return len(self._flows)

    def count(self) -> tuple[int, int]:
        """Bytes carried since the last call, to the good end and from it."""
        counted = self._up.carried, self._down.carried
        self._up.carried = self._down.carried = 0
        return counted

    def close(self) -> None:
        """Resets all flows; nothing listens any more."""
        if self._thread.is_alive():
            self._call(self._ended.set)
            self._thread.join(10)

    # ---- on its own loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accepted, sock=self._listener, limit=CHUNK)
        await self._ended.wait()
        server.close()
        self._reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    def _call(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def call() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(call)
        assert done.wait(60), "the proxy's loop stands still"

    def _fill(self) -> None:
        self._is_full = True

    def _cut(self) -> None:
        self._fill()
        self._reset()

    def _reset(self) -> None:
        for flow in list(self._flows):
            flow.reset()

    def _kill(self) -> None:
        for flow in self._flows:
            flow.carrying = asyncio.Event()  # that nobody sets

    def _mend(self) -> None:
        self._is_full = False
        self._carrying.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_full:
            _reset(writer)
            return
        flow = _Flow(self._carrying, writer)
        self._flows.add(flow)
        try:
            far = socket.socket()
            far.setblocking(False)
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)  # before the connection
            if self._source:
                far.bind((self._source, 0))
            await self._loop.sock_connect(far, self._target)
            far_reader, far_writer = await asyncio.open_connection(sock=far, limit=CHUNK)
            flow.writers.append(far_writer)
            up = _Way(self, flow, self._up, reader, far_writer)
            down = _Way(self, flow, self._down, far_reader, writer)
            await _all(up.take(), up.give(), down.take(), down.give())
        except asyncio.CancelledError:
            pass  # it was reset
        except OSError:
            flow.reset()  # as the end that broke it did
        finally:
            self._flows.discard(flow)
            for end in flow.writers:
                end.close()

    # ---- what a line does to bytes

    def capacity(self) -> float:
        """Bytes that may be under way in one direction of a flow."""
        return max(2 * self.rate * 2 * self.delay, CHUNK) if self.rate else UNDER_WAY

    def arrival(self, size: int, direction: _Direction) -> float:
        """When *size* bytes that are given to the line now are at its other end."""
        leaves = self._loop.time()
        if self.rate:
            leaves = direction.free_at = max(leaves, direction.free_at) + size / self.rate
        packets = -(-size // PACKET)
        is_lost = self.loss and self._chance.random() > (1 - self.loss) ** packets
        return leaves + self.delay + (2 * self.delay + 0.2 if is_lost else 0.0)


class _Flow:
    """One connection."""

    def __init__(self, carrying: asyncio.Event, writer: asyncio.StreamWriter) -> None:
        self.carrying = carrying
        self.writers = [writer]
        self._task = asyncio.current_task()

    def reset(self) -> None:
        for writer in self.writers:
            _reset(writer)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()


class _Way:
    """One direction of a flow: what is read waits for its time and is written."""

    def __init__(
        self,
        proxy: FaultProxy,
        flow: _Flow,
        direction: _Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._flow = flow
        self._direction = direction
        self._reader = reader
        self._writer = writer
        self._writer.transport.set_write_buffer_limits(high=CHUNK)
        # Nothing waits here for a fuller packet. asyncio does that for sockets that it has made.
        side = writer.get_extra_info("socket")
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self._under_way = 0
        self._room = asyncio.Event()

    async def take(self) -> None:
        proxy, latest, data = self._proxy, 0.0, b"-"
        while data:
            while self._under_way >= proxy.capacity():
                self._room.clear()
                await self._room.wait()
            await self._flow.carrying.wait()
            data = await self._reader.read(4 * PACKET if proxy.rate else CHUNK)
            if data and proxy.garble and self._direction is proxy._down:
                data = data[:-1] + bytes([data[-1] ^ 1])
            # In a flow nothing overtakes: what follows lost bytes waits for them.
            latest = max(latest, proxy.arrival(len(data), self._direction))
            self._under_way += len(data)
            self._waiting.put_nowait((latest, data))

    async def give(self) -> None:
        while True:
            arrives, data = await self._waiting.get()
            if (pause := arrives - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(pause)
            await self._flow.carrying.wait()
            if not data:
                self._writer.write_eof()
                return
            self._direction.carried += len(data)
            self._writer.write(data)
            await self._writer.drain()
            self._under_way -= len(data)
            self._room.set()


async def _all(*parts: Coroutine[None, None, None]) -> None:
    """Until all have ended, or one has failed."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends with RST, as a router's table that was lost does."""
    side = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
