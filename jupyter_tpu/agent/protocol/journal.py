"""The journal: a numbered, acknowledged, replayable stream of messages in both directions.

The theory of operation
=======================

Two programs, a *keeper* beside the kernel and a *client* far away, have something to tell each
other for longer than any one connection between them lives. A :class:`Journal` is one end of
that conversation. It does no I/O and has no clock: bytes that came from the peer go into
:meth:`Journal.receive_data`, which returns events; bytes for the peer come out of
:meth:`Journal.data_to_send`. Whoever owns the sockets carries them between the two.

*Exactly once, in order.* Each message gets a number when it is given to :meth:`Journal.send`, and
is kept (in a `SegmentStore`) until the peer has acknowledged it. When a connection breaks nothing
happens to the messages. On the next one both hellos say what each end has, and sending goes on from
there, in the middle of a message if need be. What arrives twice is dropped, and what is missing is
a protocol error, so an application sees each message once.

*Acknowledging is the application's word.* ``receive_data`` hands a message out; only
:meth:`Journal.consumed` acknowledges it. A client that dies between the two has lost nothing: its
successor gets the message again. An acknowledgement travels with what is sent anyway, or by itself
a moment later; one that is lost with its connection is given again on the next. A successor is
known by its *stream* id, which every :class:`Journal` object draws anew: to a peer that does not
know my stream I send from the oldest unacknowledged message, and whole.

*Two lanes* in each direction, numbered apart. An interrupt in the URGENT lane overtakes 50 MB
that wait in the NORMAL one, because messages travel in pieces of 64 KiB and a lane's next piece is
chosen only when the transport can take it. Within a lane there is one order for all channels.

*A window* per lane bounds what is under way: at most ``window`` bytes are sent that the receiver
has not given credit for, and it gives credit as it consumes (for the pieces of a single message
larger than the window, as they arrive). So the receiver holds at most a window and one message;
what the sender holds is its store's matter.

*Gaps.* A sender may decide not to keep something (``make_room``; ``append_gap``). What was dropped
is not silence but a record with its own numbers: first, last, how many, how many bytes, and what
the application notes about it. It is delivered, consumed and acknowledged like a message.

*Folding.* Messages that wait may be made fewer (``coalescing.py``): one that was merged of several
stands for all their numbers. Only what no peer can have a byte of is folded, and what was put on
the wire stays as it was, so a number means the same on every connection.

*A connection's life* is the table below. ``accept`` may come at any time: a new connection takes
the place of the old one, which is how a client comes back whose broken link nobody noticed. A
ProtocolError leaves the stream whole (the broken frame was not taken), so the owner may try again
on a new connection; it is for the owner to stop when that does not help.

Who may connect is not decided here: hellos carry fields of the application (the lease, see
``lease.py``), and a keeper reads them through a :class:`HelloReader` before it accepts.
"""

from __future__ import annotations

import os
from collections import deque
from enum import Enum
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import frames
from .frames import Decoder, ProtocolError
from .lanes import Coalesce, Evict, IncomingLane, OutgoingLane
from .segments import SegmentStore

NORMAL, URGENT = 0, 1
LANES = (URGENT, NORMAL)  # in the order in which they are served

#: What the channels of a kernel's journal are; KEEPER carries JSON between keeper and client.
KEEPER, SHELL, CONTROL, STDIN, IOPUB = range(5)

#: Bytes under way in a lane without credit: 100 MB/s at a round trip of 40 ms.
WINDOW = 4 << 20


class State(str, Enum):
    DETACHED = "detached"  # no connection; messages gather
    GREETING = "greeting"  # our hello is under way, the peer's is awaited
    OPEN = "open"
    REFUSED = "refused"  # the peer does not want us; its fields say why
    FAILED = "failed"  # the peer broke the protocol on this connection


#: Every transition there is. What is not here is a mistake of the owner.
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


# ---- events -------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """The peer's hello came; messages flow from now on."""

    fields: Dict[str, Any]
    #: The peer has never met this stream, or is another than before.
    fresh: bool


