"""How a cell ends on its hosts. No I/O."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .pod_actions import Result


class CellEnds:
    """Knows when a host has ended a cell: when its reply and the end of its output have come."""

    def __init__(self) -> None:
        self._replies: Dict[int, Dict[str, Any]] = {}
        self._silenced: Dict[int, None] = {}  # hosts whose output has ended

    def note(self, host: int, kind: str, content: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """Takes an execute_reply or a status. Returns the reply, if that was the last of both."""
        if kind == "execute_reply":
            self._replies[host] = content
        elif content.get("execution_state") == "idle":
            self._silenced[host] = None
        return self._replies.get(host) if host in self._silenced else None


def result_of(reply: Dict[str, Any]) -> Result:
    """The result that the content of an execute_reply says."""
    count = reply.get("execution_count")
    return Result(
        str(reply.get("status")),
        str(reply.get("ename", ""))[:200],
        str(reply.get("evalue", ""))[:2000],
        count if isinstance(count, int) else None,
    )
