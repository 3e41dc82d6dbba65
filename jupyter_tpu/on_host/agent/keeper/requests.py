"""The requests that a kernel has not completed, and what their cells show if it dies.

A kernel that dies answers nothing more, and its clients would wait forever. So the keeper answers
for it: the running cell gets an error with the cause, and the cells after it count as aborted.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from ..protocol import messages
from ..protocol.activity import KernelActivity
from ..protocol.events import IOPUB, SHELL

#: What a running cell shows when Google announces that it is about to stop this host.
INTERRUPTIONS = {
    "preemption": "Google is about to preempt this TPU. This ends the kernel.",
    "maintenance": "Google is about to restart this TPU for maintenance. This ends the kernel.",
}
#: How many cells that wait are remembered.
REMEMBERED_CELLS = 4096
#: Lines of the process's own output that are shown with the error.
ERROR_LINES = 60


class _Cell(NamedTuple):
    """An execute_request."""

    idents: List[bytes]  # of its client
    id: str
    notebook_cell: str  # "" if its client does not say it


class Requests:
    """Tracks the requests to one kernel.

    Parameters
    ----------
    key: signs the kernel's messages.
    """

    def __init__(self, key: str) -> None:
        self._signer = messages.MessageSigner(key, "kernel")
        # Not answered yet, in order, by their headers: different clients may use one id.
        self._cells: Dict[bytes, _Cell] = {}
        self._counts: Dict[str, Any] = {}  # their execution counts, once they run
        self.activity = KernelActivity()
        self._last_cell = ""  # that ran when the kernel died

    @property
    def cell(self) -> str:
        """The id of the notebook's cell that runs, or was running when the kernel died."""
        running = self.activity.running
        cells = (cell.notebook_cell for cell in self._cells.values() if cell.id in running)
        return next(cells, self._last_cell)

    def note_request(self, parts: List[bytes]) -> None:
        """A client's message for the kernel on shell."""
        with suppress(ValueError):
            at = messages.find_delimiter(parts)
            header = parts[at + messages.HEADER]
            if b'"execute_request"' in header:
                id = str(messages.decode_part(parts, messages.HEADER).get("msg_id"))
                cell = messages.decode_part(parts, messages.METADATA).get("cellId")
                self._cells[header] = _Cell(list(parts[:at]), id, str(cell or "")[:200])
                if len(self._cells) > REMEMBERED_CELLS:
                    del self._cells[next(iter(self._cells))]

    def note_message(self, channel: int, parts: List[bytes], at: int) -> None:
        """The kernel's message, whose delimiter is at *at*."""
        header = parts[at + messages.HEADER]
        status = self.activity.observe(parts) if channel == IOPUB else None
        if status is not None and status.session:
            # JupyterLab drops pending messages when one of another session arrives.
            self._signer.session = status.session
        with suppress(ValueError, AttributeError):
            if channel == SHELL and b'"execute_reply"' in header:
                request = json.loads(parts[at + messages.PARENT]).get("msg_id")
                # A kernel answers them in their order.
                done = next((key for key, cell in self._cells.items() if cell.id == request), b"")
                self._cells.pop(done, None)
                self._counts.pop(request, None)
            elif channel == IOPUB and b'"execute_input"' in header:
                request = json.loads(parts[at + messages.PARENT]).get("msg_id")
                if any(cell.id == request for cell in self._cells.values()):
                    count = json.loads(parts[at + messages.CONTENT]).get("execution_count")
                    self._counts[request] = count

    def tell_running(self, text: str) -> Iterator[Tuple[int, List[bytes]]]:
        """The messages with which the running cells show a line of *text*, with their channels."""
        cells = {cell.id for cell in self._cells.values()}
        for request, header in self.activity.running.items():
            if request in cells:
                yield self._publish("stream", {"name": "stderr", "text": text + "\n"}, header)

    def answer_all(self, cause: str, output: str) -> Iterator[Tuple[int, List[bytes]]]:
        """The messages with which a dead kernel's requests end, each with its channel.

        cause: why it died. output: what the process itself printed last.
        """
        traceback = ["\x1b[0;31mKernelDied\x1b[0m: %s" % cause, *output.splitlines()[-ERROR_LINES:]]
        died = {"ename": "KernelDied", "evalue": cause, "traceback": traceback}
        running = self.activity.running
        self._last_cell = self.cell
        for header, cell in self._cells.items():
            if running.pop(cell.id, None) is not None:  # the first of its id
                yield self._publish("error", died, header)
                reply = {"status": "error", "execution_count": self._counts.get(cell.id), **died}
            else:
                reply = {"status": "aborted"}
            yield (
                SHELL,
                self._signer.message("execute_reply", reply, parent=header, idents=cell.idents),
            )
        for header in (*running.values(), *self._cells):
            yield self._publish("status", {"execution_state": "idle"}, header)
        self._cells.clear()
        running.clear()

    def _publish(
        self, kind: str, content: Dict[str, Any], parent: bytes
    ) -> Tuple[int, List[bytes]]:
        topic = b"kernel." + kind.encode()
        return IOPUB, self._signer.message(kind, content, parent=parent, idents=[topic])
