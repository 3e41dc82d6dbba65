"""Requests about the session of a pod kernel: each is carried out by all hosts between two cells.

The keeper asks for what the fleet wants, as it asks any kernel (see `keeper.kernel_session`). Host
0 asks for what has to begin by itself: only here it is known when no host runs a cell.
"""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Optional

from ..keeper.kernel_session import ENDED, KIND
from ..protocol.events import CONTROL
from .clients import Clients
from .hosts import Asked, PodHosts
from .pod_actions import Finish, PodCell, RunCell
from .relaying import Parsed

#: What host 0 may ask for, and whether it waits for a running cell.
_WANTED = {"start": True, "begin": False}


class _Request(NamedTuple):
    header: Optional[bytes]  # of the keeper's message; None: host 0 has asked for it
    content: Dict[str, Any]


class PodSessions:
    """hosts: are asked. clients: are told what becomes of it."""

    def __init__(self, hosts: PodHosts, clients: Clients) -> None:
        self._hosts, self._clients = hosts, clients
        self._requests: Dict[str, _Request] = {}  # that have not ended, by their cells
        self._outcomes: Dict[int, Dict[str, Any]] = {}  # of what runs, by host

    def submit(self, message: Parsed) -> PodCell:
        """What the keeper asks for; it waits for its turn."""
        return self._add(_Request(message.header, message.content))

    def wanted(self, content: Dict[str, Any], *, is_free: bool) -> Optional[PodCell]:
        """What host 0 asks for; None: not now."""
        do = content.get("wanted")
        if do not in _WANTED or not (is_free or _WANTED[do]):
            return None
        return self._add(_Request(None, {"id": os.urandom(8).hex(), "do": do}))

    def _add(self, request: _Request) -> PodCell:
        id = "session-" + str(request.content["id"])
        self._requests[id] = request
        self._publish(request, {"state": "waiting"})
        return PodCell(id, stop_on_error=False, session=True)

    def find(self, id: Any) -> str:
        """The cell of a request that has not ended; "": there is none."""
        cell = "session-%s" % id
        return cell if cell in self._requests else ""

    def cancel(self, cell: str) -> None:
        """It runs: the hosts give it up if they still can."""
        content = {"do": "cancel", "id": self._requests[cell].content["id"]}
        for host in range(len(self._hosts)):
            self._hosts.send(host, CONTROL, self._hosts.signer.message(KIND, content))

    def withdrawn(self, cell: str) -> None:
        """It does not run."""
        self._publish(self._requests.pop(cell), {"state": "cancelled"})

    def refused(self, cell: str, problem: str) -> None:
        if cell in self._requests:
            self._publish(self._requests.pop(cell), {"state": "failed", "why": problem})

    def run(self, action: RunCell) -> None:
        request = self._requests[action.cell.id]
        self._outcomes = {}
        self._publish(request, {"state": "running"})
        for host in action.hosts:
            asked = Asked(host, "session", action.number)
            self._hosts.request(host, CONTROL, KIND, request.content, asked)

    def answered(self, host: int, content: Dict[str, Any]) -> bool:
        """A host says what becomes of the request; whether that is the end of it there."""
        outcome = content.get("outcome")
        if not isinstance(outcome, dict) or outcome.get("state") not in ENDED:
            return False
        self._outcomes[host] = outcome
        return True

    def finished(self, action: Finish) -> None:
        """All hosts have ended it, or can't any more."""
        problems = {
            host: result.evalue
            for host, result in action.results.items()
            if result.status != "ok" and host not in self._outcomes
        }
        self._publish(self._requests.pop(action.cell.id), merged(self._outcomes, problems))

    def _publish(self, request: _Request, outcome: Dict[str, Any]) -> None:
        if request.header is not None:
            content = {"outcome": {**outcome, "id": request.content["id"]}}
            self._clients.publish(KIND, content, request.header)


def merged(outcomes: Dict[int, Dict[str, Any]], problems: Dict[int, str]) -> Dict[str, Any]:
    """What became of a request on all hosts.

    problems: why other hosts have not ended it. Host 0 writes the manifest, so that what it has
    saved is saved. What is restored has to be there on all hosts.
    """
    first = outcomes.get(0)
    if first is None:
        why = "%s It is not known whether this was done." % problems.get(0, "Host 0 ended.")
        return {"state": "failed", "why": why}
    if first["state"] in ("saved", "empty", "failed"):
        return first
    for host in sorted({*outcomes, *problems}):
        state = outcomes.get(host, {"state": "failed", "why": problems.get(host, "")})
        if state["state"] != first["state"]:
            why = state.get("why") or "it was interrupted"
            return {"state": "failed", "why": "Host %d: %s" % (host, why)}
    return first
