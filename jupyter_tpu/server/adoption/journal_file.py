"""The journal's copy on this machine: what a kernel said, on disk before its host may forget it.

A file per few MB, one record per message. Whoever reads has a :class:`Reader` and goes through the
records in order, so memory stays small however much there is. A process that is killed loses
nothing: what was written is in the system's hands, and a record that was cut off in the middle was
not acknowledged, so the host sends it again.

Where the disk takes no more, the files go on in memory; their owner bounds how much that can be.
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from ...agent.protocol import frames

#: Bytes in one file.
SEGMENT = 4 << 20
#: Kinds of records: what the kernel said, and what it was asked.
MESSAGE, REQUEST = 1, 2

_HEAD = struct.Struct("!IBBQ")  # bytes after the head, kind, channel, the number its host gave it


class JournalRecord(NamedTuple):
    """One record. *number* counts records of this kernel from 1 and is never given out twice."""

    number: int
    kind: int
    channel: int
    last: int  # the number in the journal between host and client; 0 for what was asked
    parts: list[bytes]
    size: int  # bytes


class ClosedError(OSError):
    """The journal was closed; there is nothing more to read."""


class _Segment:
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

    def append(self, data: bytes) -> bool:
        """False: the disk took it not, or not whole; nothing was appended."""
        if self.memory is not None:
            self.memory += data
        else:
            try:
                written = os.pwrite(self._fd, data, self.end)
                if written != len(data):
                    return False
            except OSError:
                return False
        self.end += len(data)
        self.count += 1
        return True

    def read(self, offset: int, size: int) -> bytes:
        if self.memory is not None:
            return bytes(self.memory[offset : offset + size])
        return os.pread(self._fd, size, offset)

    def records(self, offset: int, stop: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Offset, kind, channel, last and size of whole records from *offset* to *stop*."""
        while offset + _HEAD.size <= stop:
            size, kind, channel, last = _HEAD.unpack(self.read(offset, _HEAD.size))
            if offset + _HEAD.size + size > stop:
                return
            yield offset, kind, channel, last, size
            offset += _HEAD.size + size

    def cut(self, end: int) -> None:
        self.end = end
        if self._fd >= 0:
            os.ftruncate(self._fd, end)

    def close(self, *, remove: bool = False) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if remove:
            self.path.unlink(missing_ok=True)


class Reader:
    """A place between two records."""

    def __init__(self, segment: _Segment, offset: int, number: int) -> None:
        self.segment = segment
        self.offset = offset
        self.number = number  # of the record that comes next


class JournalFile:
    """All records of one kernel, from the oldest that is kept to the newest.

    Parameters
    ----------
    folder: where the files are; those that are there are read.
    on_load: called with each record found there.
    """

    def __init__(
        self, folder: Path, on_load: Callable[[JournalRecord], None] | None = None
    ) -> None:
        self._folder = folder
        self._lock = RLock()
        self._closed = False
        self._segments: list[_Segment] = []
        for path in sorted(folder.glob("journal-*")):
            self._load(path, on_load)
        if not self._segments:
            self._begin(1)

    def _load(self, path: Path, on_load: Callable[[JournalRecord], None] | None) -> None:
        segment = _Segment(path, int(path.name.rpartition("-")[2]), new=False)
        if self._segments and self._segments[-1].next != segment.first:
            for before in self._segments:  # a hole: what is before it is of no use
                before.close(remove=True)
            self._segments.clear()
        self._segments.append(segment)
        end = 0
        for offset, *_, size in segment.records(0, os.path.getsize(path)):
            end = offset + _HEAD.size + size
            segment.count += 1
        segment.cut(end)
        if on_load is not None:
            reader = Reader(segment, 0, segment.first)
            for entry in self.read(reader, end + 1):
                on_load(entry)

    def _begin(self, first: int) -> None:
        path = self._folder / f"journal-{first:012d}"
        self._segments.append(_Segment(path, first, new=True))

    @property
    def next(self) -> int:
        """The number that the next record will have."""
        return self._segments[-1].next

    @property
    def oldest(self) -> int:
        """The number of the oldest record that is kept, or of the next one if none is."""
        return self._segments[0].first

    def append(self, kind: int, channel: int, last: int, parts: list[bytes]) -> int:
        """Writes a record down and returns its number."""
        payload = frames.join_parts(parts)
        data = _HEAD.pack(len(payload), kind, channel, last) + payload
        with self._lock:
            segment = self._segments[-1]
            if segment.end >= SEGMENT:
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

    def reader(self, number: int) -> Reader:
        """A reader whose next record is *number*, or the oldest there is."""
        with self._lock:
            if self._closed:
                raise ClosedError("the journal is closed")
            number = min(max(number, self.oldest), self.next)
            index = bisect.bisect_right([s.first for s in self._segments], number) - 1
            segment = self._segments[index]
            reader = Reader(segment, 0, segment.first)
            for offset, *_, size in segment.records(0, segment.end):
                if reader.number == number:
                    break
                reader.offset, reader.number = offset + _HEAD.size + size, reader.number + 1
            return reader

    def read(self, reader: Reader, limit: int) -> list[JournalRecord]:
        """Records of about *limit* bytes, at least one; [] at the end."""
        found: list[JournalRecord] = []
        with self._lock:
            if self._closed:
                raise ClosedError("the journal is closed")
            if reader.number < self.oldest:  # removed in the meantime
                self._move(reader, self._segments[0])
            size = 0
            while size < limit:
                segment = reader.segment
                if reader.number >= segment.next:
                    index = self._segments.index(segment)
                    if index + 1 == len(self._segments):
                        break
                    self._move(reader, self._segments[index + 1])
                    continue
                head = segment.read(reader.offset, _HEAD.size)
                length, kind, channel, last = _HEAD.unpack(head)
                payload = segment.read(reader.offset + _HEAD.size, length)
                parts = frames.split_parts(payload)
                found.append(JournalRecord(reader.number, kind, channel, last, parts, length))
                reader.offset += _HEAD.size + length
                reader.number += 1
                size += length
        return found

    @staticmethod
    def _move(reader: Reader, segment: _Segment) -> None:
        reader.segment, reader.offset, reader.number = segment, 0, segment.first

    def bytes_from(self, number: int) -> int:
        """About how many bytes of records there are from *number* on, to a file's precision."""
        with self._lock:
            return sum(s.end for s in self._segments if s.next > number)

    def release(self, number: int) -> None:
        """Removes files all of whose records are before *number*."""
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
