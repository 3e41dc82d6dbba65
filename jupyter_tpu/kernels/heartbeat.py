"""The kernel's heartbeat port on this machine, answered by its own thread.

For clients, a kernel that does not answer for a second is dead. The core loop is quick, but it
shares the interpreter with imports and with other code in this process.
"""

from __future__ import annotations

import threading

import zmq


class Heartbeat:
    """Echoes messages at *endpoint* until :meth:`stop`.

    Raises zmq.ZMQError if the port is in use.
    """

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        self._thread = threading.Thread(target=self._echo, name="heartbeat", daemon=True)
        self._thread.start()

    def _echo(self) -> None:
        try:
            zmq.proxy(self._socket, self._socket)  # in C, without the interpreter's lock
        except zmq.ContextTerminated:
            self._socket.close()

    def stop(self) -> None:
        """Ends the thread and frees the port at once."""
        self._context.term()
        self._thread.join(1.0)
