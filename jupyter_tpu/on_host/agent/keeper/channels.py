"""The keeper's end of the kernel's ZeroMQ sockets: no high-water mark, always drained."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, List

import zmq

from ..protocol.events import CONTROL, IOPUB, SHELL, STDIN

#: Messages read from one socket before the others, and the client, get their turn.
TURN_MESSAGES = 100
#: Milliseconds without a message after which a dead kernel's iopub counts as empty.
LAST_WORDS = 30


class KernelChannels:
    """Connects to a kernel and delivers all its messages.

    Parameters
    ----------
    connection: the contents of the kernel's connection file; its sockets may not exist yet.
    on_message: called with the channel and the parts of each message, in the event loop.
    """

    def __init__(
        self, connection: Dict[str, Any], on_message: Callable[[int, List[bytes]], None]
    ) -> None:
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._sockets = {
            SHELL: self._connect(zmq.DEALER, connection, "shell"),
            CONTROL: self._connect(zmq.DEALER, connection, "control"),
            STDIN: self._connect(zmq.DEALER, connection, "stdin"),
            IOPUB: self._connect(zmq.SUB, connection, "iopub"),
        }
        self._descriptors: Dict[int, int] = {}
        for channel, socket in self._sockets.items():
            descriptor = self._descriptors[channel] = int(socket.getsockopt(zmq.FD))
            self._loop.add_reader(descriptor, self._drain, channel)
            self._loop.call_soon(self._drain, channel)

    def _connect(self, kind: int, connection: Dict[str, Any], name: str) -> zmq.Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.sndhwm = socket.rcvhwm = 0
        socket.setsockopt(zmq.RECONNECT_IVL, 10)  # ms; the kernel binds a moment from now
        if kind == zmq.SUB:
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        else:
            # The kernel's input_requests go to the identity of the shell socket: all have the same.
            socket.identity = b"keeper"
        socket.connect("ipc://%s-%d" % (connection["ip"], connection[name + "_port"]))
        return socket

    def send(self, channel: int, parts: List[bytes]) -> None:
        """Sends a message to the kernel; never blocks."""
        self._sockets[channel].send_multipart(parts, zmq.NOBLOCK)
        # Sending can consume the event that would have signalled messages to read.
        self._loop.call_soon(self._drain, channel)

    def _drain(self, channel: int) -> None:
        socket = self._sockets.get(channel)
        if socket is None:
            return
        for _ in range(TURN_MESSAGES):
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._on_message(channel, parts)
        self._loop.call_soon(self._drain, channel)

    def drain(self) -> None:
        """Delivers everything that has arrived: the last messages of an ended kernel."""
        for channel, socket in self._sockets.items():
            # The process's last messages may still be between the system's buffer and ZeroMQ's
            # thread.
            while socket.poll(LAST_WORDS if channel == IOPUB else 0):
                self._on_message(channel, socket.recv_multipart(zmq.NOBLOCK))

    def close(self) -> None:
        for channel, socket in self._sockets.items():
            self._loop.remove_reader(self._descriptors[channel])
            socket.close()
        self._sockets = {}
        self._context.term()
