"""How far each client has read one kernel's journal, also for the next server."""

from __future__ import annotations

import json
import os
from pathlib import Path

#: Clients whose positions are remembered, the latest ones.
MAX_CLIENTS = 32


class ClientPositions:
    """Positions of clients, in memory and in a file.

    Parameters
    ----------
    path: the file. It is created if it is missing.
    """

    def __init__(self, path: Path) -> None:
        #: Up to where each client is known to have read.
        self.acknowledged: dict[str, int] = {}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # It may be followed by the rest of an older, longer state.
            found, _ = json.JSONDecoder().raw_decode(os.read(self._file, 1 << 16).decode())
            self.acknowledged = {str(client): int(number) for client, number in found.items()}
        except (ValueError, AttributeError, TypeError):
            pass

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
        os.close(self._file)
        self._file = -1

    def _write(self) -> None:
        if self._file >= 0:
            os.pwrite(self._file, json.dumps(self.acknowledged).encode(), 0)
