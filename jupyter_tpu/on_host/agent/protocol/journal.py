"""The journal: a numbered, acknowledged, replayable stream of messages in both directions.

The theory of operation
=======================

Two programs, a *keeper* next to the kernel and a *client* far away, exchange messages for longer
than any one connection between them lives. A :class:`Journal` is one end of that conversation. It
does no I/O and has no clock: bytes from the peer go into :meth:`Journal.receive_data`, which
returns events; bytes for the peer come out of :meth:`Journal.data_to_send`. The owner of the
sockets (`Pump`) carries them between the two.

*Exactly once, in order.* Each message gets a number when it is given to :meth:`Journal.send`, and
is kept (in a `SegmentStore`) until the peer has acknowledged it. When a connection breaks nothing
happens to the messages. On the next one both hellos say what each end has, and sending continues
from there, in the middle of a message if need be. What arrives twice is dropped, and what is
missing is a protocol error, so an application sees each message once.

*The application acknowledges.* ``receive_data`` returns a message; only :meth:`Journal.acknowledge`
acknowledges it. A client that dies between the two has lost nothing: its successor gets the message
again. An acknowledgement travels with other data, or alone a moment later; one that is lost
with its connection is repeated on the next. A successor is known by its *stream* id, which every
:class:`Journal` object draws at random. To a peer that does not know this end's stream, sending
begins with the oldest unacknowledged message, whole.

*Two lanes* in each direction have numbers of their own. An interrupt in the URGENT lane overtakes
50 MB that wait in the NORMAL one, because messages travel in pieces of 64 KiB and a lane's next
piece is chosen only when the transport can take it. All channels of a lane share one order.

*A window* per lane limits what is in flight: at most ``window`` bytes are sent without credit from
the receiver. It gives credit for what the application has acknowledged (and for the pieces of a
single message larger than the window, as they arrive). So the receiver holds at most a window and
one message; what the sender holds is up to its store.

*Gaps.* A sender may drop messages (``evict``, ``append_gap``). They leave a record with their
numbers: first, last, how many, how many bytes, and a note of the application. It is delivered and
acknowledged like a message.

*Coalescing.* Waiting messages may be merged (``coalescing.py``); a merged message stands for the
numbers of all its parts. Only messages of which no peer can have a byte are merged, and what was
put on the wire stays as it was, so a number means the same on every connection.

*A connection's life* is the table below. ``accept`` may come at any time: a new connection replaces
the old one, which is how a client comes back whose broken link no one noticed. After a
ProtocolError the stream is still whole (the broken frame was not taken), so the owner may try again
on a new connection. The owner also decides when to stop trying.

Who may connect is not decided here: hellos carry fields of the application (the lease, see
``lease.py``), and a keeper reads them with a :class:`HelloReader` before it accepts.
"""

from __future__ import annotations

import os
from collections import deque
from enum import Enum
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import frames
from .events import (
    LANES,
    NORMAL,
    URGENT,
    Acknowledged,
    Failed,
    Gap,
    JournalEvent,
    Message,
    NoticeReceived,
    Opened,
    PongReceived,
    Rejected,
    Skipped,
)
from .frames import Decoder, ProtocolError
from .lanes import Coalesce, Evict, IncomingLane, OutgoingLane
from .segments import SegmentStore, StoredEntry

#: Bytes in flight in a lane without credit. Without those whose credit is still to be sent (see
#: `URGENT_CREDIT`) they are 100 MB/s at a round trip of 40 ms.
WINDOW_BYTES = 5 << 20


class State(str, Enum):
    DETACHED = "detached"  # no connection; messages gather
    GREETING = "greeting"  # our hello is under way, the peer's is awaited
    OPEN = "open"
    REFUSED = "refused"  # the peer rejected us; its fields say why
    FAILED = "failed"  # the peer broke the protocol on this connection


#: Every transition. Anything else is a mistake of the owner.
TRANSITIONS: Dict[Tuple[State, str], State] = {
    (State.DETACHED, "connect"): State.GREETING,
    (State.GREETING, "hello"): State.OPEN,
    (State.GREETING, "refusal"): State.REFUSED,
    (State.GREETING, "error"): State.FAILED,
    (State.OPEN, "error"): State.FAILED,
    (State.DETACHED, "break"): State.DETACHED,
    (State.GREETING, "break"): State.DETACHED,
    (State.OPEN, "break"): State.DETACHED,
    (State.REFUSED, "break"): State.DETACHED,
    (State.FAILED, "break"): State.DETACHED,
    (State.DETACHED, "accept"): State.OPEN,
    (State.GREETING, "accept"): State.OPEN,
    (State.OPEN, "accept"): State.OPEN,
    (State.REFUSED, "accept"): State.OPEN,
    (State.FAILED, "accept"): State.OPEN,
}


