"""Which client writes a request's output into a document that several clients show.

In a shared document (jupyter-collaboration) one client writes the output of a cell, and all show
it; a second writer would double it. The writer is the client that ran the cell, or after it the
first one that asked: at once if the one that ran it has a document of its own. When it has closed,
or was away for a while, the next one takes over: it clears the output and writes all of it again. A
former writer that comes back is told so.

When the server ends, its document loses what was not saved. So all clients of the next server ask
again, also the writer, when they have the document of the new server.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from .remembered_requests import ExecuteRequest

#: Seconds for which a client that has gone remains the writer: one that closed its connection
#: (JupyterLab does so to connect again), and one whose connection broke, or that was connected to
#: an earlier server.
CLOSED_SECONDS, BROKEN_SECONDS = 1.0, 10.0
#: Seconds after it has read all, after which a writer has surely written it.
WRITTEN_SECONDS = 2.0
#: Clients that have gone and are remembered.
MAX_GONE = 32


class Fillers:
    """The writers of one kernel's requests. All methods are called on the server's loop.

    Parameters
    ----------
    on_change: called with a request and its new writer, before that writer is told.
    """

    def __init__(self, on_change: Callable[[ExecuteRequest, str], None]) -> None:
        self._on_change = on_change
        self._connections: dict[str, int] = {}  # of connected clients
        # When clients have gone, and until when they remain writers.
        self._gone: dict[str, tuple[float, float]] = {}
        self._began = time.monotonic()
        self._waiting: dict[str, tuple[ExecuteRequest, dict[str, Callable[[], None]]]] = {}

    def connected(self, client: str) -> None:
        self._connections[client] = self._connections.get(client, 0) + 1

    def disconnected(self, client: str, *, closed: bool) -> None:
        """closed: the client itself closed the connection."""
        self._connections[client] -= 1
        if self._connections[client]:
            return
        del self._connections[client]
        now = time.monotonic()
        self._gone.pop(client, None)
        self._gone[client] = now, now + (CLOSED_SECONDS if closed else BROKEN_SECONDS)
        for old in list(self._gone)[:-MAX_GONE]:
            del self._gone[old]
        for request, waiting in list(self._waiting.values()):
            waiting.pop(client, None)
            self._choose(request)

    def ask(self, request: ExecuteRequest, client: str, on_chosen: Callable[[], None]) -> None:
        """*on_chosen* is called when *client* is to write the output, at once or later."""
        self._forget_written()
        self._waiting.setdefault(request.id, (request, {}))[1][client] = on_chosen
        self._choose(request)

    def _choose(self, request: ExecuteRequest) -> None:
        _, waiting = self._waiting.get(request.id, (request, {}))
        if not waiting:
            self._waiting.pop(request.id, None)
            return
        filler = request.filler
        if filler not in waiting:
            writes = filler in self._connections and request.claimed
            if writes or self._has_written(request):
                return
            _, kept_until = self._gone.get(filler, (0.0, self._began + BROKEN_SECONDS))
            kept = kept_until - time.monotonic()
            if filler and kept > 0:
                asyncio.get_running_loop().call_later(kept, self._choose, request)
                return
            filler = next(iter(waiting))
        on_chosen = waiting.pop(filler)
        if filler != request.filler:
            self._on_change(request, filler)
        request.claimed = True
        on_chosen()

    def _forget_written(self) -> None:
        """Nobody will have to take over what was written long enough ago."""
        written = time.monotonic() - WRITTEN_SECONDS
        self._waiting = {
            id: (request, waiting)
            for id, (request, waiting) in self._waiting.items()
            if request.filled_at is None or request.filled_at > written
        }

    def _has_written(self, request: ExecuteRequest) -> bool:
        """Whether the writer, which has gone, stayed long enough after it had got all of it."""
        left, _ = self._gone.get(request.filler, (math.inf, 0.0))
        return request.filled_at is not None and left > request.filled_at + WRITTEN_SECONDS
