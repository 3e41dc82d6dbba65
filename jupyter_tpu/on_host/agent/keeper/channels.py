"""The keeper's end of the kernel's sockets: no limit for what waits, always drained."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional

from ..protocol import zmtp
from ..protocol.events import CONTROL, IOPUB, SHELL, STDIN

#: Bytes that are read at once, and from one socket before the others, and the client, get their
#: turn.
READ_BYTES, TURN_BYTES = 256 << 10, 1 << 20
#: Seconds until a connection is tried again, at first and at most. The kernel binds a moment from
#: now.
FIRST_RETRY, LAST_RETRY = 0.01, 1.0
#: Attempts after which the time between them grows.
EARLY_ATTEMPTS = 3000

_NOTHING = memoryview(b"")
#: Called with a channel, the parts of a message before its large last one, and the size of that.
#: Returns what takes it piece by piece (see `zmtp.PartWriter`), or None.
TakeLarge = Callable[[int, List[bytes], int], Optional[Any]]


class KernelChannels:
    """Connects to a kernel and delivers all its messages.

    Parameters
    ----------
    connection: the contents of the kernel's connection file; its sockets may not exist yet.
    on_message: called with the channel and the parts of each message, in the event loop.
    take_large: takes large messages while they come.
    """

    def __init__(
        self,
        connection: Dict[str, Any],
        on_message: Callable[[int, List[bytes]], None],
        take_large: TakeLarge = lambda channel, parts, size: None,
    ) -> None:
        buffer = memoryview(bytearray(READ_BYTES))
        self._connections: Dict[int, _Connection] = {}
        for channel, kind, name in (
            (SHELL, "DEALER", "shell"),
            (CONTROL, "DEALER", "control"),
            (STDIN, "DEALER", "stdin"),
            (IOPUB, "SUB", "iopub"),
        ):
            path = "%s-%d" % (connection["ip"], connection[name + "_port"])
            # The kernel's input_requests go to the identity of the shell socket: all have the same.
            self._connections[channel] = _Connection(
                path,
                zmtp.greeting(kind, b"keeper" if kind == "DEALER" else b""),
                b"".join(zmtp.encode([b"\1"])) if kind == "SUB" else b"",  # subscribes to all
                buffer,
                functools.partial(on_message, channel),
                functools.partial(take_large, channel),
            )

    def send(self, channel: int, parts: List[bytes]) -> None:
        """Sends a message to the kernel; never blocks."""
        self._connections[channel].send(parts)

    def drain(self) -> None:
        """Delivers everything that has arrived: the last messages of an ended kernel."""
        for connection in self._connections.values():
            connection.drain()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class _Connection:
    """One socket of the kernel, connected again when it breaks, until it is closed."""

    def __init__(
        self,
        path: str,
        greeting: bytes,
        first: bytes,
        buffer: memoryview,
        on_message: Callable[[List[bytes]], None],
        take_large: Callable[[List[bytes], int], Optional[Any]],
    ) -> None:
        self._path = path
        self._greeting = greeting
        self._first = first
        self._buffer = buffer
        self._on_message = on_message
        self._take_large = take_large
        self._loop = asyncio.get_running_loop()
        self._socket: Optional[socket.socket] = None
        self._decoder = zmtp.ZmtpDecoder(take_large)
        self._ready = False  # the peer takes messages
        self._waiting: Deque[bytes] = deque()  # messages of which the peer has nothing
        self._begun = b""  # the message that is being sent
        self._unsent = _NOTHING  # of it, or of what introduces this end
        self._attempts = 0
        self._delay = FIRST_RETRY  # seconds until the next attempt if this connection is lost
        self._reported = False  # that the peer speaks something else
        self._retry: Optional[asyncio.TimerHandle] = None
        self._closed = False
        self._connect()

    def _connect(self) -> None:
        self._retry = None
        self._attempts += 1
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            connection.connect(self._path)
        except OSError:
            connection.close()
            slow = self._attempts > EARLY_ATTEMPTS
            self._retry = self._loop.call_later(LAST_RETRY if slow else FIRST_RETRY, self._connect)
            return
        self._socket = connection
        self._decoder = zmtp.ZmtpDecoder(self._take_large)
        self._unsent = memoryview(self._greeting)
        self._loop.add_reader(connection, self._read)
        self._flush()

    def send(self, parts: List[bytes]) -> None:
        self._waiting.append(b"".join(zmtp.encode(parts)))
        if self._ready and not self._unsent:
            self._flush()

    def _flush(self) -> None:
        connection = self._socket
        if connection is None:
            return
        try:
            while True:
                while self._unsent:
                    self._unsent = self._unsent[connection.send(self._unsent[:READ_BYTES]) :]
                self._begun, self._unsent = b"", _NOTHING
                if not self._ready or not self._waiting:
                    break
                self._begun = self._waiting.popleft()
                self._unsent = memoryview(self._begun)
        except BlockingIOError:
            self._loop.add_writer(connection, self._flush)
            return
        except OSError:
            self._lost()
            return
        self._loop.remove_writer(connection)

    def _read(self, limit: float = TURN_BYTES) -> None:
        """Reads *limit* bytes at most, if so many are there."""
        while self._socket is not None and limit > 0:
            try:
                size = self._socket.recv_into(self._buffer)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR):
                    self._lost()
                return
            if not size:
                self._lost()
                return
            limit -= size
            try:
                for parts in self._decoder.feed(self._buffer[:size]):
                    self._deliver(parts)
            except Exception as error:  # of the peer; or there is no memory, or no place on a disk
                self._report(error)
                self._lost()
                return
            if not self._ready and self._decoder.peer is not None:
                self._become_ready()
            if self._decoder.answers:
                self._answer()

    def _become_ready(self) -> None:
        """ZeroMQ takes no message before it has introduced itself."""
        self._ready = True
        self._delay = FIRST_RETRY
        self._unsent = memoryview(bytes(self._unsent) + self._first)
        self._flush()

    def _answer(self) -> None:
        """Says that this end lives; not to a peer that does not even read its messages."""
        if not self._unsent and self._ready:
            self._waiting.extendleft(reversed(self._decoder.answers))
            self._flush()
        self._decoder.answers.clear()

    def _report(self, error: Exception) -> None:
        """Into the keeper's log; once if the peer speaks something else, however often it does."""
        if isinstance(error, zmtp.ZmtpError):
            if self._reported:
                return
            self._reported = True
        context = {"message": "the kernel's socket %s" % self._path, "exception": error}
        self._loop.call_exception_handler(context)

    def _deliver(self, parts: List[bytes]) -> None:
        try:
            self._on_message(parts)
        except Exception as error:  # the messages after it are delivered
            self._loop.call_exception_handler({"message": "a kernel's message", "exception": error})

    def _lost(self) -> None:
        """The connection has ended. What the kernel had sent of a message is lost, as with ZeroMQ;
        of ours, the kernel gets those again that it did not have whole.
        """
        self._disconnect()
        if not self._closed:
            self._retry = self._loop.call_later(self._delay, self._connect)
            self._delay = min(2 * self._delay, LAST_RETRY)

    def _disconnect(self) -> None:
        connection, self._socket, self._ready = self._socket, None, False
        if connection is not None:
            self._loop.remove_reader(connection)
            self._loop.remove_writer(connection)
            connection.close()
        if self._begun:
            self._waiting.appendleft(self._begun)
        self._begun, self._unsent = b"", _NOTHING
        try:
            self._decoder.abort()
        except Exception as error:
            self._report(error)

    def drain(self) -> None:
        self._closed = True
        self._read(float("inf"))
        self.close()

    def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._disconnect()
