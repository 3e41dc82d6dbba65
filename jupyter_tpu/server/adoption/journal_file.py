"""A kernel's journal on this machine: messages are on disk before the host may delete them.

One record per message, in files of a few MB. A client reads through a :class:`JournalReader`, in
order, so memory stays small however long the journal is. A killed process loses nothing: what was
written is in the operating system's cache.

Each record has a checksum. A file is used up to its first damaged record; other files are not
affected. After a loss, numbers are skipped, because clients may have seen the lost ones.

If the disk is full, records are kept in memory. The journal's owner limits how much that can be.

Plain files, because SQLite (WAL) takes more CPU per appended message: about 4 times as much for one
message of 200 bytes per transaction, and 1.4 times for 32 (benchmarks/journal.py).
"""

from __future__ import annotations

import bisect
import logging
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from ...on_host.agent.protocol import frames, messages

log = logging.getLogger(__name__)

#: Bytes in one file.
SEGMENT_BYTES = 4 << 20
#: Bytes above which a message's content is read only when it is needed, in pieces of so many.
LARGE_CONTENT_BYTES, PIECE_BYTES = 1 << 20, 4 << 20
#: Kinds of records: a message of the kernel, and an execute request of a client.
MESSAGE, REQUEST = 1, 2

#: Checksum of the rest, bytes after the head, kind, channel, the host's number.
_HEAD = struct.Struct("!IIBBQ")
_CHECKSUM_BYTES = 4  # bytes
#: What the system writes at once.
_MAX_WRITES = 1000


class StoredContent(NamedTuple):
    """The content and the buffers of a large message, which are still in their file."""

    segment: _RecordFile
    offset: int
    sizes: list[int]


class JournalRecord(NamedTuple):
    """One record. *number* counts this kernel's records and is never used twice.

    Of a large message *parts* has b"" as content, and `JournalFile.read_content` reads *stored*.
    """

    number: int
    kind: int
    channel: int
    last: int  # the number in the journal between host and client; 0 for a client's request
    parts: list[bytes]
    size: int  # bytes
    stored: StoredContent | None = None


class StoredRecord(NamedTuple):
    """A record as it is in a file. It is decoded only when needed: most are only counted."""

    number: int
    kind: int
    channel: int
    last: int
    data: bytes  # of the whole file
    start: int
    end: int

    def mentions(self, text: bytes) -> bool:
        return self.data.find(text, self.start, self.end) >= 0

    @property
    def parts(self) -> list[bytes]:
        return frames.split_parts(self.data[self.start : self.end])


class ClosedError(OSError):
    """The journal was closed; there is nothing more to read."""


class _RecordFile:
    """One file, or its records in memory."""

    def __init__(self, path: Path, first: int, *, new: bool) -> None:
        self.path = path
        self.first = first
        self.count = 0
        self.end = 0
        self.memory: bytearray | None = None
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if new else 0)
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError:
            if not new:
                raise
            self._fd, self.memory = -1, bytearray()

    @property
    def next(self) -> int:
        return self.first + self.count

    def append(self, data: list[bytes]) -> bool:
        """False: the disk did not take all of it, and nothing was appended."""
        size = sum(map(len, data))
        if self.memory is not None:
            for part in data:
                self.memory += part
        else:
            try:
                if os.pwritev(self._fd, data, self.end) != size:
                    return False
            except OSError:
                return False
        self.end += size
        self.count += 1
        return True

    def read(self, offset: int, size: int) -> bytes:
        if self.memory is not None:
            return bytes(self.memory[offset : offset + size])
        return os.pread(self._fd, size, offset)

    def close(self, *, remove: bool = False) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if remove:
            self.path.unlink(missing_ok=True)


class JournalReader:
    """A position between two records."""

    def __init__(self, segment: _RecordFile) -> None:
        self.move(segment)

    def move(self, segment: _RecordFile) -> None:
        """To the start of *segment*."""
        self.segment = segment
        self.offset = 0
        self.number = segment.first  # of the next record


