"""Connects standard input and output to a connected socket: the last step of our ProxyCommand.

Run as a script in an interpreter of its own (``python -I -S stdio.py FD``) with nothing else in
memory, since it runs for as long as the user's ssh. Splicing would save the copies, but when Linux
splices into a socket it expects more data, and delays each keystroke by 0.2 s.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

CHUNK_BYTES = 1 << 18


def copy(source: int, sink: int) -> None:
    """Copies bytes until the end of *source*, or until *sink* is closed."""
    buffer = bytearray(CHUNK_BYTES)
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

    def send() -> None:
        copy(0, descriptor)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()
    copy(descriptor, 1)
    os._exit(0)  # the other thread may still wait for input


if __name__ == "__main__":
    main(int(sys.argv[1]))
