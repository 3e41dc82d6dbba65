"""The requests that one kernel was sent, and their progress, as its messages show it.

A request is remembered until a while after a client has read its end. So a new page gets all output
of a running cell, and a repeated request runs only once. No I/O, and no lock of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping

from ...on_host.agent.protocol import messages
from ...on_host.agent.protocol.activity import KernelActivity, StatusMessage
from ...on_host.agent.protocol.events import IOPUB, SHELL


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
        self.code = _code(message[at + messages.CONTENT])
        self.idle = self.replied = False
        self.end = 0  # the number of the last record of its output, once it has ended
        self.count: int | None = None  # its execution count, once it has ended
        self.lines = 0  # that it has printed until now
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


#: Bytes of a request whose code is remembered.
LONGEST_CODE = 1 << 20


def _code(content: bytes) -> str:
    """What the request runs; "" if that is unknown, or too long to remember."""
    if len(content) > LONGEST_CODE:
        return ""
    try:
        return str(json.loads(content).get("code") or "")
    except (ValueError, AttributeError):
        return ""


#: Seconds for which a request is remembered after its end was read, at least: until the notebook
#: that shows it was saved. JupyterLab does so every two minutes.
REMEMBERED_SECONDS = 300.0
#: The error with which the keeper ends the cell of a kernel that died.
DIED = "KernelDied"
#: Answered input_requests that are remembered, the latest ones.
MAX_ANSWERED = 256


class RememberedRequests:
    """The execute requests of one kernel, the oldest first, and the answers to its own requests."""

    def __init__(self) -> None:
        self.activity = KernelActivity()
        self._requests: dict[str, ExecuteRequest] = {}
        self._died = False  # the kernel, on its own
        self._answered: dict[str, None] = {}  # the input_requests, the latest last

    def __iter__(self) -> Iterator[ExecuteRequest]:
        return iter(self._requests.values())

    def get(self, request_id: str) -> ExecuteRequest | None:
        return self._requests.get(request_id)

    def add(self, request: ExecuteRequest, number: int) -> None:
        """*number*: of the request's record in the journal."""
        request.first = number
        if request.id:
            self._requests[request.id] = request

    def start_kernel(self) -> None:
        """A new kernel starts. A new page still shows what the old one has answered, if no one has
        read it, or if the kernel died on its own. After a restart on purpose it does not.
        """
        self.activity = KernelActivity()
        self._requests = {
            request.id: request
            for request in self._requests.values()
            if request.ended and (self._died or request.read_at is None)
        }
        self._died = False
        self._answered.clear()

    def observe(self, channel: int, parts: list[bytes], number: int) -> StatusMessage | None:
        """Notes which requests run and which have ended; *number*: of the message's record.

        Returns the status that the message reports, if it does.
        """
        try:
            at = messages.find_delimiter(parts)
            if channel == IOPUB:
                if b'"stream"' in parts[at + messages.HEADER]:
                    self._count_lines(parts[at + messages.PARENT], parts[at + messages.CONTENT])
                return self._observe_status(parts, number)
            if channel == SHELL and b'"execute_reply"' in parts[at + messages.HEADER]:
                request_id = json.loads(parts[at + messages.PARENT]).get("msg_id")
                self._mark_end(request_id, number, idle=False)
                content = json.loads(parts[at + messages.CONTENT])
                if content.get("ename") == DIED:
                    self._died = True
                if request_id in self._requests:
                    self._requests[request_id].count = content.get("execution_count")
        except (ValueError, TypeError, AttributeError):
            pass  # not a Jupyter message; it is passed on unchanged
        return None

    def _observe_status(self, parts: list[bytes], number: int) -> StatusMessage | None:
        status = self.activity.observe(parts)
        if status is not None:
            if status.request in self._requests:
                self._requests[status.request].message = None
            if status.state == "idle":
                self._mark_end(status.request, number, idle=True)
        return status

    def _count_lines(self, parent: bytes, content: bytes) -> None:
        """Nothing is decoded: a kernel may print much. JSON has a line break as two characters."""
        for request_id in self.activity.running:
            if request_id.encode() in parent and request_id in self._requests:
                self._requests[request_id].lines += content.count(rb"\n")

    def _mark_end(self, request_id: str | None, number: int, *, idle: bool) -> None:
        request = self._requests.get(request_id or "")
        if request is not None:
            request.idle = request.idle or idle
            request.replied = request.replied or not idle
            request.end = number

    def set_answered(self, input_request: str) -> bool:
        """A client has answered an input_request of the kernel. False: another one did before."""
        if input_request in self._answered:
            return False
        self._answered[input_request] = None
        while len(self._answered) > MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
        return True

    def is_open(self, message: list[bytes]) -> bool:
        """Whether an input_request of the kernel still waits for an answer."""
        if messages.decode_part(message, messages.HEADER).get("msg_id") in self._answered:
            return False
        parent = messages.decode_part(message, messages.PARENT)
        request = self._requests.get(str(parent.get("msg_id")))
        return request is None or not request.ended

    def latest(self) -> list[ExecuteRequest]:
        """The latest request of each cell."""
        return list({request.cell: request for request in self if request.cell}.values())

    def forget_read(
        self, positions: Mapping[str, int], saved_date: Callable[[], float | None]
    ) -> list[ExecuteRequest]:
        """Forgets what was read long ago. Returns the requests whose end has now been read.

        *positions*: up to which record each client has read; *saved_date*: when the documents that
        show the output were saved, in seconds since 1970, if there are any.
        """
        now, read_now = time.monotonic(), []
        for request in list(self):
            if request.read_at is None:
                read = max((positions.get(reader, 0) for reader in request.readers), default=0)
                if request.ended and read >= request.end:
                    request.read_at, request.read_date = now, request.written_date or time.time()
                    read_now.append(request)
            elif now - request.read_at > REMEMBERED_SECONDS:
                saved = saved_date()
                if saved is None or saved > request.read_date:
                    del self._requests[request.id]
        return read_now
