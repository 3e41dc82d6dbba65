"""The heartbeat ports of all kernels of this process, answered by one thread.

Clients take a kernel for dead if it does not answer for a second. The core loop is too busy for
that, for example with writing to disks, so a thread answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import zmq

from ..per_process import per_process


class Heartbeat:
    """Echoes messages at *endpoint*, while it is *beating*, until :meth:`close`.

    Parameters
    ----------
    context: of the other ports, which is the same for all kernels.

    Raises zmq.ZMQError if the port is in use.
    """

    def __init__(self, context: zmq.Context[Any], endpoint: str) -> None:
        #: False: the kernel is dead, and messages are dropped.
        self.beating = True
        self.socket = zmq.Context(shadow=context).socket(zmq.ROUTER)
        self.socket.linger = 0
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError:
            self.socket.close()
            raise
        self._thread = _echo_thread(context)
        self._thread.call(self._thread.add, self)  # the thread alone uses the socket from now on

    def close(self) -> None:
        """Frees the port."""
        self._thread.call(self._thread.remove, self)


class _EchoThread:
    def __init__(self, context: zmq.Context[Any]) -> None:
        plain = zmq.Context(shadow=context)
        self._heartbeats: dict[Any, Heartbeat] = {}  # by their sockets
        self._poller = zmq.Poller()
        self._calls: SimpleQueue[tuple[Callable[[Heartbeat], None], Heartbeat]] = SimpleQueue()
        self._waker, self._woken = plain.socket(zmq.PAIR), plain.socket(zmq.PAIR)
        self._woken.bind("inproc://heartbeats")
        self._waker.connect("inproc://heartbeats")
        self._poller.register(self._woken, zmq.POLLIN)
        threading.Thread(target=self._run, name="heartbeats", daemon=True).start()

    def call(self, method: Callable[[Heartbeat], None], heartbeat: Heartbeat) -> None:
        """Calls a method on the thread. Only for the core loop, which owns the waker."""
        self._calls.put((method, heartbeat))
        self._waker.send(b"")

    def add(self, heartbeat: Heartbeat) -> None:
        self._heartbeats[heartbeat.socket] = heartbeat
        self._poller.register(heartbeat.socket, zmq.POLLIN)

    def remove(self, heartbeat: Heartbeat) -> None:
        del self._heartbeats[heartbeat.socket]
        self._poller.unregister(heartbeat.socket)
        heartbeat.socket.close()

    def _run(self) -> None:
        while True:
            for socket, _ in self._poller.poll():
                heartbeat = self._heartbeats.get(socket)
                parts = [] if socket.closed else socket.recv_multipart()
                if heartbeat is not None and heartbeat.beating:
                    socket.send_multipart(parts)
                elif socket is self._woken:
                    method, heartbeat = self._calls.get()
                    method(heartbeat)


@per_process
def _echo_thread(context: zmq.Context[Any]) -> _EchoThread:
    return _EchoThread(context)
