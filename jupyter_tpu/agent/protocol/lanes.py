"""The two halves of a journal's lane: what one end sends in it, and what it receives.

Part of the machine described in ``journal.py``; no I/O and no clock here either.
"""

from __future__ import annotations

from collections import deque
from typing import Callable, Deque, List, Optional, Sequence, Tuple

from . import frames
from .frames import ProtocolError
from .segments import NumberedMessage, SegmentStore, StoredEntry

#: Frees bytes of a store: not of what comes before a number, and as many as given if it can; how
#: many it freed.
Evict = Callable[[SegmentStore, int, int], int]
#: Makes fewer messages of some that follow each other, for the same numbers.
Coalesce = Callable[[Sequence[NumberedMessage]], List[NumberedMessage]]
#: Messages, and bytes of them, that are folded together.
COALESCE, COALESCE_BYTES = 256, 1 << 20
#: Bytes of credit that the peer is told of at once: a small part of its window.
PRESSING = 256 << 10


class OutgoingLane:
    """What this end sends in one lane.

    What waits is folded, once when there is much of it and again just before it is sent; if need be
    it is dropped. Never what a peer can have a byte of.
    """

    def __init__(
        self, store: SegmentStore, window: int, coalesce: Optional[Coalesce] = None
    ) -> None:
        self.store = store
        self.window = window
        self._coalesce = coalesce
        self._gathered = 0  # folded up to here as it came …
        self._final = 0  # … and up to here for sending: that stays as it is, and is not dropped
        self.acked = 0  # the peer has taken everything up to here
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
        if offset and entry is not None and entry.first == self.cursor:
            if offset >= entry.size:
                raise ProtocolError("the peer has more of message %d than there is" % entry.last)
            self.offset = offset

    def restart(self) -> None:
        """A new connection to a peer that knows nothing of this stream."""
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
        start = max(self._final, self._gathered) + 1
        if self._coalesce is not None and self.store.last - start >= COALESCE:
            entry = self.store.find(start)
            gap = entry.last if entry is not None and entry.is_gap else 0
            self._gathered = max(start, gap, self._coalesce_from(start))

    def make_room(self, evict: Evict, size: int) -> int:
        """Has *evict* free bytes of what no peer can have a byte of; how many it freed."""
        return evict(self.store, self._final + 1, size)

    def _next_entry(self) -> Optional[StoredEntry]:
        if self.cursor > self.store.last:
            return None
        entry = self.store.find(self.cursor)
        if entry is not None and entry.last > self._final:
            self._final = max(entry.last, self._coalesce_from(entry.first))
            return self.store.find(self.cursor)
        return entry

    def _coalesce_from(self, number: int) -> int:
        """Folds what begins with *number*; the last number that it looked at, or 0."""
        if self._coalesce is None:
            return 0
        before = self.store.messages_from(number, COALESCE, COALESCE_BYTES)
        if not before:
            return 0
        after = self._coalesce(before)
        if after != before:
            self.store.replace(before, after)
        return before[-1].last

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
            data = self.store.read(entry, self.offset, frames.PIECE)
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
        self.received = 0  # everything up to here was handed to the application
        self.consumed = 0  # everything up to here is acknowledged
        self.partial = bytearray()  # of the message after it
        self.taken = 0  # payload bytes on this connection
        self.credit = 0
        self._told = 0  # of the credit, what the peer knows
        self._waiting: Deque[Tuple[int, int]] = deque()  # handed out, not consumed: last, bytes
        self._held = 0  # bytes of these, as far as they came over this connection
        self.ack_due = False

    def restart(self, received: int) -> None:
        """Another stream: the first message to come is the one after *received*."""
        self.received = self.consumed = received
        self.partial.clear()
        self._waiting.clear()

    def connected(self) -> None:
        self.taken = self.credit = self._held = self._told = 0
        self._waiting = deque((last, 0) for last, _ in self._waiting)
        self.ack_due = self.consumed > 0

    def skip(self, oldest: int) -> int:
        """The sender no longer has what is before *oldest*; how many messages that loses."""
        missed = max(0, oldest - 1 - self.received)
        if missed:
            self.received = oldest - 1
            self.partial.clear()
        return missed

    def take(self, piece: frames.Piece) -> Optional[List[bytes]]:
        """The parts of the message if *piece* completes it; None otherwise, and for a repeat."""
        if piece.size > self.max_message:
            raise ProtocolError(
                "a message of %d bytes; the limit is %d" % (piece.size, self.max_message)
            )
        self.taken += len(piece.data)
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
        # Whole or not to be used: the next connection does not go on in the middle of it.
        whole, self.partial = self.partial, bytearray()
        if len(whole) > piece.size:
            raise ProtocolError("message %d is longer than it said" % piece.last)
        parts = frames.split_parts(whole)
        self._hand_out(piece.last, piece.size)
        return parts

    def take_gap(self, gap: frames.GapFrame) -> bool:
        """False: it is known."""
        if gap.last <= self.received:
            return False
        self._in_order(gap.first)
        self.partial.clear()
        self._hand_out(gap.last, 0)
        return True

    def _in_order(self, first: int) -> None:
        if first != self.received + 1:
            raise ProtocolError("message %d came where %d was due" % (first, self.received + 1))

    def _hand_out(self, last: int, size: int) -> None:
        self.received = last
        self._waiting.append((last, size))
        self._held += size

    def consume(self, last: int) -> None:
        if last > self.received:
            raise ValueError("message %d was not handed out" % last)
        while self._waiting and self._waiting[0][0] <= last:
            self._held -= self._waiting.popleft()[1]
        self.consumed = max(self.consumed, last)
        self.ack_due = True
        self._give_credit()

    @property
    def ack_is_pressing(self) -> bool:
        """Whether the peer, which may have used up its window, should hear of it now."""
        return self.credit - self._told >= PRESSING

    def acknowledge(self) -> Tuple[int, int]:
        """What to tell the peer, and that it is told: number and credit."""
        self.ack_due, self._told = False, self.credit
        return self.consumed, self.credit

    def _give_credit(self) -> None:
        # The pieces of an unfinished message are given back at once, or a message larger than
        # the window would never come; but only while nothing else waits to be consumed.
        held = self._held + (len(self.partial) if self._waiting else 0)
        if self.taken - held > self.credit:
            self.credit = self.taken - held
            self.ack_due = True
