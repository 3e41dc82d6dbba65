"""The messages of a journal that its peer has not acknowledged yet: memory, then disk.

The first ``memory`` bytes stay in memory. More is written to segments, files of mode 0600 in the
given folder. A segment is deleted when everything in it is released; :meth:`SegmentStore.close`
deletes them all. Nothing is ever refused: if the disk is full the bytes stay in memory and
:attr:`SegmentStore.problem` says so. The owner, which can pause the kernel, acts on it.
"""

from __future__ import annotations

import bisect
import contextlib
import os
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from .frames import join_parts, split_parts

#: Bytes in one segment.
SEGMENT_BYTES = 8 << 20


class StoredEntry:
    """One message, or one gap, under the numbers *first* to *last*."""

    __slots__ = ("arrived", "channel", "count", "dropped", "first", "flags", "last", "note",
                 "offset", "payload", "priority", "segment", "size")  # fmt: skip

    def __init__(
        self, first: int, last: int, channel: int, flags: int, size: int, priority: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.channel = channel
        self.flags = flags
        self.size = size  # bytes of the encoded message; 0 for a gap
        self.arrived = size  # of these; less while a large message still comes
        self.priority = priority  # 1 is evicted before 2; 0 never
        # None if it is in *segment* at *offset*, or a gap
        self.payload: Union[bytes, bytearray, None] = None
        self.segment: Optional[_Segment] = None
        self.offset = 0
        self.count = 0  # of a gap: messages dropped …
        self.dropped = 0  # … and their bytes
        self.note = b""

    @property
    def is_gap(self) -> bool:
        return self.size == 0


class NumberedMessage(NamedTuple):
    """A message, in its parts, under the numbers *first* to *last*."""

    first: int
    last: int
    channel: int
    flags: int
    parts: List[bytes]


class GapRange(NamedTuple):
    """Entries that follow each other, to be replaced by a gap."""

    first: int
    last: int
    note: bytes = b""  # for the gap


class _Segment:
    """One file of messages."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        self.end = 0
        self.entries = 0
        self.live = 0  # bytes of them

    def write(self, data: Union[bytes, memoryview], offset: int) -> None:
        """Raises OSError."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self.fd, view, offset)
            view, offset = view[written:], offset + written

    def remove(self) -> None:
        os.close(self.fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class SegmentStore:
    """Numbered messages, from the oldest that is not released to the newest.

    Parameters
    ----------
    folder: of the segments; None keeps everything in memory.
    memory: bytes kept in memory before the first segment is written.
    """

    def __init__(self, folder: Optional[str] = None, memory: int = 16 << 20) -> None:
        self._folder = folder
        self._memory_limit = memory
        self._entries: List[StoredEntry] = []
        self._firsts: List[int] = []  # the entries' first numbers, for bisect
        self._start = 0  # index of the oldest live entry; what is before it is released
        self._segment: Optional[_Segment] = None
        self._segments = 0
        self.last = 0  # the newest number given out
        self.bytes = 0  # held, in memory and on disk
        self.memory = 0  # of these in memory
        self.problem = ""  # why something could not be written; "" if it could

    def __len__(self) -> int:
        return len(self._entries) - self._start

    @property
    def oldest(self) -> int:
        """The first number held; one past the newest if nothing is."""
        return self._firsts[self._start] if len(self) else self.last + 1

    def append(self, channel: int, flags: int, payload: bytes, priority: int = 0) -> int:
        """Keeps an encoded message and returns its number; *priority*: see `StoredEntry`."""
        entry = StoredEntry(self.last + 1, self.last + 1, channel, flags, len(payload), priority)
        self._keep(entry, payload)
        return self._add(entry)

    def append_gap(self, count: int, dropped: int) -> int:
        """Notes that *count* messages of *dropped* bytes were not kept."""
        entry = StoredEntry(self.last + 1, self.last + 1, 0, 0, 0)
        entry.count, entry.dropped = count, dropped
        return self._add(entry)

    def begin(self, channel: int, flags: int, size: int) -> StoredEntry:
        """Makes place for an encoded message of *size* bytes under the next number.

        The message itself comes with :meth:`extend`.
        """
        entry = StoredEntry(self.last + 1, self.last + 1, channel, flags, size)
        entry.arrived = 0
        if not self._spill(entry, b""):
            entry.payload = bytearray(size)
            self.memory += size
        self._add(entry)
        return entry

    def extend(self, entry: StoredEntry, data: Union[bytes, memoryview]) -> None:
        """Keeps the next bytes of a message that was begun."""
        start, entry.arrived = entry.arrived, entry.arrived + len(data)
        self.bytes += len(data)
        if entry.segment is not None:
            try:
                entry.segment.write(data, entry.offset + start)
                return
            except OSError as error:
                self._note_problem(error)
            # No room on the disk: on in memory.
            before = os.pread(entry.segment.fd, start, entry.offset)
            self._leave_segment(entry)
            entry.payload = bytearray(entry.size)
            entry.payload[:start] = before
            self.memory += entry.size
        assert isinstance(entry.payload, bytearray)
        entry.payload[start : entry.arrived] = data

    def abort(self, entry: StoredEntry) -> None:
        """The rest of a message that was begun does not come: nothing of it stays."""
        self._free(entry)
        entry.size = entry.arrived = 0

    def _keep(self, entry: StoredEntry, payload: bytes) -> None:
        if not self._spill(entry, payload):
            entry.payload = payload
            self.memory += len(payload)
        self.bytes += len(payload)

    def _add(self, entry: StoredEntry) -> int:
        self._entries.append(entry)
        self._firsts.append(entry.first)
        self.last = entry.last
        return entry.last

    def find(self, number: int) -> Optional[StoredEntry]:
        """The entry that covers *number*, or else the first one after it."""
        return next(self.since(number), None)

    def since(self, number: int) -> Iterator[StoredEntry]:
        """The entries from `find(number)` on; meanwhile none may be added or removed."""
        index = bisect.bisect_right(self._firsts, number, self._start) - 1
        if index < self._start or self._entries[index].last < number:
            index += 1
        for position in range(max(index, self._start), len(self._entries)):
            yield self._entries[position]

    def read(self, entry: StoredEntry, offset: int, size: int) -> bytes:
        """Up to *size* bytes of an entry's message from *offset*, as far as they have arrived."""
        size = min(size, entry.arrived - offset)
        if entry.payload is not None:
            return bytes(entry.payload[offset : offset + size])
        assert entry.segment is not None
        return os.pread(entry.segment.fd, size, entry.offset + offset)

    def release(self, number: int) -> None:
        """Removes all entries that end at or before *number*."""
        while self._start < len(self._entries) and self._entries[self._start].last <= number:
            self._free(self._entries[self._start])
            self._start += 1
        if self._start > 512 and self._start * 2 > len(self._entries):
            del self._entries[: self._start], self._firsts[: self._start]
            self._start = 0

    def replace_with_gaps(self, ranges: Sequence[GapRange]) -> None:
        """Replaces the entries of each of *ranges*, which are in order, by one gap.

        Only for entries that were not put on the wire yet. *first* and *last* of a range must be
        the first and last numbers of entries.
        """
        if not ranges:
            return
        start = at = self._between(ranges[0].first, ranges[0].last)[0]
        entries: List[StoredEntry] = []
        gone: List[StoredEntry] = []
        for first, last, note in ranges:
            begin, end = self._between(first, last)
            gap = StoredEntry(first, last, 0, 0, 0)
            gap.note = note
            for entry in self._entries[begin:end]:
                gap.count += entry.count if entry.is_gap else 1
                gap.dropped += entry.dropped if entry.is_gap else entry.size
            gone += self._entries[begin:end]
            entries += [*self._entries[at:begin], gap]
            at = end
        self._entries[start:at] = entries
        self._firsts[start:at] = [entry.first for entry in entries]
        self._free_all(gone)

    def _free_all(self, gone: Sequence[StoredEntry]) -> None:
        """Frees entries that were replaced, and the files in which little is left."""
        touched = {entry.segment for entry in gone}
        for entry in gone:
            self._free(entry)
        sparse = {segment for segment in touched if segment is not None and segment.entries
                  and segment is not self._segment and segment.live * 2 < segment.end}  # fmt: skip
        if sparse:  # a few messages would keep large files
            for entry in self._entries[self._start :]:
                if entry.segment in sparse and entry.arrived == entry.size:
                    self._put(entry, self.read(entry, 0, entry.size))

    def rewrite(self, entry: StoredEntry, payload: bytes) -> None:
        """Gives an entry another encoded message, which is never evicted.

        Only for what has not been put on the wire yet, like `replace_with_gaps`.
        """
        entry.priority = 0
        self._put(entry, payload)

    def _put(self, entry: StoredEntry, payload: bytes) -> None:
        """Keeps *payload* instead of what *entry* has."""
        self._free(entry)
        entry.size = entry.arrived = len(payload)
        self._keep(entry, payload)

    def messages_from(self, number: int, messages: int, size: int) -> List[NumberedMessage]:
        """Messages from *number*, an entry's first, on: at most so many, of at most *size* bytes,
        and none after a gap.
        """
        numbered_messages: List[NumberedMessage] = []
        index = bisect.bisect_left(self._firsts, number, self._start)
        for entry in self._entries[index : index + messages]:
            size -= entry.size
            if entry.is_gap or size < 0:
                break
            parts = split_parts(self.read(entry, 0, entry.size))
            numbered_messages.append(
                NumberedMessage(entry.first, entry.last, entry.channel, entry.flags, parts)
            )
        return numbered_messages

    def replace(self, before: Sequence[NumberedMessage], after: Sequence[NumberedMessage]) -> None:
        """Replaces the messages *before* by *after*, which have the same numbers.

        Only for what has not been put on the wire yet, like `replace_with_gaps`. Parts that are the
        same object are not written again.
        """
        start, end = self._between(after[0].first, after[-1].last)
        parts = {message.last: message.parts for message in before}
        held = {entry.last: entry for entry in self._entries[start:end]}
        entries = []
        for replacement in after:
            if replacement.parts is parts.get(replacement.last):
                entry = held.pop(replacement.last)
                entry.first = replacement.first
            else:
                payload = join_parts(replacement.parts)
                priority = held[replacement.last].priority
                entry = StoredEntry(
                    replacement.first,
                    replacement.last,
                    replacement.channel,
                    replacement.flags,
                    len(payload),
                    priority,
                )
                self._keep(entry, payload)
            entries.append(entry)
        firsts = [entry.first for entry in entries]
        if start - self._start > len(self._entries) - end:
            self._entries[start:end], self._firsts[start:end] = entries, firsts
        else:  # what comes before them is less to move
            oldest, self._start = self._start, self._start + end - start - len(entries)
            self._entries[self._start : end] = self._entries[oldest:start] + entries
            self._firsts[self._start : end] = self._firsts[oldest:start] + firsts
        self._free_all(list(held.values()))

    def _between(self, first: int, last: int) -> Tuple[int, int]:
        start = bisect.bisect_left(self._firsts, first, self._start)
        end = bisect.bisect_right(self._firsts, last, self._start)
        gone = self._entries[start:end]
        if not gone or gone[0].first != first or gone[-1].last != last:
            raise ValueError(
                "%d to %d are not the first and last numbers of entries" % (first, last)
            )
        return start, end

    def close(self) -> None:
        """Removes everything and deletes the files."""
        self.release(self.last)
        if self._segment is not None:
            self._segment.remove()
            self._segment = None

    def _spill(self, entry: StoredEntry, payload: bytes) -> bool:
        """Writes to disk if memory is full; False means keep it in memory.

        payload: the entry's message, or what has come of it.
        """
        if self._folder is None or self.memory + entry.size <= self._memory_limit:
            return False
        try:
            if self._segment is None or self._segment.end >= SEGMENT_BYTES:
                path = os.path.join(self._folder, "journal-%d" % self._segments)
                full, self._segment = self._segment, _Segment(path)
                self._segments += 1
                if full is not None and not full.entries:
                    full.remove()
            self._segment.write(payload, self._segment.end)
        except OSError as error:
            self._note_problem(error)
            return False
        self.problem = ""
        entry.segment, entry.offset = self._segment, self._segment.end
        self._segment.end += entry.size
        self._segment.entries += 1
        self._segment.live += entry.size
        return True

    def _note_problem(self, error: OSError) -> None:
        self.problem = "the journal cannot be written: %s" % (error.strerror or error)

    def _free(self, entry: StoredEntry) -> None:
        self.bytes -= entry.arrived
        if entry.segment is not None:
            self._leave_segment(entry)
        elif entry.payload is not None:
            self.memory -= entry.size
        entry.payload = None

    def _leave_segment(self, entry: StoredEntry) -> None:
        segment, entry.segment = entry.segment, None
        assert segment is not None
        segment.entries -= 1
        segment.live -= entry.size
        if not segment.entries and segment is not self._segment:
            segment.remove()