class JournalFile:
    """All records of one kernel, from the oldest that is stored to the newest.

    Parameters
    ----------
    folder: where the files are. Existing ones are read.
    on_load: called with each record found there.
    """

    def __init__(self, folder: Path, on_load: Callable[[StoredRecord], None] | None = None) -> None:
        self._folder = folder
        self._lock = RLock()
        self._closed = False
        self._segments: list[_RecordFile] = []
        unused = 1
        for path in sorted(folder.glob("journal-*")):
            unused = self._load(path, on_load) or unused
        if not self._segments or self.next < unused:
            self._begin(unused)

    def _load(self, path: Path, on_load: Callable[[StoredRecord], None] | None) -> int | None:
        """Reads one file. A damaged one raises nothing; its intact beginning is used.

        Returns a number that is above all of its records, also the lost ones.
        """
        try:
            first = int(path.name.rpartition("-")[2])
            segment = _RecordFile(path, first, new=False)
            data = segment.read(0, os.path.getsize(path))
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read: %s", path, error)
            return None
        if self._segments and self._segments[-1].next > first:
            log.warning("%s repeats the numbers of another file and is skipped", path)
            segment.close(remove=True)
            return None
        for record in _intact_records(data, first):
            segment.count += 1
            segment.end = record.end
            if on_load is not None:
                on_load(record)
        lost = len(data) - segment.end
        if lost:
            log.warning("%s is damaged: its last %d bytes are skipped", path, lost)
        if segment.count:
            self._segments.append(segment)
        else:
            segment.close(remove=True)
        return segment.next + -(-lost // _HEAD.size)  # at most this many were lost

    def _begin(self, first: int) -> None:
        if self._segments and not self._segments[-1].count:
            self._segments.pop().close(remove=True)
        path = self._folder / f"journal-{first:012d}"
        self._segments.append(_RecordFile(path, first, new=True))

    @property
    def next(self) -> int:
        """The number of the next record."""
        return self._segments[-1].next

    @property
    def oldest(self) -> int:
        """The number of the oldest stored record, or of the next one if there is none."""
        return self._segments[0].first

    def append(self, kind: int, channel: int, last: int, parts: list[bytes]) -> int:
        """Writes a record and returns its number."""
        payload = [frames.encode_sizes(list(map(len, parts))), *parts]
        size = sum(map(len, payload))
        if size < LARGE_CONTENT_BYTES or len(payload) > _MAX_WRITES:
            payload = [b"".join(payload)]
        head = _HEAD.pack(0, size, kind, channel, last)[_CHECKSUM_BYTES:]
        checksum = zlib.crc32(head)
        for part in payload:
            checksum = zlib.crc32(part, checksum)
        data = [checksum.to_bytes(_CHECKSUM_BYTES, "big") + head, *payload]
        with self._lock:
            segment = self._segments[-1]
            if segment.end >= SEGMENT_BYTES:
                self._begin(segment.next)
                segment = self._segments[-1]
            if not segment.append(data):
                self._begin(segment.next)  # in memory, if there is no room for a file either
                segment = self._segments[-1]
                if not segment.append(data):
                    segment.close(remove=True)
                    segment.memory = bytearray()
                    segment.append(data)
            return segment.next - 1

    def reader(self, number: int) -> JournalReader:
        """A reader whose next record is *number*, or the first one after it."""
        with self._lock:
            if self._closed:
                raise ClosedError("the journal is closed")
            number = min(max(number, self.oldest), self.next)
            index = bisect.bisect_right([s.first for s in self._segments], number) - 1
            segment = self._segments[index]
            reader = JournalReader(segment)
            data, start = b"", 0
            while reader.number < min(number, segment.next):
                if reader.offset + _HEAD.size > start + len(data):
                    start, data = reader.offset, segment.read(reader.offset, PIECE_BYTES)
                reader.offset += _HEAD.size + _HEAD.unpack_from(data, reader.offset - start)[1]
                reader.number += 1
            return reader

    def read(self, reader: JournalReader, limit: int) -> list[JournalRecord]:
        """Records of about *limit* bytes, at least one; [] at the end."""
        journal_records: list[JournalRecord] = []
        with self._lock:
            if self._closed:
                raise ClosedError("the journal is closed")
            if reader.number < self.oldest:  # removed in the meantime
                reader.move(self._segments[0])
            size = 0
            while size < limit:
                segment = reader.segment
                if reader.number >= segment.next:
                    # Not always the one after it: an empty file on a full disk is replaced.
                    following = [s for s in self._segments if s.next > reader.number]
                    if not following:
                        break
                    reader.move(following[0])
                    continue
                for record in _read_records(segment, reader, limit - size):
                    journal_records.append(record)
                    size += record.size
        return journal_records

    def read_content(self, stored: StoredContent) -> deque[bytes]:
        """The content and the buffers of a large message as pieces of one sequence of bytes.

        Raises ClosedError if they were removed in the meantime.
        """
        offset, end = stored.offset, stored.offset + sum(stored.sizes)
        pieces: deque[bytes] = deque()
        while offset < end:
            with self._lock:  # not for all pieces: messages of the kernel wait for it
                if self._closed or stored.segment not in self._segments:
                    raise ClosedError("the journal has no such message any more")
                pieces.append(stored.segment.read(offset, min(PIECE_BYTES, end - offset)))
            offset += len(pieces[-1])
        return pieces

    def bytes_from(self, number: int) -> int:
        """About how many bytes of records there are from *number* on, in whole files."""
        with self._lock:
            return sum(s.end for s in self._segments if s.next > number)

    def release(self, number: int) -> None:
        """Removes files whose records are all before *number*."""
        with self._lock:
            while len(self._segments) > 1 and self._segments[0].next <= number:
                self._segments.pop(0).close(remove=True)

    def release_oldest(self, number: int) -> int:
        """Removes the oldest file if its records are before *number*; returns its bytes."""
        with self._lock:
            oldest = self._segments[0]
            if len(self._segments) == 1 or oldest.next > number:
                return 0
            self._segments.pop(0).close(remove=True)
            return oldest.end

    def close(self, *, remove: bool = False) -> None:
        with self._lock:
            self._closed = True
            for segment in self._segments:
                segment.close(remove=remove)


def _read_records(
    segment: _RecordFile, reader: JournalReader, limit: int
) -> Iterator[JournalRecord]:
    """The records at *reader*, at least one, read from the file at once; moves the reader."""
    data = segment.read(reader.offset, max(limit, _HEAD.size))
    at = 0
    while reader.number < segment.next and at + _HEAD.size <= len(data):
        _, size, kind, channel, last = _HEAD.unpack_from(data, at)
        offset, end = reader.offset + _HEAD.size, at + _HEAD.size + size
        if end > len(data) and at:
            return  # one record that is larger than the limit
        if end > len(data) and size >= LARGE_CONTENT_BYTES:
            parts, stored = _read_large(segment, offset)
        else:
            if end > len(data):
                data = segment.read(reader.offset, end)
            parts, stored = frames.split_parts(data[at + _HEAD.size : end]), None
        number = reader.number
        reader.number += 1
        reader.offset += end - at
        yield JournalRecord(number, kind, channel, last, parts, size, stored)
        at = end


def _read_large(segment: _RecordFile, offset: int) -> tuple[list[bytes], StoredContent | None]:
    """The parts of a large message, but for its content and buffers; of anything else all parts."""
    (count,) = struct.unpack("!I", segment.read(offset, 4))
    sizes = struct.unpack(f"!{count}I", segment.read(offset + 4, 4 * count))
    offset += 4 + 4 * count
    parts: list[bytes] = []
    for index, size in enumerate(sizes):
        at = index - messages.CONTENT
        if at >= 0 and parts[at] == messages.DELIMITER:
            return [*parts, b""], StoredContent(segment, offset, list(sizes[index:]))
        parts.append(segment.read(offset, size))
        offset += size
    return parts, None


def _intact_records(data: bytes, number: int) -> Iterator[StoredRecord]:
    """The records of a file up to the first damaged one."""
    at, view = 0, memoryview(data)
    while at + _HEAD.size <= len(data):
        checksum, size, kind, channel, last = _HEAD.unpack_from(data, at)
        start, end = at + _HEAD.size, at + _HEAD.size + size
        if end > len(data) or zlib.crc32(view[at + _CHECKSUM_BYTES : end]) != checksum:
            return
        yield StoredRecord(number, kind, channel, last, data, start, end)
        number, at = number + 1, end
