"""What one client gets of a kernel's journal: each message once and in order.

All channels are in one journal, in which each client has its own position. So a client gets what
it has missed, whether it or the server was away.

A page with our extension acknowledges what it gets. It sends its position in the URL
(``jupyter_tpu_seen``; empty for a new page) and the server that it was connected to
(``jupyter_tpu_server``), says if its document is never one that pages share
(``jupyter_tpu_document=own``), reads each message's number in its metadata, and drops messages that
it has. The metadata of an execute_input also have the cell of the request, whichever client sent
it. Waiting messages are coalesced (``agent/protocol/coalescing.py``): a message has the number of
the last one merged into it. Page and server also exchange text frames
``{"jupyter_tpu": …}``:

========================  =====================================================================
to the page: ``at``       its position: the messages after it follow
``server``                with ``at``: an id of this server
``requests``              with ``at``, to a new page: requests that run or have ended recently: id,
                          cell id, execution count (null while it runs), code, and the number of
                          lines that it has printed
``lost``                  with ``at``: requests whose output another page now fills in
``unwritten``             with ``at``, to a page of an earlier server: requests (ids, cells and
                          counts) whose output a document may have lost that was shared there
``fill``                  this page is to fill in this request's output
``replayed``              all output of this request up to the page's position was sent; with
                          ``missing`` if the request is unknown
``answered``              the id of an input_request that some client has answered
from the page: ``seen``   it has everything up to this number
``repeat``                requests whose output it wants, each with the number up to which it has
                          it; their replies are for this page, too; ``shown`` is false with it if
                          no cell of the page shows them
``fill``                  a request: it shows a document that other pages show, too, and asks to be
                          told when it is the one to fill in the output (``fillers.py``)
========================  =====================================================================

From ``repeat`` until ``replayed`` the page takes the request's messages from the repetition alone
(they are marked ``replayed``), and drops those that come live: they are in the repetition, too.

Other clients acknowledge by the pong of their websocket. When their connection has broken, they
get what they have not acknowledged again, at most ``PLAIN_WINDOW``: twice rather than never. Their
messages are not coalesced, so that a client can recognise them by their ids. A client that names
the last messages that it has in the URL (``jupyter_tpu_last``: their ids, separated by commas) gets
those after the newest of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import zmq

from ...kernels.kernel_info import asks_for_info
from ...on_host.agent.protocol import messages
from ...on_host.agent.protocol.coalescing import Coalescer
from ...on_host.agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN
from ...on_host.agent.protocol.segments import NumberedMessage
from .client_message import V1, can_be_written_in_pieces, parse, signed, split, write_in_pieces
from .journal_file import MESSAGE, ClosedError, JournalReader, JournalRecord, StoredContent
from .persisted_kernel import ANSWERED, PersistedKernel
from .remembered_requests import ExecuteRequest

#: Unacknowledged bytes in flight to a client. Further messages wait in the journal.
WINDOW_BYTES = 4 << 20
#: Bytes that are read from the journal, and coalesced, at a time.
BATCH_BYTES = 256 << 10
#: The same two for clients without our extension, which may get so much twice.
PLAIN_WINDOW, PLAIN_BATCH = 64 << 10, 16 << 10

#: Codes with which a client closes its connection.
CLOSED = 1000, 1001, 1005
_NAMES = {SHELL: "shell", CONTROL: "control", STDIN: "stdin", IOPUB: "iopub"}


class ClientFeed:
    """Sends one client the messages that it does not have yet."""

    def __init__(
        self, connection: Any, kernel: PersistedKernel, send: Callable[[Any, list[Any]], None]
    ) -> None:
        self._connection = connection
        self._kernel = kernel
        self._send_message = send
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._wake_due = False
        self._reader: JournalReader | None = None
        self._client = ""
        self._page_seen: int | None = None  # the page's own position
        self._page_acknowledges = False  # it is a page with our extension
        self._own_document = False  # which it shares with no other page
        self._window, self._batch = WINDOW_BYTES, BATCH_BYTES
        self._in_flight: deque[tuple[int, int]] = deque()  # number and bytes, not acknowledged
        self._in_flight_bytes = 0
        # Requests to be repeated, each with the number up to which the client has its output.
        self._replays: deque[tuple[ExecuteRequest, int]] = deque()
        self._follows: set[str] = set()  # repeated requests, of other clients
        self._task: asyncio.Task[None] | None = None

    # ---- its life

    def start(self) -> None:
        """Called when the websocket is open and the ports are connected."""
        connection, handler = self._connection, self._connection.websocket_handler
        iopub = connection.channels.get("iopub")
        if iopub is None or iopub.closed() or handler.ws_connection is None:
            return
        # Subscribe only to the relay's own messages.
        iopub.setsockopt(zmq.SUBSCRIBE, relay_topic(connection.kernel_id))
        iopub.setsockopt(zmq.UNSUBSCRIBE, b"")
        # A short cell is several small messages: none may wait until the client's system has
        # acknowledged the one before, which takes 40 ms.
        handler.set_nodelay(True)
        seen = handler.get_argument("jupyter_tpu_seen", None)
        self._page_acknowledges = seen is not None
        self._page_seen = int(seen) if seen and re.fullmatch("[0-9]{1,18}", seen) else None
        self._own_document = handler.get_argument("jupyter_tpu_document", "") == "own"
        self._client = connection.session.session
        self._reader = self._kernel.connect(
            self._client, self._page_seen, self._wake, new=self._page_acknowledges
        )
        if self._page_acknowledges:
            self._send_position(handler.get_argument("jupyter_tpu_server", ""))
        else:
            self._window, self._batch = PLAIN_WINDOW, PLAIN_BATCH
            self._skip_to(handler.get_argument("jupyter_tpu_last", ""))
            self._listen_to_pongs(handler)
        self._task = self._loop.create_task(self._run(), name=f"feed of {self._client}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._reader is not None:
            self._reader = None
            closed = self._connection.websocket_handler.close_code in CLOSED
            self._kernel.disconnect(self._client, self._wake, closed=closed)

    def _skip_to(self, last: str) -> None:
        """Continues after the newest of the messages with these ids, which the client has."""
        assert self._reader is not None
        ids, journal, has = set(last.split(",")), self._kernel.journal, 0
        reader = journal.reader(self._reader.number)
        # It has at most a window more than it has acknowledged, unless that was lost.
        rest = math.inf if self._kernel.positions_lost else PLAIN_WINDOW + PLAIN_BATCH
        while last and rest > 0 and (entries := journal.read(reader, BATCH_BYTES)):
            rest -= sum(entry.size for entry in entries)
            has = max([has, *(e.number for e in entries if _id_of(e) in ids)])
        if has:
            self._reader = journal.reader(has + 1)
            self._kernel.acknowledge(self._client, has)

    def _send_position(self, server: str) -> None:
        """*server*: the one that the page was connected to before."""
        assert self._reader is not None
        fields: dict[str, Any] = {"at": self._reader.number - 1, "server": self._kernel.server}
        if lost := self._kernel.lost_requests(self._client):
            fields["lost"] = lost
        if self._page_seen is None:
            shown = self._kernel.requests_to_show(self._client)
            # With more of each, for a page whose notebook was not saved with the cell.
            fields["requests"] = [
                {**described, "code": request.code, "lines": request.lines}
                for described, request in zip(_described(shown), shown, strict=True)
            ]
        if server != self._kernel.server:
            new = self._page_seen is None
            fields["unwritten"] = _described(self._kernel.unwritten_requests(self._client, new=new))
        self._notify_page(fields)

    def _listen_to_pongs(self, handler: Any) -> None:
        usual = handler.on_pong

        def on_pong(data: bytes) -> None:
            usual(data)
            if re.fullmatch(b"[0-9]{1,18}", data):
                self._acknowledged(int(data))

        handler.on_pong = on_pong

    # ---- to the client

    def _wake(self) -> None:
        """From any thread."""
        if not self._wake_due:
            self._wake_due = True
            self._loop.call_soon_threadsafe(self._wake_here)

    def _wake_here(self) -> None:
        self._wake_due = False
        self._woken.set()

    async def _run(self) -> None:
        with contextlib.suppress(ClosedError):  # the kernel has ended and its journal is deleted
            await self._feed()

    async def _feed(self) -> None:
        while True:
            while self._replays:
                await self._replay()
            entries = await self._read(self._reader)
            if not entries:
                await self._woken.wait()
                self._woken.clear()
                continue
            for message, stored in self._messages(entries, self._is_for_client):
                self._deliver(message, stored)
            for entry in entries:
                if entry.kind == ANSWERED:
                    self._notify_page({"answered": entry.parts[0].decode()})
            self._request_pong(entries[-1].number)
            await asyncio.sleep(0)  # let other tasks run

    async def _read(self, reader: JournalReader | None) -> list[JournalRecord]:
        """The next records, when the window has room; [] at the end."""
        while self._in_flight_bytes > self._window:
            await self._woken.wait()
            self._woken.clear()
        return self._kernel.journal.read(reader, self._batch) if reader is not None else []

    async def _replay(self) -> None:
        """Sends the output of the requests that are to be repeated, up to the client's position.

        In one pass: a new page asks for all cells of a long queue, whose requests were recorded
        before any output.
        """
        assert self._reader is not None
        replays, end = list(self._replays), self._reader.number
        self._replays.clear()
        starts: dict[str, int] = {}
        for request, after in replays:
            start = max(request.first, after + 1)
            starts[request.id] = min(start, starts.get(request.id, start))
        only = next(iter(starts)).encode() if len(starts) == 1 else b""  # found without decoding

        def belongs(entry: JournalRecord) -> bool:
            at = messages.find_delimiter(entry.parts)
            if entry.number >= end or only not in entry.parts[at + messages.PARENT]:
                return False
            try:
                parent = messages.decode_part(entry.parts, messages.PARENT).get("msg_id")
            except ValueError:
                return False
            if entry.number < starts.get(str(parent), end):
                return False
            return entry.channel != STDIN or self._kernel.is_open(entry.parts)

        reader = self._kernel.journal.reader(min(starts.values()))
        while reader.number < end and (entries := await self._read(reader)):
            for message, stored in self._messages(entries, belongs):
                if message.last < self._kernel.record.launched:
                    self._set_session(message.parts)
                self._deliver(message, stored, replayed=True)
            await asyncio.sleep(0)
        for request, _ in replays:
            if request.filler == self._client:
                self._kernel.set_repeated(request)
            self._notify_page({"replayed": request.id})
        self._send_running()

    def _set_session(self, parts: list[bytes]) -> None:
        """Gives a message of a kernel that died the session of the one that took its place.

        JupyterLab drops what came before a message of another session.
        """
        at = messages.find_delimiter(parts) + messages.HEADER
        parts[at] = json.dumps(
            {**json.loads(parts[at]), "session": self._kernel.signer.session}
        ).encode()

    def _messages(
        self, entries: list[JournalRecord], fits: Callable[[JournalRecord], bool]
    ) -> Iterator[tuple[NumberedMessage, StoredContent | None]]:
        """What is sent of *entries*: small ones coalesced, and perhaps a large one, the last."""
        numbered = [
            (NumberedMessage(entry.number, entry.number, entry.channel, 0, entry.parts), entry)
            for entry in entries
            if entry.kind == MESSAGE and fits(entry)
        ]
        small = [message for message, entry in numbered if entry.stored is None]
        if self._page_acknowledges and small:
            small = Coalescer(self._kernel.signer).coalesce(small)
        yield from ((message, None) for message in small)
        yield from ((message, entry.stored) for message, entry in numbered if entry.stored)

    def _is_for_client(self, entry: JournalRecord) -> bool:
        if entry.channel == IOPUB:
            return True
        if entry.channel == STDIN and not self._kernel.is_open(entry.parts):
            return False
        if entry.parts[0] == self._client.encode():
            return True
        try:
            parent = messages.decode_part(entry.parts, messages.PARENT)
        except ValueError:
            return False
        return parent.get("msg_id") in self._follows

    def _deliver(
        self, message: NumberedMessage, stored: StoredContent | None, *, replayed: bool = False
    ) -> None:
        at = messages.find_delimiter(message.parts)
        parts = message.parts[at:]
        if self._page_acknowledges:
            mark: dict[str, Any] = {"number": message.last, "replayed": replayed}
            if b'"execute_input"' in parts[messages.HEADER] and (cell := self._cell_of(parts)):
                mark["cell"] = cell
            parts[messages.METADATA] = _with_mark(parts[messages.METADATA], mark)
        if not replayed:
            size = sum(map(len, parts)) + (sum(stored.sizes) if stored else 0)
            self._in_flight.append((message.last, size))
            self._in_flight_bytes += size
        if stored is None:
            self._send(message.channel, parts)
        else:
            with contextlib.suppress(ClosedError):  # it was removed in the meantime
                rest = self._kernel.journal.read_content(stored)
                self._send_large(message.channel, parts[: messages.CONTENT], stored.sizes, rest)

    def _cell_of(self, parts: list[bytes]) -> str:
        """The cell whose request a message answers; "" if it is not known."""
        try:
            request_id = json.loads(parts[messages.PARENT]).get("msg_id")
        except (ValueError, AttributeError):
            return ""
        request = self._kernel.requests.get(str(request_id))
        return request.cell if request is not None else ""

    def _send_large(
        self, channel: int, head: list[bytes], sizes: list[int], rest: deque[bytes]
    ) -> None:
        """Sends a message of *head* and of the parts of these *sizes* that are in *rest*."""
        handler = self._connection.websocket_handler
        # The base class may hide an error's traceback.
        as_it_is = channel == IOPUB and b'"error"' not in head[messages.HEADER]
        if as_it_is and self._connection.subprotocol == V1 and can_be_written_in_pieces(handler):
            name = _NAMES[channel].encode()
            write_in_pieces(handler, name, head[messages.HEADER :], sizes, rest)
        else:
            self._send(channel, [*head, *split(rest, sizes)])

    def _send(self, channel: int, parts: list[bytes]) -> None:
        stream = self._connection.channels.get(_NAMES[channel])
        if stream is not None:
            self._send_message(stream, parts)

    def _notify_page(self, fields: dict[str, Any]) -> None:
        if self._page_acknowledges and self._connection.websocket_handler.ws_connection is not None:
            self._connection.write_message(json.dumps({"jupyter_tpu": fields}))

    def _request_pong(self, number: int) -> None:
        handler = self._connection.websocket_handler
        if not self._page_acknowledges and handler.ws_connection is not None:
            handler.ping(str(number).encode())

    # ---- from the client

    def _acknowledged(self, number: int) -> None:
        while self._in_flight and self._in_flight[0][0] <= number:
            self._in_flight_bytes -= self._in_flight.popleft()[1]
        if self._reader is not None:
            self._kernel.acknowledge(self._client, min(number, self._reader.number - 1))
        self._woken.set()

    def handles(self, frame: Any) -> bool:
        """Handles a message of the client. False: the base class must pass it to the kernel."""
        if (
            self._page_acknowledges
            and isinstance(frame, str)
            and frame.startswith('{"jupyter_tpu"')
        ):
            self._handle_page(json.loads(frame)["jupyter_tpu"])
            return True
        channel, body = parse(self._connection, frame)
        if channel == "stdin":
            self._kernel.record_client_message(STDIN, signed(self._connection, body))
        if channel != "shell":
            return False
        header = body[0]
        if b'"comm_' in header:
            self._kernel.record_client_message(SHELL, signed(self._connection, body))
            return False
        if b'"execute_request"' in header:
            known = self._kernel.record_request(
                signed(self._connection, body), fills=not self._own_document
            )
            if known is None:
                return False
            # It has been run: it is not run again, but its output is sent again.
            self._repeat(known, 0)
            known.readers.add(self._client)
            return True
        return asks_for_info(header) and self._reply_kernel_info(header)

    def _handle_page(self, fields: dict[str, Any]) -> None:
        """Handles what a page with our extension says besides a kernel's messages."""
        if isinstance(seen := fields.get("seen"), int):
            self._acknowledged(seen)
        repeat = fields.get("repeat")
        for request_id, after in repeat.items() if isinstance(repeat, dict) else ():
            if request := self._known(request_id):
                self._repeat(request, after if isinstance(after, int) else 0)
                if fields.get("shown", True):
                    request.readers.add(self._client)
        if isinstance(fill := fields.get("fill"), str) and (request := self._known(fill)):
            self._kernel.fillers.ask(
                request, self._client, lambda: self._notify_page({"fill": fill})
            )

    def _known(self, request_id: str) -> ExecuteRequest | None:
        request = self._kernel.requests.get(request_id)
        if request is None:
            self._notify_page({"replayed": request_id, "missing": True})
        return request

    def _repeat(self, request: ExecuteRequest, after: int) -> None:
        self._follows.add(request.id)
        self._replays.append((request, after))
        self._woken.set()

    def _reply_kernel_info(self, header: bytes) -> bool:
        """Answers kernel_info from memory, even while the kernel is busy. False: it is unknown."""
        info = self._kernel.info
        if info is None or self._reader is None:
            return False
        signer = self._kernel.signer
        busy, idle = {"execution_state": "busy"}, {"execution_state": "idle"}
        self._send(IOPUB, signer.message("status", busy, parent=header))
        self._send(SHELL, signer.message("kernel_info_reply", info, parent=header))
        self._send(IOPUB, signer.message("status", idle, parent=header))
        self._send_running()
        return True

    def _send_running(self) -> None:
        """Repeats that the kernel is busy, if it is, after other states were sent."""
        activity = self._kernel.requests.activity
        if activity.running:
            busy = {"execution_state": "busy"}
            parent = activity.latest
            self._send(IOPUB, self._kernel.signer.message("status", busy, parent=parent))


def _described(requests: list[ExecuteRequest]) -> list[dict[str, Any]]:
    return [
        {"id": request.id, "cell": request.cell, "count": request.count} for request in requests
    ]


def relay_topic(kernel_id: str) -> bytes:
    """The prefix of the topics of the relay's own messages."""
    return f"kernel.{kernel_id}.".encode()


def _id_of(entry: JournalRecord) -> str | None:
    """The id of a stored message; None if it is none."""
    try:
        return messages.decode_part(entry.parts, messages.HEADER).get("msg_id")
    except ValueError:
        return None


def _with_mark(metadata: bytes, mark: dict[str, Any]) -> bytes:
    existing = {} if metadata == b"{}" else json.loads(metadata)
    return json.dumps({**existing, "jupyter_tpu": mark}).encode()
