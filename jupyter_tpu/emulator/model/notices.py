"""What the metadata servers of hosts say when Google is about to stop the host.

Not saved: an emulator that is started again has forgotten it, with what was about to happen.
Source: cloud.google.com/compute/docs/metadata/getting-live-migration-notice, and
cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

#: The keys under ``instance/``, and their values while nothing is announced.
QUIET = {"maintenance-event": "NONE", "preempted": "FALSE"}
MAINTENANCE = "TERMINATE_ON_HOST_MAINTENANCE"
Kind = Literal["maintenance-event", "preempted"]


class Notices:
    """By the ids of nodes."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], str] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def announce(self, node_id: str, kind: Kind) -> None:
        self._values[node_id, kind] = MAINTENANCE if kind == "maintenance-event" else "TRUE"
        self._wake()

    def withdraw(self, node_id: str) -> None:
        """Its hosts are new ones, of which nothing was said."""
        for kind in QUIET:
            self._values.pop((node_id, kind), None)
        self._wake()

    def close(self) -> None:
        """Ends all waits."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def get(self, node_id: str, key: str) -> str:
        return self._values.get((node_id, key), QUIET[key])

    async def wait(self, node_id: str, key: str, known: str, seconds: float) -> str:
        """The value, when it differs from *known*, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.get(node_id, key) == known and not self._closed:
                    await self._changed.wait()
        return self.get(node_id, key)
