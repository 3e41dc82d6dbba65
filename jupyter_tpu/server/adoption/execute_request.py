"""An execute request, remembered while pages may ask for it again."""

from __future__ import annotations

import json

from ...agent.protocol import messages


class ExecuteRequest:
    """One execute request and its progress.

    Parameters
    ----------
    message: as it is sent to the kernel. Raises ValueError if it is not a Jupyter message.
    """

    def __init__(self, message: list[bytes]) -> None:
        at = messages.find_delimiter(message)
        self.first = 0  # the number of its record
        self.message: list[bytes] | None = message  # until the kernel is known to have it
        self.id = ""
        self.cell = _cell(message[at + messages.METADATA])  # "" if it belongs to no cell
        self.idle = self.replied = False
        self.end = 0  # the number of the last record of its output, once it has ended
        self.count: int | None = None  # its execution count, once it has ended
        # When a client had read its end: on the monotonic clock, and in seconds since 1970.
        self.read_at: float | None = None
        self.read_date = 0.0
        self.readers: set[str] = set()  # clients that show its output
        self.filler = ""  # the client that writes its output into a shared document
        self.former_fillers: set[str] = set()
        self.claimed = False  # its filler writes, or has written, for this process
        # Whether its filler has to write all of it again, and when it had been sent all of it, on
        # the monotonic clock.
        self.rewritten = False
        self.repeated_at: float | None = None
        self.written_date: float | None = None  # filled_at, in seconds since 1970
        try:
            fields = json.loads(message[at + messages.HEADER])
            self.id = str(fields["msg_id"])
            self.filler = str(fields["session"])
            self.readers.add(self.filler)
        except (ValueError, KeyError, TypeError):
            pass  # the kernel reports the mistake; no page can ask for its output again

    def set_filler(self, client: str) -> None:
        """*client*, which may be the one that it was, writes all of the output again."""
        self.former_fillers = {*self.former_fillers, self.filler} - {client}
        self.filler = client
        self.rewritten = True
        self.repeated_at = self.written_date = None
        self.readers.add(client)

    @property
    def filled_at(self) -> float | None:
        """When its filler had got all of its output, on the monotonic clock."""
        if not self.rewritten:
            return self.read_at
        if self.read_at is None or self.repeated_at is None:
            return None
        return max(self.read_at, self.repeated_at)

    @property
    def ended(self) -> bool:
        return self.idle and self.replied


def _cell(metadata: bytes) -> str:
    """The id of the request's cell, which JupyterLab adds; "" without one."""
    try:
        return str(json.loads(metadata).get("cellId") or "")
    except (ValueError, AttributeError):
        return ""
