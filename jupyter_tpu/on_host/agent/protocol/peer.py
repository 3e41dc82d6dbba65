"""Who is at the other end of a unix socket."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, Tuple


def peer_user(connection: Any) -> int:
    """The numeric user at the other end of *connection*; ours where the system cannot say."""
    return _credentials(connection)[1]


def peer_process(connection: Any) -> int:
    """The process at the other end, or that listens there; 0 where the system cannot say."""
    return _credentials(connection)[0]


def _credentials(connection: Any) -> Tuple[int, int]:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0, os.getuid()
    size = struct.calcsize("3i")
    ids = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return ids[0], ids[1]
