"""How far each client has read one kernel's journal, also for the next server.

A position changes with each acknowledgement: several hundred times a second. So the file is not
replaced each time, which takes a millisecond, but has two places, which are written in turn. What
a killed process or a power cut leaves half written has a wrong checksum, and the other place has
the positions before it. Nothing waits for the disk: after a power cut positions may be older than
they were, and a client gets again what it has.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

#: Clients whose positions are remembered, the latest ones.
MAX_CLIENTS = 32
#: Bytes of one of the two places.
PLACE_BYTES = 64 << 10


class ClientPositions:
    """Positions of clients, in memory and in a file.

    Parameters
    ----------
    path: the file. It is not kept open: a server may have many kernels.
    new: no client can have read anything.
    """

    def __init__(self, path: Path, *, new: bool) -> None:
        #: Up to where each client is known to have read.
        self.acknowledged: dict[str, int] = {}
        self._version = 0  # of the newest state in the file
        self._path: Path | None = path
        with suppress(OSError):
            data = path.read_bytes()
            for place in 0, PLACE_BYTES:
                with suppress(ValueError):
                    version, acknowledged = json.loads(unseal(data[place : place + PLACE_BYTES]))
                    if version > self._version:
                        self._version, self.acknowledged = version, acknowledged
        #: The file was damaged, so it is not known who has read what.
        self.lost = not new and not self._version
        if new:
            self._write()

    def connect(self, client: str, number: int, connected: dict[str, int]) -> None:
        """*client* is now the latest one. Of the others, those not *connected* may be forgotten."""
        self.acknowledged.pop(client, None)
        self.acknowledged[client] = number
        for old in list(self.acknowledged)[:-MAX_CLIENTS]:
            if old not in connected:
                del self.acknowledged[old]
        self._write()

    def acknowledge(self, client: str, number: int) -> None:
        self.acknowledged[client] = number
        self._write()

    def close(self) -> None:
        """The file belongs to another process from now on, or is deleted."""
        self._path = None

    def _write(self) -> None:
        if self._path is None:
            return
        self._version += 1
        data = seal(json.dumps([self._version, self.acknowledged]).encode())
        with suppress(OSError):  # a full disk; the older state stays in the other place
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, data[:PLACE_BYTES], self._version % 2 * PLACE_BYTES)
            finally:
                os.close(file)


def seal(content: bytes) -> bytes:
    """*content*, which has no line ends, as one line with its checksum."""
    return b"%08x %b\n" % (zlib.crc32(content), content)


def unseal(data: bytes) -> bytes:
    """What was sealed at the start of *data*; whatever follows it is ignored.

    Raises ValueError if it is damaged.
    """
    line, end, _ = data.partition(b"\n")
    checksum, _, content = line.partition(b" ")
    if not end or checksum != b"%08x" % zlib.crc32(content):
        raise ValueError("its checksum is wrong")
    return content
