"""The kernel's ports on this machine. Clients connect to them instead of to the kernel.

The sockets stay open while the kernel's id exists, so clients notice neither lost links nor
restarts. Client messages are passed on with the identities that route the answers back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import zmq
import zmq.asyncio

from ..errors import Reason, TPUError
from ..on_host.agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN
from ..per_process import per_process
from .heartbeat import Heartbeat

log = logging.getLogger(__name__)

#: Bytes of output that are buffered for a slow client, or until the first one subscribes; then the
#: oldest is dropped.
MAX_BUFFERED = 64 << 20

#: Bytes of a part above which ZeroMQ sends it without making a copy.
LARGE_PART_BYTES = 1 << 20
#: Messages that ZeroMQ holds for a client of iopub that must not lose any, …
MAX_UNREAD = 256
#: … seconds until sending is tried again, and after which a client counts as not reading.
#: A local kernel drops its output then, too.
RETRY_SECONDS, STALLED_SECONDS = 0.005, 300.0

_NAMES = {SHELL: "shell", CONTROL: "control", STDIN: "stdin", IOPUB: "iopub"}


@per_process
def _context() -> zmq.asyncio.Context:
    """One context for all kernels of this process, because each context has threads of its own."""
    return zmq.asyncio.Context()


class KernelPorts:
    """The ports of a connection file, from `bind` to `close`. Runs on one event loop.

    Parameters
    ----------
    on_message: called with the channel and parts of a client's message on shell, control or stdin.
    on_subscriber: called when the first client subscribes to iopub.
    lossless: a client that reads iopub slowly holds up all of them (see :meth:`is_full`), unless it
        reads nothing for STALLED_SECONDS. False: what it does not read fills this machine's memory.
    """

    def __init__(
        self,
        on_message: Callable[[int, list[bytes]], None],
        on_subscriber: Callable[[], None],
        *,
        lossless: bool = False,
    ) -> None:
        self._on_message = on_message
        self._on_subscriber = on_subscriber
        self._lossless = lossless
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._reset()

    def _reset(self) -> None:
        self.endpoints: dict[str, str] = {}  # none while no port is bound
        self._sockets: dict[str, zmq.asyncio.Socket] = {}
        self._heartbeat: Heartbeat | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: deque[list[bytes]] = deque()  # for a client that reads too slowly
        self._waiting_bytes = 0
        self._sent_at = 0.0  # the time at which the first of them could not be sent
        self._on_drained: Callable[[], None] | None = None
        self._subscriptions = 0
        self._buffered: deque[list[bytes]] = deque()
        self._buffered_bytes = 0

    async def bind(self, connection: Mapping[str, Any]) -> None:
        """Binds the ports of *connection* (``transport``, ``ip``, ``shell_port`` and so on) instead
        of others, unless they are bound. Raises CONFLICT if one is in use.
        """
        places = endpoints(connection)
        # jupyter_client deletes the files of ipc sockets at each restart.
        if places == self.endpoints and connection.get("transport") != "ipc":
            return
        await self.close()
        try:
            for name in _NAMES.values():
                self._sockets[name] = self._bind(name, places[name])
            self._heartbeat = Heartbeat(_context(), places["hb"])
        except zmq.ZMQError as error:
            await self.close()
            raise TPUError(
                f"A port of the kernel cannot be used on this machine: {error}.",
                Reason.CONFLICT,
                "Start the kernel again. It gets other ports.",
            ) from error
        self.endpoints = places
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(work, name=f"{name} port")
            for name, work in (
                *((_NAMES[channel], self._read(channel)) for channel in (SHELL, CONTROL, STDIN)),
                ("iopub", self._subscribers()),
            )
        ]

    def _bind(self, name: str, endpoint: str) -> zmq.asyncio.Socket:
        socket = _context().socket(zmq.XPUB if name == "iopub" else zmq.ROUTER)
        socket.linger = 1000
        socket.sndhwm = 0
        if name != "iopub":
            socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a client that reconnects keeps its identity
        elif self._lossless:
            socket.sndhwm = MAX_UNREAD
            socket.setsockopt(zmq.XPUB_NODROP, 1)  # instead of dropping, sending fails
        try:
            socket.bind(endpoint)
        except zmq.ZMQError:
            socket.close(linger=0)
            raise
        return socket

    def send(self, channel: int, parts: list[bytes]) -> None:
        """Sends a message to its client, or on iopub to all clients. Never waits."""
        if not self._sockets:
            return
        if channel == IOPUB and not self._subscriptions:
            self._buffer(parts)
        elif channel == IOPUB and (self._waiting or not self._send_now(IOPUB, parts)):
            loop = asyncio.get_running_loop()
            if not self._waiting:
                self._sent_at = loop.time()
                loop.call_later(RETRY_SECONDS, self._send_waiting)
            self._waiting.append(parts)
            self._waiting_bytes += sum(map(len, parts))
        elif channel != IOPUB:
            self._send_now(channel, parts)

    def _send_now(self, channel: int, parts: list[bytes]) -> bool:
        """False: a client reads too slowly."""
        # With NOBLOCK the message is sent or refused when this returns.
        copy = all(len(part) < LARGE_PART_BYTES for part in parts)
        sent = self._sockets[_NAMES[channel]].send_multipart(parts, zmq.NOBLOCK, copy)
        assert isinstance(sent, asyncio.Future)
        return not isinstance(sent.exception(), zmq.Again)

    def _send_waiting(self) -> None:
        # ZeroMQ does not report when there is room.
        loop = asyncio.get_running_loop()
        while self._waiting and self._sockets:
            if not self._send_now(IOPUB, self._waiting[0]):
                if loop.time() - self._sent_at > STALLED_SECONDS:
                    log.warning(
                        "A client does not read its output. Further output for it may be dropped."
                    )
                    self._sockets["iopub"].setsockopt(zmq.XPUB_NODROP, 0)  # only for this client
                loop.call_later(RETRY_SECONDS, self._send_waiting)
                break
            self._sent_at = loop.time()
            self._waiting_bytes -= sum(map(len, self._waiting.popleft()))
        if self._on_drained is not None and self._waiting_bytes <= MAX_BUFFERED // 2:
            on_drained, self._on_drained = self._on_drained, None
            on_drained()

    def is_full(self, on_drained: Callable[[], None]) -> bool:
        """Whether much output waits for a slow client. *on_drained* is called once when not."""
        if self._waiting_bytes <= MAX_BUFFERED:
            return False
        self._on_drained = on_drained
        return True

    def _buffer(self, parts: list[bytes]) -> None:
        self._buffered.append(parts)
        self._buffered_bytes += sum(map(len, parts))
        while self._buffered_bytes > MAX_BUFFERED and len(self._buffered) > 1:
            self._buffered_bytes -= sum(map(len, self._buffered.popleft()))

    def drop_buffered(self) -> None:
        """Drops the output that no client has received: its kernel is gone."""
        self._buffered.clear()
        self._buffered_bytes = 0

    def pause(self) -> None:
        """Stops reading from shell and stdin: too much is waiting for the host already."""
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    async def _read(self, channel: int) -> None:
        socket = self._sockets[_NAMES[channel]]
        while True:
            parts = await socket.recv_multipart()
            if channel != CONTROL:
                await self._may_read.wait()
            self._on_message(channel, parts)

    async def _subscribers(self) -> None:
        socket = self._sockets["iopub"]
        while True:
            (event,) = await socket.recv_multipart()
            self._subscriptions += 1 if event[:1] == b"\x01" else -1
            if self._subscriptions == 1 and event[:1] == b"\x01":
                self._on_subscriber()
                buffered, self._buffered, self._buffered_bytes = self._buffered, deque(), 0
                for parts in buffered:
                    self.send(IOPUB, parts)

    def set_heartbeat(self, beating: bool) -> None:
        """Whether heartbeats are answered, even while the host is unreachable; else it is dead."""
        if self._heartbeat is not None:
            self._heartbeat.beating = beating

    async def close(self) -> None:
        """Frees the ports. Messages already sent still reach their clients."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._heartbeat is not None:
            self._heartbeat.close()
        for socket in self._sockets.values():
            socket.close()
        self._reset()


def endpoints(connection: Mapping[str, Any]) -> dict[str, str]:
    """The endpoints of a connection file, by channel name."""
    transport, ip = connection.get("transport", "tcp"), connection["ip"]
    between = "-" if transport == "ipc" else ":"
    return {
        name: f"{transport}://{ip}{between}{connection[name + '_port']}"
        for name in ("shell", "control", "stdin", "iopub", "hb")
    }