class Message(NamedTuple):
    """A message for the application, which calls ``consumed`` when it is done with it."""

    lane: int
    last: int
    channel: int
    flags: int
    parts: List[bytes]


class Gap(NamedTuple):
    """Messages that the peer dropped on purpose; to be consumed like a message."""

    lane: int
    first: int
    last: int
    messages: int
    size: int  # bytes of them
    note: bytes = b""  # what the peer's application says of them


class Skipped(NamedTuple):
    """Messages that another client of the same stream has acknowledged in the meantime."""

    lane: int
    first: int
    last: int


class NoticeReceived(NamedTuple):
    """Words about this connection."""

    fields: Dict[str, Any]


class Rejected(NamedTuple):
    fields: Dict[str, Any]


class Failed(NamedTuple):
    """The peer broke the protocol: the state is FAILED, the connection is to be closed."""

    problem: str


class PongReceived(NamedTuple):
    """The peer answered a ping."""

    token: int


class Acknowledged(NamedTuple):
    lane: int
    last: int


JournalEvent = Union[
    Opened, Message, Gap, Skipped, NoticeReceived, Rejected, Failed, PongReceived, Acknowledged
]


# ---- the journal --------------------------------------------------------------------------------


class HelloReader:
    """Reads the hello of a connection that somebody opened, before it is accepted."""

    def __init__(self) -> None:
        self.decoder = Decoder()

    def feed(self, data: bytes) -> Optional[frames.Hello]:
        """The hello, once it is complete; raises :class:`ProtocolError`.

        What it says is for :func:`parse_hello`: a question to a keeper begins with a hello, too.
        """
        for frame in self.decoder.feed(data):
            if not isinstance(frame, frames.Hello):
                raise ProtocolError("the peer did not begin with a hello")
            return frame
        return None


def encode_rejection(fields: Dict[str, Any]) -> bytes:
    """What to answer, before closing, to a hello that is not accepted."""
    return frames.encode(frames.Notice({"refused": fields}))


