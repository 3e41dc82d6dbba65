"""The output of a job on disk: numbered lines that can be read from any point, by anybody; and its
state, in a file that outlives the keeper and the host's next start.

A kernel's journal forgets what its one client has acknowledged. A job's output has many readers,
now and weeks later, so it stays until the job is removed. Each line has a number, from 1 on; a
reader that asks for "from N" after any interruption misses nothing and gets nothing twice.

A line is a JSON array in a file: number, milliseconds since the epoch, "out" or "err", the text,
and 1 if the text continues in the next record of that stream. The files, ``log-FIRST``, are named
after their first number. There is a limit for all of them; above it the oldest file is deleted, and
its numbers are missing from then on, which readers see. The same is done on a full disk, if there
is an older file; else lines wait in memory, and the owner pauses the job.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
import time
from collections import deque
from typing import Any, BinaryIO, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..protocol.json_file import read_json, write_json

#: ``state`` is one of these. "lost": the command ended, and its end was not seen.
RUNNING, STOPPING, ENDED, LOST = "running", "stopping", "ended", "lost"
#: States in which nothing changes any more.
FINAL = (ENDED, LOST)
_NAME = "state.json"


def read_state(folder: str) -> Optional[Dict[str, Any]]:
    """The state of the job in *folder*; None if there is none."""
    return read_json(os.path.join(folder, _NAME))


def write_state(folder: str, state: Dict[str, Any]) -> None:
    """Replaces the state; raises OSError."""
    write_json(os.path.join(folder, _NAME), state)


#: Bytes of a job's files, and of one of them.
LOG_BYTES, SEGMENT_BYTES = 512 << 20, 4 << 20
#: Longest text of one record, characters. A longer line is split.
LONGEST_RECORD_CHARACTERS = 32 << 10
#: Bytes read at most for one answer, so that a search in a long log does not block others.
SCAN_BYTES = 8 << 20
#: Lines that are kept in memory, and characters of each.
TAIL_LINES, TAIL_CHARACTERS = 100, 1000
#: Bytes before a line that are read with it.
NEAR_BYTES = 8 << 10
_PREFIX = "log-"


class JobLogLine(NamedTuple):
    """A line of a job's output."""

    number: int
    time: int  # milliseconds since the epoch
    stream: str  # "out" or "err"
    text: str
    more: int = 0  # 1: the line continues in the next record of its stream


class LogPart(NamedTuple):
    """What was read of a log."""

    lines: List[JobLogLine]
    oldest: int  # the first number that is still there
    next: int  # where to read on


