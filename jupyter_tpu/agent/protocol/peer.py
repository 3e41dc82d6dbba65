"""Who is at the other end of a unix socket."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any


def peer_user(connection: Any) -> int:
    """The numeric user at the other end of *connection*; ours where the system cannot say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return os.getuid()
    size = struct.calcsize("3i")
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))[1]
