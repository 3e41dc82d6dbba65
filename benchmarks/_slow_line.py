"""A proxy that delays bytes, as a long line does: both ways, without limiting what is under way.

A thread of its own reads, another writes each piece when its time has come.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def slow_line(address: str, port: int, round_trip: float) -> Iterator[int]:
    """Leads a local port to *port* of *address*, *round_trip* seconds away; gives the local one."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((address, port))
            for sock in (near, far):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((near, far), (far, near)):
                _carry(source, sink, round_trip / 2)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        stopped.set()
        listener.close()


def _carry(source: socket.socket, sink: socket.socket, delay: float) -> None:
    # Long enough for what a line of 1 GB/s holds; a full one slows the sender down.
    pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(maxsize=4096)

    def take() -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                pieces.put((time.monotonic() + delay, data))
        pieces.put((time.monotonic() + delay, b""))

    def give() -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = pieces.get()
                pause = due - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    for work in (take, give):
        threading.Thread(target=work, daemon=True).start()
