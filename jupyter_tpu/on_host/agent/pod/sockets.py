"""The sockets at which the conductor is a Jupyter kernel for its keeper."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, List

import zmq

from ..protocol.events import CONTROL, IOPUB, SHELL, STDIN

#: Messages read from one socket before others get their turn.
TURN_MESSAGES = 100


class KernelSockets:
    """Binds a kernel's sockets.

    Parameters
    ----------
    connection: the contents of the connection file.
    on_message: called with the channel and the parts of each message, in the event loop.
    """

    def __init__(
        self, connection: Dict[str, Any], on_message: Callable[[int, List[bytes]], None]
    ) -> None:
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._sockets: Dict[int, zmq.Socket] = {}
        for channel, kind, name in (
            (SHELL, zmq.ROUTER, "shell"),
            (CONTROL, zmq.ROUTER, "control"),
            (STDIN, zmq.ROUTER, "stdin"),
            (IOPUB, zmq.PUB, "iopub"),
        ):
            socket = self._context.socket(kind)
            socket.linger = 1000  # ms
            socket.sndhwm = socket.rcvhwm = 0
            socket.bind("ipc://%s-%d" % (connection["ip"], connection[name + "_port"]))
            self._sockets[channel] = socket
            if kind == zmq.ROUTER:
                self._loop.add_reader(int(socket.getsockopt(zmq.FD)), self._drain, channel)
                self._loop.call_soon(self._drain, channel)

    def send(self, channel: int, parts: List[bytes]) -> None:
        """Sends a message to the keeper; never blocks."""
        self._sockets[channel].send_multipart(parts, zmq.NOBLOCK)
        if channel != IOPUB:
            # Sending can consume the event that would have signalled messages to read.
            self._loop.call_soon(self._drain, channel)

    def _drain(self, channel: int) -> None:
        for _ in range(TURN_MESSAGES):
            try:
                parts = self._sockets[channel].recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:
                return
            try:
                self._on_message(channel, parts)
            except Exception:  # the messages after it wait for no other event
                self._loop.call_soon(self._drain, channel)
                raise
        self._loop.call_soon(self._drain, channel)

    def close(self) -> None:
        """Delivers what was sent, and closes."""
        for channel, socket in self._sockets.items():
            if channel != IOPUB:
                self._loop.remove_reader(int(socket.getsockopt(zmq.FD)))
            socket.close()
        self._context.term()