class HelloReader:
    """Reads the hello of an incoming connection, before it is accepted."""

    def __init__(self) -> None:
        self.decoder = Decoder()

    def feed(self, data: bytes) -> Optional[frames.Hello]:
        """The hello, once it is complete; raises :class:`ProtocolError`.

        Its fields are not checked yet: a query to a keeper begins with a hello, too.
        """
        for frame in self.decoder.feed(data):
            if not isinstance(frame, frames.Hello):
                raise ProtocolError("the peer did not begin with a hello")
            return frame
        return None


def encode_rejection(fields: Dict[str, Any]) -> bytes:
    """The answer, before closing, to a hello that is not accepted."""
    return frames.encode(frames.Notice({"refused": fields}))


class LargeMessage:
    """A message that is sent while it comes; see :meth:`Journal.begin`."""

    def __init__(self, lane: OutgoingLane, entry: StoredEntry, priority: int) -> None:
        self._lane = lane
        self._entry = entry
        self._priority = priority

    def write(self, piece: Union[bytes, memoryview]) -> None:
        """The next bytes of its last part."""
        self._lane.store.extend(self._entry, piece)

    def finish(self) -> None:
        """All of it was written."""
        self._entry.priority = self._priority

    def abort(self) -> None:
        """The rest of it does not come. Its number becomes an empty gap."""
        self._lane.abort(self._entry)


class DroppedMessage:
    """As `LargeMessage` for one above the size limit: it becomes a gap once all of it has come."""

    def __init__(self, lane: OutgoingLane, size: int) -> None:
        self._lane = lane
        self._size = size

    def write(self, piece: Union[bytes, memoryview]) -> None:
        """The next bytes of its last part."""

    def finish(self) -> None:
        """All of it has come."""
        self._lane.store.append_gap(1, self._size)

    def abort(self) -> None:
        """The rest of it does not come."""


