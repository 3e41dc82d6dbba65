"""What concerns one process only: completion, inspection, widgets. Host 0 answers it, and publishes
what belongs to no running cell. The debugger works on one host, too: 0, or the one that was chosen.
"""

from __future__ import annotations

import os
from typing import Callable, Dict, FrozenSet, List, NamedTuple, Optional

from ..protocol.events import IOPUB
from .clients import Clients
from .relaying import MessageRelay, Parsed

#: How many cells of the past are remembered, for output that comes late.
PAST_CELLS = 256

#: Sends a message on a channel; and to a host.
Send = Callable[[int, List[bytes]], None]
SendTo = Callable[[int, int, List[bytes]], None]


class _Request(NamedTuple):
    """A client's request that a host has not answered completely."""

    host: int
    message: Parsed
    channel: int
    waits: FrozenSet[str]  # for "reply", "idle"


class DirectRequests:
    """The requests that are passed on to one host.

    Parameters
    ----------
    relay: signs what is passed on.
    to_clients, to_host: send it.
    clients: they are answered when the host can't answer any more.
    """

    def __init__(
        self, relay: MessageRelay, to_clients: Send, clients: Clients, to_host: SendTo
    ) -> None:
        self.debugged = 0  # the host that the debugger works on
        self.stopped: Optional[int] = None  # the host that the debugger has stopped
        self._relay = relay
        self._to_clients, self._to_host = to_clients, to_host
        self._clients = clients
        self._requests: Dict[str, _Request] = {}  # by our ids: clients may repeat theirs
        self._past: Dict[str, bytes] = {}  # headers of the latest cells, by host 0's requests
        self._dead = ""  # why host 0 has ended

    def submit(self, channel: int, message: Parsed) -> None:
        """A client's request, or a message without an answer."""
        host = self.debugged if message.kind == "debug_request" else 0
        if self._dead and host == 0:
            self._fail(message, channel, self._dead)
            return
        waits = {"reply", "idle"} if message.kind.endswith("_request") else {"idle"}
        id = os.urandom(16).hex()
        self._requests[id] = _Request(host, message, channel, frozenset(waits))
        self._to_host(host, channel, self._relay.to_host(message, id))

    def note_cell(self, id: str, header: bytes) -> None:
        """Host 0, or the one that is debugged, runs a client's cell, which has this *header*, as
        the request *id*: what it publishes about it later belongs to the cell, too.
        """
        self._past[id] = header
        for old in list(self._past)[:-PAST_CELLS]:
            del self._past[old]

    def takes(self, host: int, message: Parsed) -> bool:
        """Whether a message of a host concerns no cell of the conductor's, but a client."""
        if message.kind == "debug_event":
            return host == self.debugged
        request = self._requests.get(message.parent)
        return host == (0 if request is None else request.host)

    def received(self, host: int, channel: int, message: Parsed) -> None:
        """What a host answers or publishes, if it `takes` it."""
        if message.kind == "debug_event":
            event = message.content.get("event")
            self.stopped = host if event == "stopped" else None
        request = self._requests.get(message.parent)
        if request is None or request.host != host:
            if channel == IOPUB and message.kind not in ("status", "iopub_welcome"):
                # The output of a thread that goes on after its cell, for example.
                parent = self._past.get(message.parent, b"{}")
                self._to_clients(IOPUB, self._relay.to_client(message, message.idents, parent))
            return
        _, asked, _, waits = request
        idents = message.idents if channel == IOPUB else asked.idents
        self._to_clients(channel, self._relay.to_client(message, idents, asked.header))
        if channel != IOPUB:
            waits -= {"reply"}
        elif message.kind == "status" and message.content.get("execution_state") == "idle":
            waits -= {"idle"}
        if waits:
            self._requests[message.parent] = request._replace(waits=waits)
        else:
            del self._requests[message.parent]
            self.note_cell(message.parent, asked.header)

    def host_died(self, host: int, cause: str) -> None:
        """A host can't answer any more, and clients wait for its answers."""
        if host == 0:
            self._dead = cause
        if host == self.debugged:
            self.debugged, self.stopped = 0, None
        for id, request in list(self._requests.items()):
            if request.host == host:
                del self._requests[id]
                self._fail(request.message, request.channel, cause)

    def _fail(self, message: Parsed, channel: int, cause: str) -> None:
        why = "KernelDied", cause
        self._clients.refuse(message.idents, message.header, message.kind, channel, why)
