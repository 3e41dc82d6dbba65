"""The kernel's ports on this machine: what its clients connect to in place of the kernel.

The sockets stay for as long as the kernel's id lives, over lost links and restarts, so clients
notice neither. What they say is handed on with the identities in front that bring the answer back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import zmq
import zmq.asyncio

from ..agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN
from .heartbeat import Heartbeat

log = logging.getLogger(__name__)

#: Output that came before any client listened is held up to this many bytes, the newest first.
HELD = 64 << 20

_NAMES = {SHELL: "shell", CONTROL: "control", STDIN: "stdin", IOPUB: "iopub"}


@cache
def _context() -> zmq.asyncio.Context:
    """One for all kernels of this process: each would have a thread of its own."""
    return zmq.asyncio.Context()


class Ports:
    """Binds the ports of a connection file; lives on one event loop.

    Parameters
    ----------
    connection: ``transport``, ``ip``, ``shell_port`` and so on.
    on_message: called with the channel and parts of what a client says on shell, control or stdin.
    on_subscriber: called when the first client listens to iopub.

    Raises zmq.ZMQError where a port is taken.
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        on_message: Callable[[int, list[bytes]], None],
        on_subscriber: Callable[[], None],
    ) -> None:
        self.endpoints = endpoints(connection)
        self._on_message = on_message
        self._on_subscriber = on_subscriber
        self._subscriptions = 0
        self._held: deque[list[bytes]] = deque()
        self._held_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._sockets: dict[str, zmq.asyncio.Socket] = {}
        self._heartbeat: Heartbeat | None = None
        try:
            for name in _NAMES.values():
                self._sockets[name] = self._bind(name, self.endpoints[name])
            self.start_heartbeat()
        except zmq.ZMQError:
            self._close_sockets()
            raise
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
            socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a client that comes back keeps its name
        try:
            socket.bind(endpoint)
        except zmq.ZMQError:
            socket.close(linger=0)
            raise
        return socket

    def send(self, channel: int, parts: list[bytes]) -> None:
        """Gives a message to the client it is for, or, on iopub, to all; never waits."""
        if channel == IOPUB and not self._subscriptions:
            self._hold(parts)
            return
        # With NOBLOCK the message is on its way, or refused, when this returns.
        sent = self._sockets[_NAMES[channel]].send_multipart(parts, zmq.NOBLOCK)
        assert isinstance(sent, asyncio.Future)
        sent.exception()

    def _hold(self, parts: list[bytes]) -> None:
        self._held.append(parts)
        self._held_bytes += sum(map(len, parts))
        while self._held_bytes > HELD and len(self._held) > 1:
            self._held_bytes -= sum(map(len, self._held.popleft()))

    def forget_held(self) -> None:
        """Drops what no client listened to: its kernel is gone."""
        self._held.clear()
        self._held_bytes = 0

    def pause(self) -> None:
        """Takes no more from shell and stdin: too much waits for the host already."""
        self._room.clear()

    def resume(self) -> None:
        self._room.set()

    async def _read(self, channel: int) -> None:
        socket = self._sockets[_NAMES[channel]]
        while True:
            if channel != CONTROL:
                await self._room.wait()
            self._on_message(channel, await socket.recv_multipart())

    async def _subscribers(self) -> None:
        socket = self._sockets["iopub"]
        while True:
            (said,) = await socket.recv_multipart()
            self._subscriptions += 1 if said[:1] == b"\x01" else -1
            if self._subscriptions == 1 and said[:1] == b"\x01":
                self._on_subscriber()
                held, self._held, self._held_bytes = self._held, deque(), 0
                for parts in held:
                    self.send(IOPUB, parts)

    def start_heartbeat(self) -> None:
        """Answers heartbeats until :meth:`stop_heartbeat`, even while the host is unreachable."""
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self.endpoints["hb"])

    def stop_heartbeat(self) -> None:
        """The kernel is dead: no more heartbeats."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    async def close(self) -> None:
        """Frees the ports; what was sent last still reaches its clients."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._close_sockets()

    def _close_sockets(self) -> None:
        self.stop_heartbeat()
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()


def endpoints(connection: Mapping[str, Any]) -> dict[str, str]:
    """Where the channels of a connection file are bound, by name."""
    transport, ip = connection.get("transport", "tcp"), connection["ip"]
    between = "-" if transport == "ipc" else ":"
    return {
        name: f"{transport}://{ip}{between}{connection[name + '_port']}"
        for name in ("shell", "control", "stdin", "iopub", "hb")
    }