class Journal:
    """One end of the conversation.

    Parameters
    ----------
    store: where messages of the normal lane are kept; the urgent one is short and in memory.
    window: bytes that may be in flight in a lane without the peer's credit.
    max_message: bytes; a larger message from the peer is a protocol error.
    coalesce: merges waiting messages of the normal lane; see ``coalescing.py``.
    """

    def __init__(
        self,
        store: Optional[SegmentStore] = None,
        *,
        window: int = WINDOW_BYTES,
        max_message: int = frames.MAX_MESSAGE,
        coalesce: Optional[Coalesce] = None,
    ) -> None:
        self.stream = os.urandom(12).hex()
        self.state = State.DETACHED
        self._max_message = max_message
        self._out = {
            NORMAL: OutgoingLane(SegmentStore() if store is None else store, window, coalesce),
            URGENT: OutgoingLane(SegmentStore(), window),
        }
        self._in = {lane: IncomingLane(max_message) for lane in LANES}
        self._peer: Optional[str] = None  # the stream that the incoming halves belong to
        self._decoder = Decoder()
        self._control: Deque[bytes] = deque()

    @property
    def store(self) -> SegmentStore:
        """The store of the normal lane."""
        return self._out[NORMAL].store

    @property
    def waiting(self) -> int:
        """Bytes in both lanes that the peer has not acknowledged."""
        return sum(queue.store.bytes for queue in self._out.values())

    # -- a connection's life

    def connect(self, fields: Dict[str, Any]) -> None:
        """Begins a connection as the client: sends a hello with the application's *fields*."""
        self._move("connect")
        self._begin(Decoder())
        self._control.append(self._hello(fields))

    def accept(
        self, greeting: HelloReader, hello: frames.Hello, fields: Dict[str, Any]
    ) -> List[JournalEvent]:
        """Answers the hello of a new connection, which replaces any old one.

        If the client's stream is not the one from before, the application has to forget messages
        of the old stream that it has not acknowledged.
        """
        self._move("accept")
        self._begin(greeting.decoder)
        self._control.append(self._hello(fields))
        events: List[JournalEvent] = []
        try:
            self._handle_hello(hello, events)
        except ProtocolError as error:
            return [self._fail(error)]
        return events + self.receive_data(b"")

    def disconnected(self) -> None:
        """The connection is gone."""
        self._move("break")
        self._control.clear()
        self._decoder = Decoder()

    def _begin(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._control.clear()
        for queue in self._in.values():
            queue.connected()

    def _move(self, what: str) -> None:
        try:
            self.state = TRANSITIONS[self.state, what]
        except KeyError:
            raise ValueError("%s is not possible while %s" % (what, self.state.value)) from None

    def _hello(self, fields: Dict[str, Any]) -> bytes:
        lanes = [
            [self._out[lane].store.oldest, self._in[lane].received, len(self._in[lane].partial)]
            for lane in (NORMAL, URGENT)
        ]
        hello = {"stream": self.stream, "peer": self._peer, "lanes": lanes, "words": fields}
        return frames.encode(frames.Hello(hello))

    def _handle_hello(self, hello: frames.Hello, events: List[JournalEvent]) -> None:
        """Handles the peer's hello: it says where each end continues sending."""
        stream, knows, lanes, fields = parse_hello(hello)
        events.append(Opened(fields))
        for lane, (oldest, received, offset) in zip((NORMAL, URGENT), lanes):
            if knows == self.stream:
                self._out[lane].resume(received, offset)
            else:
                self._out[lane].restart()
            queue = self._in[lane]
            if stream != self._peer:
                queue.restart(oldest - 1)
            else:
                before = queue.received
                if queue.skip(oldest):
                    events.append(Skipped(lane, before + 1, queue.received))
        self._peer = stream

    # -- from the application

    def send(
        self,
        channel: int,
        parts: Sequence[bytes],
        *,
        urgent: bool = False,
        flags: int = 0,
        priority: int = 0,
    ) -> int:
        """Numbers and keeps a message, connected or not; returns its number.

        priority: 0 means never dropped; 1 is dropped before 2. A message above the size limit
        becomes a gap of one message, as if it were dropped.
        """
        queue = self._out[URGENT if urgent else NORMAL]
        payload = frames.join_parts(parts)
        if len(payload) > self._max_message:
            return queue.store.append_gap(1, len(payload))
        number = queue.store.append(channel, flags, payload, priority)
        queue.appended()
        return number

    def begin(
        self, channel: int, parts: Sequence[bytes], size: int, *, priority: int = 0
    ) -> Union[LargeMessage, DroppedMessage]:
        """As :meth:`send` for a message whose last part, of *size* bytes, comes piece by piece.

        What has come is sent. Messages that are sent meanwhile come after it.
        """
        lane = self._out[NORMAL]
        length = sum(map(len, parts)) + size
        if length > self._max_message:
            return DroppedMessage(lane, length)
        head = frames.encode_sizes([*map(len, parts), size]) + b"".join(parts)
        if len(head) + size > self._max_message:
            return DroppedMessage(lane, len(head) + size)
        entry = lane.begin(channel, 0, len(head) + size)
        try:
            lane.store.extend(entry, head)
        except BaseException:
            lane.abort(entry)  # else those after it would wait for it
            raise
        return LargeMessage(lane, entry, priority)

    def evict(self, evict: Evict, size: int) -> int:
        """Frees *size* bytes of the normal lane with *evict*; returns how many it freed.

        Messages of which a peer may have a byte stay.
        """
        return self._out[NORMAL].evict(evict, size)

    def acknowledge(self, event: Union[Message, Gap]) -> None:
        """The application is done with *event* and with everything before it in its lane."""
        self._in[event.lane].acknowledge(event.last)

    def send_notice(self, fields: Dict[str, Any]) -> None:
        """Sends *fields* about this connection: not numbered, lost if it breaks."""
        self._control.append(frames.encode(frames.Notice(fields)))

    def ping(self, token: int) -> None:
        self._control.append(frames.encode(frames.Ping(token)))

    # -- bytes

    @property
    def ack_due(self) -> bool:
        """Whether there is an acknowledgement to send."""
        return self.state is State.OPEN and any(queue.ack_due for queue in self._in.values())

    def data_to_send(self, limit: int = 4 * frames.PIECE_BYTES, *, acks: bool = True) -> bytes:
        """About *limit* bytes for the peer; b"" when there is nothing to send for now.

        Call it when the transport has room, not earlier, so that urgent messages get through.

        acks: False sends acknowledgements only with other data, or if the peer needs them now. Call
            it again soon with True.
        """
        if self.state in (State.DETACHED, State.FAILED, State.REFUSED):
            return b""
        chunks = list(self._control)
        self._control.clear()
        if self.state is State.OPEN:
            size = sum(map(len, chunks))
            for lane in LANES:
                while size < limit:
                    frame = self._out[lane].next_frame(lane)
                    if frame is None:
                        break
                    if isinstance(frame, frames.Piece):
                        chunks += frames.encode_piece(frame)
                        size += len(frame.data)
                    else:
                        chunks.append(frames.encode(frame))
                        size += len(chunks[-1])
            if acks or chunks or any(queue.ack_is_urgent for queue in self._in.values()):
                chunks += [frames.encode(ack) for ack in self._acks()]
        return b"".join(chunks)

    def _acks(self) -> Iterator[frames.Ack]:
        for lane in LANES:
            queue = self._in[lane]
            if queue.ack_due:
                yield frames.Ack(lane, *queue.next_ack())

    def receive_data(self, data: bytes) -> List[JournalEvent]:
        """The events in *data* from the peer, in order; the last one may be :class:`Failed`."""
        events: List[JournalEvent] = []
        if self.state in (State.GREETING, State.OPEN):
            try:
                for frame in self._decoder.feed(data):
                    self._handle(frame, events)
            except ProtocolError as error:
                events.append(self._fail(error))
        return events

    def _fail(self, error: ProtocolError) -> Failed:
        self._move("error")
        return Failed(str(error))

    def _handle(self, frame: frames.Frame, events: List[JournalEvent]) -> None:
        if self.state is State.GREETING:
            if isinstance(frame, frames.Hello):
                self._handle_hello(frame, events)
                self._move("hello")
            elif isinstance(frame, frames.Notice) and "refused" in frame.fields:
                self._move("refusal")
                events.append(Rejected(frame.fields["refused"]))
            else:
                raise ProtocolError("the peer did not begin with a hello")
        elif self.state is State.OPEN:
            self._handle_open(frame, events)

    def _handle_open(self, frame: frames.Frame, events: List[JournalEvent]) -> None:
        if isinstance(frame, frames.Piece):
            parts = self._incoming(frame.lane).receive(frame)
            if parts is not None:
                events.append(Message(frame.lane, frame.last, frame.channel, frame.flags, parts))
        elif isinstance(frame, frames.Ack):
            if self._outgoing(frame.lane).acknowledged(frame):
                events.append(Acknowledged(frame.lane, frame.seq))
        elif isinstance(frame, frames.Ping):
            self._control.append(frames.encode(frames.Pong(frame.token)))
        elif isinstance(frame, frames.Pong):
            events.append(PongReceived(frame.token))
        elif isinstance(frame, frames.GapFrame):
            if self._incoming(frame.lane).receive_gap(frame):
                events.append(Gap(*frame))
        elif isinstance(frame, frames.Notice):
            events.append(NoticeReceived(frame.fields))
        else:
            raise ProtocolError("a second hello on one connection")

    def _incoming(self, lane: int) -> IncomingLane:
        try:
            return self._in[lane]
        except KeyError:
            raise ProtocolError("a message in unknown lane %d" % lane) from None

    def _outgoing(self, lane: int) -> OutgoingLane:
        try:
            return self._out[lane]
        except KeyError:
            raise ProtocolError("an acknowledgement in unknown lane %d" % lane) from None


def parse_hello(
    hello: frames.Hello,
) -> Tuple[str, Optional[str], List[Tuple[int, int, int]], Dict[str, Any]]:
    received = hello.fields
    try:
        stream, knows, fields = received["stream"], received["peer"], received["words"]
        lanes = [(int(oldest), int(got), int(part)) for oldest, got, part in received["lanes"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError("an invalid hello: %s" % error) from error
    if not isinstance(stream, str) or not isinstance(fields, dict) or len(lanes) != len(LANES):
        raise ProtocolError("an invalid hello")
    if any(oldest < 1 or got < 0 or part < 0 for oldest, got, part in lanes):
        raise ProtocolError("a hello with impossible numbers")
    return stream, knows, lanes, fields
