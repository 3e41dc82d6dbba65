"""The two halves of a journal's lane: what one end sends in it, and what it receives.

Part of the state machine in ``journal.py``; no I/O and no clock here either.
"""

from __future__ import annotations

from collections import deque
from typing import Callable, Deque, List, Optional, Sequence, Tuple

from . import frames
from .frames import ProtocolError
from .segments import NumberedMessage, SegmentStore, StoredEntry

#: Called with a store, a number and a size: frees up to that many bytes of the messages from that
#: number on. Returns how many it freed.
Evict = Callable[[SegmentStore, int, int], int]
#: Merges messages that follow each other; the result has the same numbers.
Coalesce = Callable[[Sequence[NumberedMessage]], List[NumberedMessage]]
#: Messages, and bytes of them, that are coalesced together.
COALESCE_MESSAGES, COALESCE_BYTES = 256, 1 << 20
#: If no more than this is left of them, it is coalesced again together with the next ones. So a
#: progress bar that runs for a day remains a few messages.
LITTLE_MESSAGES, LITTLE_BYTES = 32, 256 << 10
#: Bytes of credit that are sent to the peer at once: each time costs four processes a turn.
URGENT_CREDIT = 1 << 20


class OutgoingLane:
    """What this end sends in one lane.

    Waiting messages are coalesced when there are many and again just before they are sent.
    They are evicted when the journal is full. Messages of which a peer may have a byte stay.
    """

    def __init__(
        self, store: SegmentStore, window: int, coalesce: Optional[Coalesce] = None
    ) -> None:
        self.store = store
        self.window = window
        self._coalesce = coalesce
        self._coalesced = 0  # coalesced up to here as it came …
        self._done = 0  # … and up to here for the last time
        self._final = 0  # coalesced up to here for sending: it stays as it is and is not evicted
        self.acked = 0  # the peer has acknowledged everything up to here
        self.high = 0  # the last number that was ever put on the wire whole
        self.cursor = 1  # the next number to send on this connection …
        self.offset = 0  # … from this byte of its message
        self.sent = 0  # payload bytes on this connection …
        self.credit = 0  # … of which the peer has given back

    def resume(self, received: int, offset: int) -> None:
        """A new connection; the peer has *received*, and *offset* bytes of the next message."""
        if received > self.high:
            raise ProtocolError("the peer has %d, only %d was sent" % (received, self.high))
        self.cursor, self.offset, self.sent, self.credit = received + 1, 0, 0, 0
        entry = self.store.find(self.cursor)
        if offset and entry is not None and entry.first == self.cursor and not entry.is_gap:
            if offset >= entry.size:
                raise ProtocolError("the peer has more of message %d than there is" % entry.last)
            self.offset = offset

    def restart(self) -> None:
        """A new connection to a peer that does not know this stream."""
        self.cursor, self.offset, self.sent, self.credit = self.store.oldest, 0, 0, 0

    def acknowledged(self, ack: frames.Ack) -> bool:
        if ack.seq > self.high:
            raise ProtocolError("the peer acknowledges %d, only %d was sent" % (ack.seq, self.high))
        if ack.credit > self.sent:
            raise ProtocolError("the peer gives credit for more than was sent")
        self.credit = max(self.credit, ack.credit)
        if ack.seq <= self.acked:
            return False
        self.acked = ack.seq
        if ack.seq >= self.cursor:  # acknowledged on an earlier connection
            self.cursor, self.offset = ack.seq + 1, 0
        self.store.release(ack.seq)
        return True

    def appended(self) -> None:
        """A message was added to the store."""
        coalesced = max(self._final, self._coalesced)
        if self._coalesce is None or self.store.last - coalesced <= COALESCE_MESSAGES:
            return
        last, little = self._coalesce_from(
            max(self._final, self._done) + 1, LITTLE_MESSAGES + COALESCE_MESSAGES
        )
        if last > coalesced:
            self._coalesced = last
            if not little:
                self._done = last
        else:  # a gap, or a large message
            entry = self.store.find(coalesced + 1)
            self._coalesced = self._done = entry.last if entry is not None else coalesced + 1

    def begin(self, channel: int, flags: int, size: int) -> StoredEntry:
        """As `SegmentStore.begin`: the message is sent as it comes, and those after it then."""
        entry = self.store.begin(channel, flags, size)
        self.appended()
        return entry

    def abort(self, entry: StoredEntry) -> None:
        """The rest of a message that was begun does not come: its number stays empty."""
        self.store.abort(entry)
        if self.cursor == entry.first:
            self.offset = 0

    def evict(self, evict: Evict, size: int) -> int:
        """Frees bytes with *evict* where no peer can have one; returns how many it freed."""
        return evict(self.store, self._final + 1, size)

    def _next_entry(self) -> Optional[StoredEntry]:
        if self.cursor > self.store.last:
            return None
        entry = self.store.find(self.cursor)
        if entry is not None and entry.last > self._final:
            self._final = max(entry.last, self._coalesce_from(entry.first, COALESCE_MESSAGES)[0])
            return self.store.find(self.cursor)
        return entry

    def _coalesce_from(self, number: int, count: int) -> Tuple[int, bool]:
        """Coalesces up to *count* messages from *number* on.

        Returns the last number that it read, or 0, and whether little is left of them.
        """
        if self._coalesce is None:
            return 0, False
        before = self.store.messages_from(number, count, COALESCE_BYTES)
        if not before:
            return 0, False
        after = self._coalesce(before)
        if after != before:
            self.store.replace(before, after)
        size = sum(len(part) for message in after for part in message.parts)
        return before[-1].last, len(after) <= LITTLE_MESSAGES and size <= LITTLE_BYTES

    def next_frame(self, lane: int) -> Optional[frames.Frame]:
        """The next piece to put on the wire; None: nothing to send, or no room in the window."""
        if self.sent - self.credit >= self.window:
            return None
        entry = self._next_entry()
        if entry is None:
            return None
        span = entry.last - entry.first + 1
        if entry.is_gap:
            frame: frames.Frame = frames.GapFrame(
                lane, entry.first, entry.last, entry.count, entry.dropped, entry.note
            )
        else:
            data = self.store.read(entry, self.offset, frames.PIECE_BYTES)
            if len(data) < frames.PIECE_BYTES and entry.arrived < entry.size:
                return None  # the next piece has not arrived
            frame = frames.Piece(
                lane, entry.channel, entry.flags, entry.last, span, entry.size, self.offset, data
            )
            self.offset += len(data)
            self.sent += len(data)
        if self.offset == entry.size:
            self.cursor, self.offset = entry.last + 1, 0
            self.high = max(self.high, entry.last)
        return frame