class Journal:
    """One end of the conversation.

    Parameters
    ----------
    store: where messages of the normal lane are kept; the urgent one is short and in memory.
    window: bytes that may be under way in a lane without the peer's credit.
    max_message: bytes; a larger message from the peer is a protocol error.
    coalesce: makes less of messages of the normal lane that wait; see ``coalescing.py``.
    """

    def __init__(
        self,
        store: Optional[SegmentStore] = None,
        *,
        window: int = WINDOW,
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
        """Begins a connection as the client: says hello with the application's *fields*."""
        self._move("connect")
        self._begin(Decoder())
        self._control.append(self._hello(fields))

    def accept(
        self, greeting: HelloReader, hello: frames.Hello, fields: Dict[str, Any]
    ) -> List[JournalEvent]:
        """Answers the hello of a new connection; the old one, if any, is forgotten.

        When the client's stream is another than before, messages of the old one that were handed
        out and not consumed are the application's to forget.
        """
        self._move("accept")
        self._begin(greeting.decoder)
        self._control.append(self._hello(fields))
        events: List[JournalEvent] = []
        try:
            self._met(hello, events)
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
        said = {"stream": self.stream, "peer": self._peer, "lanes": lanes, "words": fields}
        return frames.encode(frames.Hello(said))

    def _met(self, hello: frames.Hello, events: List[JournalEvent]) -> None:
        """Takes the peer's hello: where it goes on sending, and where this end does."""
        stream, knows, lanes, fields = parse_hello(hello)
        events.append(Opened(fields, fresh=knows != self.stream))
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

    # -- what the application says

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

    def make_room(self, evict: Evict, size: int) -> int:
        """Has *evict* free *size* bytes of the normal lane, of what no peer can have a byte of.

        Returns how many it freed.
        """
        return self._out[NORMAL].make_room(evict, size)

    def acknowledge(self, event: Union[Message, Gap]) -> None:
        """The application is done with *event* and with all before it in its lane."""
        self._in[event.lane].consume(event.last)

    def send_notice(self, fields: Dict[str, Any]) -> None:
        """Says *fields* about this connection: outside the numbering, lost if it breaks."""
        self._control.append(frames.encode(frames.Notice(fields)))

    def ping(self, token: int) -> None:
        self._control.append(frames.encode(frames.Ping(token)))

    # -- bytes

    @property
    def ack_due(self) -> bool:
        """Whether the peer could be told of something consumed."""
        return self.state is State.OPEN and any(queue.ack_due for queue in self._in.values())

    def data_to_send(self, limit: int = 4 * frames.PIECE, *, acks: bool = True) -> bytes:
        """About *limit* bytes for the peer; b"" when there is nothing to send for now.

        Call it whenever the transport has room: the less is taken early, the sooner an urgent
        message gets through.

        acks: False: acknowledgements only go with something else, or where much waits for them;
        whoever says so asks again, soon, without it.
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
                    chunks.append(frames.encode(frame))
                    size += len(chunks[-1])
            if acks or chunks or any(queue.ack_is_pressing for queue in self._in.values()):
                chunks += [frames.encode(ack) for ack in self._acks()]
        return b"".join(chunks)

    def _acks(self) -> Iterator[frames.Ack]:
        for lane in LANES:
            queue = self._in[lane]
            if queue.ack_due:
                yield frames.Ack(lane, *queue.acknowledge())

    def receive_data(self, data: bytes) -> List[JournalEvent]:
        """What *data* from the peer means, in order; the last event may be :class:`Failed`."""
        events: List[JournalEvent] = []
        if self.state in (State.GREETING, State.OPEN):
            try:
                for frame in self._decoder.feed(data):
                    self._take(frame, events)
            except ProtocolError as error:
                events.append(self._fail(error))
        return events

    def _fail(self, error: ProtocolError) -> Failed:
        self._move("error")
        return Failed(str(error))

    def _take(self, frame: frames.Frame, events: List[JournalEvent]) -> None:
        if self.state is State.GREETING:
            if isinstance(frame, frames.Hello):
                self._met(frame, events)
                self._move("hello")
            elif isinstance(frame, frames.Notice) and "refused" in frame.fields:
                self._move("refusal")
                events.append(Rejected(frame.fields["refused"]))
            else:
                raise ProtocolError("the peer did not begin with a hello")
        elif self.state is State.OPEN:
            self._take_open(frame, events)

    def _take_open(self, frame: frames.Frame, events: List[JournalEvent]) -> None:
        if isinstance(frame, frames.Piece):
            parts = self._incoming(frame.lane).take(frame)
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
            if self._incoming(frame.lane).take_gap(frame):
                events.append(Gap(*frame))
        elif isinstance(frame, frames.Notice):
            events.append(NoticeReceived(frame.fields))
        else:
            raise ProtocolError("a second hello on one connection")

    def _incoming(self, lane: int) -> IncomingLane:
        try:
            return self._in[lane]
        except KeyError:
            raise ProtocolError("a message in the unknown lane %d" % lane) from None

    def _outgoing(self, lane: int) -> OutgoingLane:
        try:
            return self._out[lane]
        except KeyError:
            raise ProtocolError("an acknowledgement in the unknown lane %d" % lane) from None


def parse_hello(
    hello: frames.Hello,
) -> Tuple[str, Optional[str], List[Tuple[int, int, int]], Dict[str, Any]]:
    said = hello.fields
    try:
        stream, knows, fields = said["stream"], said["peer"], said["words"]
        lanes = [(int(oldest), int(got), int(part)) for oldest, got, part in said["lanes"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError("a hello that cannot be understood: %s" % error) from error
    if not isinstance(stream, str) or not isinstance(fields, dict) or len(lanes) != len(LANES):
        raise ProtocolError("a hello that cannot be understood")
    if any(oldest < 1 or got < 0 or part < 0 for oldest, got, part in lanes):
        raise ProtocolError("a hello with impossible numbers")
    return stream, knows, lanes, fields
