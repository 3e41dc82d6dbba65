"""The websocket of a persisted kernel: what the kernel says comes from the journal's copy.

One journal for all channels and all clients, each of which has its own place in it, so what comes
to a client is what it has not got yet: after its own absence, or the server's. The kernel's ports
are used as ever for what clients say, and for what the relay says itself.

A page with our extension says in the address that it counts (``jupyter_tpu_seen``, its place, or
nothing if it is new), finds the number of each message in the message's metadata, drops what it
has and acknowledges what it got, so it gets each message once whatever breaks. What waits for a
client is coalesced (``agent/protocol/coalescing.py``): a message has the number of the last one
merged into it.
Page and server talk in text frames ``{"jupyter_tpu": …}``:

========================  =====================================================================
to the page ``at``        its place: messages after it will come
``requests``              with ``at``, to a new page: cells that run or ran lately, as the id of
                          the request, the cell's, and the execution count (null: it runs)
``replayed``              all there is of this request was sent
from the page ``seen``    it has everything up to this number
``shown``                 before it asks for a request again: what it has of it, as the number up to
                          which it was replayed, by the id of the request
========================  =====================================================================

Any other client acknowledges with its websocket's pong, which it gives after what came before.
After a break it may get again what it had, under the same message ids: that is not folded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
)

from ...agent.protocol import messages
from ...agent.protocol.coalescing import Coalescer
from ...agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN
from ...agent.protocol.segments import NumberedMessage
from .execute_request import ExecuteRequest
from .journal_file import MESSAGE, ClosedError, JournalRecord, Reader
from .persisted_kernel import PersistedKernel

#: Bytes sent that the client has not acknowledged; more waits in the journal.
WINDOW = 4 << 20
#: Bytes read from the journal, and folded, at a time.
BATCH = 256 << 10

V1 = "v1.kernel.websocket.jupyter.org"
_NAMES = {SHELL: "shell", CONTROL: "control", STDIN: "stdin", IOPUB: "iopub"}


def journal_websocket(
    base: type, persisted_kernel_of: Callable[[Any], PersistedKernel | None]
) -> type:
    """A subclass of the server's websocket class; other kernels get *base* itself."""

    class JournalWebsocketConnection(base):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if persisted_kernel_of(kwargs.get("parent")) is None:
                return base(*args, **kwargs)
            return super().__new__(cls, *args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            kernel = persisted_kernel_of(kwargs.get("parent"))
            assert kernel is not None
            # The journal's window paces it; the server's limits would drop what exceeds them.
            self.limit_rate = False
            self._feed = ClientFeed(self, kernel, super().handle_outgoing_message)

        def connect(self) -> Any:
            connected = super().connect()
            if connected is not None:
                connected.add_done_callback(lambda _: self._feed.start())
            return connected

        def disconnect(self) -> None:
            self._feed.stop()
            super().disconnect()
            kernels = self.multi_kernel_manager
            if self.kernel_id in kernels and self.kernel_id in kernels._kernel_buffers:
                # The journal has it all; the server's buffer would grow without bound.
                kernels.stop_buffering(self.kernel_id)

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            if not self._feed.handles(incoming_msg):
                super().handle_incoming_message(incoming_msg)

        def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
            """From the ports: the relay's own messages; the kernel's come from the journal."""
            if getattr(stream, "channel", stream) == "iopub":
                # What came before the subscription was narrowed may be the kernel's.
                own = bytes(outgoing_msg[0]).startswith(_relay_topic(self.kernel_id))
            else:
                own = any(b'"kernel_info_reply"' in bytes(part) for part in outgoing_msg)
            if own:
                super().handle_outgoing_message(stream, outgoing_msg)

    return JournalWebsocketConnection


class ClientFeed:
    """Brings one client what it has not got yet."""

    def __init__(
        self, connection: Any, kernel: PersistedKernel, send: Callable[[Any, list[Any]], None]
    ) -> None:
        self._connection = connection
        self._kernel = kernel
        self._send_message = send
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._wake_due = False
        self._reader: Reader | None = None
        self._client = ""
        self._page_seen: int | None = None  # what the page says it has
        self._page_acknowledges = False  # it is a page that counts
        # The client may have messages up to this number. It recognises them only uncoalesced.
        self._possibly_received = 0
        self._in_flight: deque[tuple[int, int]] = deque()  # number and bytes, not acknowledged
        self._in_flight_bytes = 0
        self._replays: deque[ExecuteRequest] = deque()
        self._shown: dict[str, int] = {}  # what the page has of requests it will ask for again
        self._follows: set[str] = set()  # requests of other clients that this one asked for
        self._task: asyncio.Task[None] | None = None

    # ---- its life

    def start(self) -> None:
        """The websocket is open and the ports are connected."""
        connection, handler = self._connection, self._connection.websocket_handler
        iopub = connection.channels.get("iopub")
        if iopub is None or iopub.closed() or handler.ws_connection is None:
            return
        # Of iopub only what the relay says itself.
        iopub.setsockopt(zmq.SUBSCRIBE, _relay_topic(connection.kernel_id))
        iopub.setsockopt(zmq.UNSUBSCRIBE, b"")
        seen = handler.get_argument("jupyter_tpu_seen", None)
        self._page_acknowledges = seen is not None
        self._page_seen = int(seen) if seen and seen.isdigit() else None
        self._client = connection.session.session
        self._reader = self._kernel.connect(self._client, self._page_seen, self._wake)
        if self._page_acknowledges:
            self._send_position()
        else:
            self._possibly_received = self._kernel.journal.next - 1
            self._listen_to_pongs(handler)
        self._task = self._loop.create_task(self._run(), name=f"feed of {self._client}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._reader is not None:
            self._reader = None
            self._kernel.disconnect(self._client, self._wake)

    def _send_position(self) -> None:
        assert self._reader is not None
        fields: dict[str, Any] = {"at": self._reader.number - 1}
        if self._page_seen is None:
            fields["requests"] = [
                {"id": request.id, "cell": request.cell, "count": request.count}
                for request in self._kernel.requests_to_show(self._client)
            ]
        self._notify_page(fields)

    def _listen_to_pongs(self, handler: Any) -> None:
        usual = handler.on_pong

        def on_pong(data: bytes) -> None:
            usual(data)
            if data.isdigit():
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
        with contextlib.suppress(ClosedError):  # the kernel was ended, and its journal is gone
            await self._feed()

    async def _feed(self) -> None:
        while True:
            while self._replays:
                await self._replay(self._replays.popleft())
            entries = await self._read(self._reader)
            if not entries:
                await self._woken.wait()
                self._woken.clear()
                continue
            for message in self._coalesced(entries, self._is_for_client):
                self._deliver(message)
            self._request_pong(entries[-1].number)
            await asyncio.sleep(0)  # others have their turn

    async def _read(self, reader: Reader | None) -> list[JournalRecord]:
        """The next records once there is room in the window; [] at the end."""
        while self._in_flight_bytes > WINDOW:
            await self._woken.wait()
            self._woken.clear()
        return self._kernel.journal.read(reader, BATCH) if reader is not None else []

    async def _replay(self, request: ExecuteRequest) -> None:
        """All there is of one request, up to where the client is in the journal."""
        assert self._reader is not None
        mark, end = request.id.encode(), self._reader.number

        def belongs(entry: JournalRecord) -> bool:
            at = messages.find_delimiter(entry.parts)
            return entry.number < end and mark in entry.parts[at + messages.PARENT]

        shown = self._shown.pop(request.id, 0)
        reader = self._kernel.journal.reader(max(request.first, shown + 1))
        while reader.number < end and (entries := await self._read(reader)):
            for message in self._coalesced(entries, belongs):
                self._deliver(message, replayed=True)
            await asyncio.sleep(0)
        self._notify_page({"replayed": request.id})

    def _coalesced(
        self, entries: list[JournalRecord], wanted: Callable[[JournalRecord], bool]
    ) -> list[NumberedMessage]:
        numbered = [
            NumberedMessage(entry.number, entry.number, entry.channel, 0, entry.parts)
            for entry in entries
            if entry.kind == MESSAGE and wanted(entry)
        ]
        possibly_received = [
            message for message in numbered if message.last <= self._possibly_received
        ]
        return possibly_received + Coalescer(self._kernel.signer).coalesce(
            numbered[len(possibly_received) :]
        )

    def _is_for_client(self, entry: JournalRecord) -> bool:
        if entry.channel == IOPUB:
            return True
        if entry.parts[0] == self._client.encode():
            return True
        try:
            parent = messages.decode_part(entry.parts, messages.PARENT)
        except ValueError:
            return False
        return parent.get("msg_id") in self._follows

    def _deliver(self, message: NumberedMessage, *, replayed: bool = False) -> None:
        at = messages.find_delimiter(message.parts)
        parts = message.parts[at:]
        if self._page_acknowledges:
            mark = {"number": message.last, "replayed": replayed}
            parts[messages.METADATA] = _with_mark(parts[messages.METADATA], mark)
        if not replayed:
            size = sum(map(len, parts))
            self._in_flight.append((message.last, size))
            self._in_flight_bytes += size
        self._send(message.channel, parts)

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
        """Whether a message from the client is for the feed, which then has dealt with it."""
        if (
            self._page_acknowledges
            and isinstance(frame, str)
            and frame.startswith('{"jupyter_tpu"')
        ):
            fields = json.loads(frame)["jupyter_tpu"]
            if isinstance(fields.get("seen"), int):
                self._acknowledged(fields["seen"])
            shown = fields.get("shown")
            if isinstance(shown, dict):
                self._shown.update({i: last for i, last in shown.items() if isinstance(last, int)})
            return True
        channel, body = self._parse(frame)
        if channel == "stdin":
            self._kernel.record_client_message(STDIN, self._signed(body))
        if channel != "shell":
            return False
        header = body[0]
        if b'"comm_' in header:
            self._kernel.record_client_message(SHELL, self._signed(body))
            return False
        if b'"execute_request"' in header:
            known = self._kernel.record_request(self._signed(body))
            if known is None:
                return False
            # It runs, or has run, already: nothing is run again, its output is sent again.
            known.readers.add(self._client)
            self._follows.add(known.id)
            self._replays.append(known)
            self._woken.set()
            return True
        if b'"kernel_info_request"' in header and b'"subshell_id"' not in header:
            return self._reply_kernel_info(header)
        return False

    def _parse(self, frame: Any) -> tuple[str | None, list[bytes]]:
        """Channel, and header, parent header, metadata, content and buffers of what a client sent;
        it is read by the base class, too. Byte for byte as that one hands them on: what is sent
        again is known by its header.
        """
        if self._connection.subprotocol == V1:
            channel, parts = deserialize_msg_from_ws_v1(frame)
            return channel, [bytes(part) for part in parts]
        fields = (
            deserialize_binary_message(frame) if isinstance(frame, bytes) else json.loads(frame)
        )
        parts = [
            self._connection.session.pack(fields.get(name) or {})
            for name in ("header", "parent_header", "metadata", "content")
        ]
        return fields.get("channel"), [*parts, *map(bytes, fields.get("buffers") or ())]

    def _signed(self, body: list[bytes]) -> list[bytes]:
        """A message as the base class sends it to the kernel's port: with the client's identity."""
        session = self._connection.session
        signature = session.sign(body[:4])
        return [session.bsession, messages.DELIMITER, signature, *body]

    def _reply_kernel_info(self, header: bytes) -> bool:
        """Answers from memory what the kernel is, however busy it is; False: it is not known."""
        info = self._kernel.info
        if info is None or self._reader is None:
            return False
        signer = self._kernel.signer
        running = list(self._kernel.running.values())[-1:]
        busy, idle = {"execution_state": "busy"}, {"execution_state": "idle"}
        self._send(IOPUB, signer.message("status", busy, parent=header))
        self._send(SHELL, signer.message("kernel_info_reply", info, parent=header))
        self._send(IOPUB, signer.message("status", idle, parent=header))
        for request in running:  # and this is the truth
            self._send(IOPUB, signer.message("status", busy, parent=request))
        return True


def _relay_topic(kernel_id: str) -> bytes:
    """How the topics of what the relay says itself begin."""
    return f"kernel.{kernel_id}.".encode()


def _with_mark(metadata: bytes, mark: dict[str, Any]) -> bytes:
    found = {} if metadata == b"{}" else json.loads(metadata)
    return json.dumps({**found, "jupyter_tpu": mark}).encode()