class IncomingLane:
    """What this end receives in one lane."""

    def __init__(self, max_message: int) -> None:
        self.max_message = max_message
        self.received = 0  # everything up to here was delivered to the application
        self.acknowledged = 0  # everything up to here is acknowledged
        self.partial = bytearray()  # of the message after it
        self.received_bytes = 0  # of payload, on this connection
        self.credit = 0
        self._announced_credit = 0  # what the peer knows of it
        self._waiting: Deque[Tuple[int, int]] = deque()  # delivered, not acknowledged: last, bytes
        self._held = 0  # bytes of these that came over this connection
        self.ack_due = False

    def restart(self, received: int) -> None:
        """Another stream: the first message to come is the one after *received*."""
        self.received = self.acknowledged = received
        self.partial.clear()
        self._waiting.clear()

    def connected(self) -> None:
        self.received_bytes = self.credit = self._held = self._announced_credit = 0
        self._waiting = deque((last, 0) for last, _ in self._waiting)
        self.ack_due = self.acknowledged > 0

    def skip(self, oldest: int) -> int:
        """The sender has nothing before *oldest* any more; returns how many messages are missed."""
        missed = max(0, oldest - 1 - self.received)
        if missed:
            self.received = oldest - 1
            self.partial.clear()
        return missed

    def receive(self, piece: frames.Piece) -> Optional[List[bytes]]:
        """The parts of the message if *piece* completes it; None otherwise, and for a duplicate."""
        if piece.size > self.max_message:
            raise ProtocolError(
                "a message of %d bytes; the limit is %d" % (piece.size, self.max_message)
            )
        self.received_bytes += len(piece.data)
        if piece.last <= self.received:
            self._give_credit()
            return None
        self._in_order(piece.last - piece.span + 1)
        if piece.offset == 0:
            self.partial.clear()
        if piece.offset != len(self.partial):
            raise ProtocolError("a piece of message %d that does not fit" % piece.last)
        self.partial += piece.data
        if len(self.partial) < piece.size:
            self._give_credit()
            return None
        # Emptied before anything can fail: no later connection continues this message.
        whole, self.partial = self.partial, bytearray()
        if len(whole) > piece.size:
            raise ProtocolError("message %d is longer than announced" % piece.last)
        parts = frames.take_parts(whole)
        self._deliver(piece.last, piece.size)
        return parts

    def receive_gap(self, gap: frames.GapFrame) -> bool:
        """False if it is known already."""
        if gap.last <= self.received:
            return False
        self._in_order(gap.first)
        self.partial.clear()
        self._deliver(gap.last, 0)
        return True

    def _in_order(self, first: int) -> None:
        if first != self.received + 1:
            raise ProtocolError("message %d came where %d was due" % (first, self.received + 1))

    def _deliver(self, last: int, size: int) -> None:
        self.received = last
        self._waiting.append((last, size))
        self._held += size

    def acknowledge(self, last: int) -> None:
        if last > self.received:
            raise ValueError("message %d was not delivered" % last)
        while self._waiting and self._waiting[0][0] <= last:
            self._held -= self._waiting.popleft()[1]
        self.acknowledged = max(self.acknowledged, last)
        self.ack_due = True
        self._give_credit()

    @property
    def ack_is_urgent(self) -> bool:
        """Whether the peer, which may have used up its window, needs the credit now."""
        return self.credit - self._announced_credit >= URGENT_CREDIT

    def next_ack(self) -> Tuple[int, int]:
        """The number and credit to send to the peer; they count as sent."""
        self.ack_due, self._announced_credit = False, self.credit
        return self.acknowledged, self.credit

    def _give_credit(self) -> None:
        # Pieces of an unfinished message give credit at once, or a message larger than the window
        # would never arrive; but only while no delivered message waits to be acknowledged.
        held = self._held + (len(self.partial) if self._waiting else 0)
        if self.received_bytes - held > self.credit:
            self.credit = self.received_bytes - held
            self.ack_due = True
