"""Which requests keep a kernel busy, from the status messages that it publishes; no I/O."""

from __future__ import annotations

import json
from typing import Dict, List, Mapping, NamedTuple, Optional

from .messages import CONTENT, HEADER, PARENT, find_delimiter


class StatusMessage(NamedTuple):
    """One status message; "" for what it does not say."""

    state: str  # "busy", "idle", "starting", or a state of the kernel's own
    request: str  # the id of the request that it is about
    session: str  # the kernel's
    date: str


class KernelActivity:
    """Follows the status messages of one kernel.

    Parameters
    ----------
    running: the requests that are known to run already.
    """

    def __init__(self, running: Optional[Mapping[str, bytes]] = None) -> None:
        #: The requests that keep the kernel busy, the latest last: ids and encoded headers.
        self.running: Dict[str, bytes] = dict(running or {})
        #: "busy" while any request runs: others, on control for example, may end meanwhile.
        self.state = "starting"

    @property
    def latest(self) -> bytes:
        """The header of the running request that started last; an empty one if none runs."""
        return next(reversed(list(self.running.values())), b"{}")

    def observe(self, parts: List[bytes]) -> Optional[StatusMessage]:
        """Notes an iopub message of the kernel. Returns None unless it is a readable status."""
        try:
            at = find_delimiter(parts)
            if b'"status"' not in parts[at + HEADER]:
                return None
            header, parent, content = (
                json.loads(parts[at + part]) for part in (HEADER, PARENT, CONTENT)
            )
            if header["msg_type"] != "status":
                return None
            status = StatusMessage(
                str(content["execution_state"]),
                str(parent.get("msg_id") or ""),
                str(header.get("session") or ""),
                str(header.get("date") or ""),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None  # not a Jupyter message
        if status.state == "busy" and status.request:
            self.running[status.request] = parts[at + PARENT]
        elif status.state == "idle":
            self.running.pop(status.request, None)
        elif status.state == "starting":
            self.running.clear()
        self.state = "busy" if self.running else status.state
        return status
