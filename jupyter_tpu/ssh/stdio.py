"""Standard input and output to a connected socket and back: the last act of our ProxyCommand.

Run as a script in an interpreter of its own (``python -I -S stdio.py FD``) that has nothing else in
memory: it stays for as long as somebody's ssh does. Splicing would spare the copies, but Linux
splices into a socket as if more were to come, and then waits 0.2 s before it sends a keystroke.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

CHUNK = 1 << 18


def carry(source: int, sink: int) -> None:
    """Moves bytes until the end of *source*, or until nobody takes them."""
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    with contextlib.suppress(OSError):
        while count := os.readv(source, [buffer]):
            start = 0
            while start < count:
                start += os.write(sink, view[start:count])


def main(number: int) -> None:
    connection = socket.socket(fileno=number)
    connection.setblocking(True)
    descriptor = connection.fileno()

    def upward() -> None:
        carry(0, descriptor)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=upward, daemon=True).start()
    carry(descriptor, 1)
    os._exit(0)  # the other thread may wait for an input that does not end


if __name__ == "__main__":
    main(int(sys.argv[1]))
