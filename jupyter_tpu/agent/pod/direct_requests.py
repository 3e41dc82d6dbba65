"""What concerns one process only: completion, inspection, widgets, the debugger. Host 0 answers it,
and publishes what belongs to no running cell.
"""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, List, NamedTuple

from ..protocol.events import IOPUB
from .clients import Clients
from .relaying import Parsed, Relay

#: How many cells of the past are remembered, for output that comes late.
PAST = 256

#: Sends a message on a channel.
Send = Callable[[int, List[bytes]], None]


class _Request(NamedTuple):
    """A client's request that host 0 has not answered completely."""

    message: Parsed
    channel: int
    waits: FrozenSet[str]  # for "reply", "idle"


class DirectRequests:
    """The requests that are passed on to host 0.

    Parameters
    ----------
    relay: signs what is passed on.
    to_clients, to_host: send it.
    clients: they are answered when host 0 can't answer any more.
    """

    def __init__(self, relay: Relay, to_clients: Send, clients: Clients, to_host: Send) -> None:
        self._relay = relay
        self._to_clients, self._to_host = to_clients, to_host
        self._clients = clients
        self._requests: Dict[str, _Request] = {}
        self._past: Dict[str, bytes] = {}  # headers of the latest cells, by host 0's requests
        self._dead = ""  # why host 0 has ended

    def submit(self, channel: int, message: Parsed) -> None:
        """A client's request, or a message without an answer."""
        if self._dead:
            self._fail(message, channel)
            return
        waits = {"reply", "idle"} if message.kind.endswith("_request") else {"idle"}
        self._requests[message.id] = _Request(message, channel, frozenset(waits))
        self._to_host(channel, self._relay.to_host(message))

    def note_cell(self, id: str, header: bytes) -> None:
        """Host 0 runs a client's cell, which has this *header*, as the request *id*: what it
        publishes about it later belongs to the cell, too.
        """
        self._past[id] = header
        for old in list(self._past)[:-PAST]:
            del self._past[old]

    def received(self, channel: int, message: Parsed) -> None:
        """What host 0 answers or publishes."""
        request = self._requests.get(message.parent)
        if request is None:
            if channel == IOPUB and message.kind not in ("status", "iopub_welcome"):
                # Of a thread that goes on after its cell, for example.
                parent = self._past.get(message.parent, b"{}")
                self._to_clients(IOPUB, self._relay.to_client(message, message.idents, parent))
            return
        asked, _, waits = request
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

    def host_died(self, cause: str) -> None:
        """Host 0 can't answer any more, and clients wait for its answers."""
        self._dead = cause
        requests, self._requests = self._requests, {}
        for message, channel, _ in requests.values():
            self._fail(message, channel)

    def _fail(self, message: Parsed, channel: int) -> None:
        if message.kind.endswith("_request"):
            self._clients.publish("status", {"execution_state": "busy"}, message.header)
            error = {"status": "error", "ename": "KernelDied", "evalue": self._dead}
            kind = message.kind.replace("_request", "_reply")
            content = {**error, "traceback": []}
            self._clients.reply(message.idents, message.header, kind, content, channel)
            self._clients.publish("status", {"execution_state": "idle"}, message.header)
