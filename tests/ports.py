"""Ports for servers that a test stops and starts again."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TextIO

#: Not among those that systems give to outgoing connections (Linux from 32768, others from 49152):
#: whichever of those is free now may be somebody's while the server is away.
RANGE = range(20_000, 32_000)
#: How many of them a process has to itself.
BLOCK = 100


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, and which no other test takes meanwhile."""
    for port in itertools.islice(_ports()[1], BLOCK):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"all {BLOCK} ports of this process are in use")


@cache
def _ports() -> tuple[TextIO, Iterator[int]]:
    """The lock of this process's ports, which is held until it ends, and the ports in turn."""
    # Whatever TMPDIR is: those of all processes of this user have to differ.
    folder = Path(f"/tmp/jupyter-tpu-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    for first in range(RANGE.start, RANGE.stop, BLOCK):
        lock = (folder / str(first)).open("w")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock, itertools.cycle(range(first, first + BLOCK))
        lock.close()
    raise AssertionError(f"other test processes have all ports of {RANGE}")


def listens(port: int) -> bool:
    """Whether a server on 127.0.0.1 takes connections.

    Jupyter Server logs that it "is running" a moment before it listens.
    """
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False
