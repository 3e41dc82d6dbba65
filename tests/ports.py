"""Ports for servers that a test stops and starts again."""

from __future__ import annotations

import contextlib
import random
import socket

#: Not among those that systems give to outgoing connections (Linux from 32768, others from 49152):
#: whichever of those is free now may be somebody's while the server is away.
RANGE = range(20_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    while True:
        port = random.choice(RANGE)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def listens(port: int) -> bool:
    """Whether a server on 127.0.0.1 takes connections.

    Jupyter Server logs that it "is running" a moment before it listens.
    """
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False