class JobLogWriter:
    """Writes the log in *folder*.

    limit: bytes of all files.
    """

    def __init__(self, folder: str, limit: int = LOG_BYTES) -> None:
        self._folder = folder
        self._limit = max(limit, 1 << 16)
        self._segment = min(SEGMENT_BYTES, self._limit // 4)
        self._fd = -1
        self._end = 0  # of the current file
        self._sizes: Dict[str, int] = {}  # by path, the oldest first
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("out", "err")
        }
        self.last = 0  # the number of the newest line
        #: What stands after the last line of each stream: a prompt, or a progress bar.
        self.partial = {"out": "", "err": ""}
        #: The streams and the beginnings of the last lines.
        self.tail: Deque[Tuple[str, str]] = deque(maxlen=TAIL_LINES)
        self._unwritten: List[Tuple[int, bytes]] = []
        self.waiting = 0  # bytes that could not be written
        self.problem = ""  # why; "" if all is written

    def feed(self, stream: str, data: bytes, final: bool = False) -> None:
        """Takes output of the process; *final*: nothing more follows in this stream."""
        text = self.partial[stream] + self._decoders[stream].decode(data, final)
        *lines, rest = text.split("\n")
        now = time.time_ns() // 1_000_000
        for line in lines:
            self._add(stream, now, line[:-1] if line.endswith("\r") else line)
        rest = _collapse(rest)
        while len(rest) > LONGEST_RECORD_CHARACTERS:
            self._record(stream, now, rest[:LONGEST_RECORD_CHARACTERS], more=1)
            rest = rest[LONGEST_RECORD_CHARACTERS:]
        if final and rest:
            self._add(stream, now, rest)
            rest = ""
        self.partial[stream] = rest
        self.write()

    def _add(self, stream: str, now: int, line: str) -> None:
        line = _collapse(line)
        while len(line) > LONGEST_RECORD_CHARACTERS:
            self._record(stream, now, line[:LONGEST_RECORD_CHARACTERS], more=1)
            line = line[LONGEST_RECORD_CHARACTERS:]
        self._record(stream, now, line)

    def _record(self, stream: str, now: int, text: str, more: int = 0) -> None:
        self.last += 1
        self.tail.append((stream, text[:TAIL_CHARACTERS]))
        record: List[Any] = [self.last, now, stream, text] + [1] * more
        data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        self._unwritten.append((self.last, data))
        self.waiting += len(data)

    def write(self) -> None:
        """Writes what waits, as far as there is space. Call it again later if `problem` is set."""
        while self._unwritten:
            try:
                if self._fd < 0 or self._end >= self._segment:
                    self._open(self._unwritten[0][0])
                count, size = 0, 0
                while count < len(self._unwritten) and self._end + size < self._segment:
                    size += len(self._unwritten[count][1])
                    count += 1
                self._append(b"".join(data for _, data in self._unwritten[:count]))
            except OSError as error:
                if not self._drop_oldest():
                    self.problem = error.strerror or str(error)
                    return
                continue
            del self._unwritten[:count]
            self.waiting -= size
        self.problem = ""
        while sum(self._sizes.values()) > self._limit and self._drop_oldest():
            pass

    def _open(self, first: int) -> None:
        path = os.path.join(self._folder, "%s%012d" % (_PREFIX, first))
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        self.close()
        self._fd, self._end, self._sizes[path] = fd, 0, 0

    def _append(self, data: bytes) -> None:
        """Appends all of *data* or nothing."""
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self._end + done)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        self._end += len(data)
        self._sizes[next(reversed(self._sizes))] = self._end

    def _drop_oldest(self) -> bool:
        """Deletes the oldest file; False if there is only the one that is written to."""
        if len(self._sizes) < 2:
            return False
        path = next(iter(self._sizes))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        del self._sizes[path]
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _collapse(line: str) -> str:
    """*line* without what it overwrites itself, as a progress bar does."""
    if "\r" not in line:
        return line
    from ..protocol.coalescing import collapse_overwritten  # few jobs need it

    return collapse_overwritten("\n" + line)[1:]  # it begins at the left margin


def read_log(
    folder: str, start: int, limit: int, search: str = "", scan: int = SCAN_BYTES
) -> LogPart:
    """Up to *limit* lines from number *start* on; with *search* those that have it, in any case.

    Reads *scan* bytes at most, and one line: there may be more from `LogPart.next` on even if no
    line was found. In an answer a line has no more bytes than on disk.
    """
    files = _files(folder)
    oldest = files[0][0] if files else 1
    following = [first for first, _ in files[1:]] + [0]
    text, at = search.casefold(), max(start, 1)
    log_lines: List[JobLogLine] = []
    for (_, path), after in zip(files, following):
        if after and after <= at:
            continue
        for data in _lines(path, at):
            if len(log_lines) >= limit or scan <= 0:
                return LogPart(log_lines, oldest, at)
            line = JobLogLine(*json.loads(data))
            at = line.number + 1
            scan -= len(data)
            if not text or text in line.text.casefold():
                log_lines.append(line)
    return LogPart(log_lines, oldest, at)


def last_number(folder: str) -> int:
    """The number of the last line on disk; 0 if there is none."""
    files = _files(folder)
    if not files:
        return 0
    first, path = files[-1]
    number = first - 1
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(_find(file, sys.maxsize))
        for data in file:
            if data.endswith(b"\n"):
                number = _number(data)
    return number


def _files(folder: str) -> "List[Tuple[int, str]]":
    """The files with their first numbers, in order."""
    with contextlib.suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(folder) if name.startswith(_PREFIX))
        return [(int(name[len(_PREFIX) :]), os.path.join(folder, name)) for name in names]
    return []


def _lines(path: str, start: int) -> Iterator[bytes]:
    """The lines of one file from number *start* on, without one that is being written."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(_find(file, start))
        for data in file:
            if data.endswith(b"\n") and _number(data) >= start:
                yield data


def _find(file: BinaryIO, number: int) -> int:
    """Where a line begins that is not far before the one with this number: by halves, so that the
    end of a long file is read as quickly as its beginning.
    """
    low, high = 0, os.fstat(file.fileno()).st_size
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        begin = middle + len(file.readline())
        data = file.readline()
        if begin < high and data.endswith(b"\n") and _number(data) <= number:
            low = begin
        else:
            high = middle
    return low


def _number(data: bytes) -> int:
    return int(data[1 : data.index(b",")])
