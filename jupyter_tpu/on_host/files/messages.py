"""What two ends of a transfer say to each other: messages, their checks, and failures.

A message is a line of JSON. After ``{"data": n}`` n bytes of a file follow.
"""

import errno
import json
import os
import time
import zlib
from typing import Any

CHUNK_BYTES = 256 << 10
#: How many names a message has at most.
MOST_NAMES = 100
#: How the name begins under which a file is written until it is whole.
PART = b".jupyter-tpu-"
#: Seconds between two reports of progress.
REPORT_SECONDS = 0.2
#: What is told of a failure.
FIELDS = {"code": str, "path": str, "message": str, "names": list, "count": int, "of_sender": bool}
#: Bytes of a message, and those that it may have more for each file that it is about.
LONGEST_MESSAGE_BYTES, PER_FILE = 4 << 20, 40
#: The level of zlib; 40 MB/s.
_ZLIB_LEVEL = 6
#: Bytes of a sample that tells whether data is compressed, and the part of it that may be left.
_SAMPLE_BYTES, _COMPRESSED_RATIO = 4096, 0.9


class TransferFailure(Exception):
    """It ends a transfer. code: errno's name (ENOTDIR: its folder does not exist), or EXISTS,
    IN_THE_WAY, SAME_NAME, BUSY, LOST, PROTOCOL.
    """

    def __init__(self, code, path="", message="", names=(), count=0, of_sender=False):
        super().__init__(code, path, message)
        self.code = code
        self.path = path
        self.message = message
        self.names = list(names)
        self.count = count
        self.of_sender = of_sender


class TransferPeer:
    """The other end: two binary files."""

    def __init__(self, reader, writer):
        self._plain = self._reader = reader
        self._line = self._writer = writer

    def send(self, content=b"", **message):
        try:
            self._writer.write(json.dumps(message).encode() + b"\n" + content)
        except (OSError, ValueError):
            self._lost()

    def flush(self):
        try:
            self._writer.flush()
        except (OSError, ValueError):
            self._lost()

    def compress(self):
        """From now on what is sent is compressed, where that makes it less."""
        if self._writer is self._line:
            self.send(compressed=True)
            self._writer = _Compressed(self._line)

    def send_end(self):
        """Says that all files were sent."""
        if self._writer is not self._line:
            try:
                self._writer.finish()
            except (OSError, ValueError):
                self._lost()
            self._writer = self._line
        self.send(sent=True)
        self.flush()

    def receive(self, files=0) -> "dict[str, Any]":
        """The next message. files: about how many it may be."""
        self.flush()
        return self._next_message(LONGEST_MESSAGE_BYTES + PER_FILE * files)

    def _next_message(self, limit=LONGEST_MESSAGE_BYTES):
        while True:
            try:
                line = self._reader.readline(limit + 1)
                if not line and self._reader is not self._plain and self._reader.ended:
                    self._reader = self._plain
                    continue
            except (OSError, ValueError):
                raise TransferFailure("LOST") from None
            if len(line) > limit:
                raise protocol_error("a message of more than %d MB" % (limit / 1e6))
            message = message_of(line)
            if "compressed" not in message:
                return message
            if self._reader is not self._plain:
                raise protocol_error("it is compressed twice")
            self._reader = _Expanded(self._plain)

    def read(self, size):
        if type(size) is not int or not 0 < size <= CHUNK_BYTES:
            raise protocol_error("a part of a file that no sender makes")
        try:
            data = self._reader.read(size)
        except (OSError, ValueError):
            raise TransferFailure("LOST") from None
        if len(data) < size:
            raise TransferFailure("LOST")
        return data

    def receive_end(self):
        """What `send_end` says."""
        if "sent" not in self.receive():
            raise protocol_error("it has more than was asked for")

    def _lost(self):
        """It reads no more: it has said why, or the line is cut."""
        while True:
            self._next_message()


class _Compressed:
    """Writes to *line* in frames: "Z" or "R", 4 bytes of length, and data, after "Z" compressed.
    The last one is empty.
    """

    def __init__(self, line):
        self._line = line
        self._waiting = bytearray()

    def write(self, data):
        self._waiting += data
        while len(self._waiting) >= CHUNK_BYTES:
            self._write_frame()

    def flush(self):
        self._line.flush()

    def finish(self):
        while self._waiting:
            self._write_frame()
        self._write_frame()

    def _write_frame(self):
        data = bytes(self._waiting[:CHUNK_BYTES])
        del self._waiting[:CHUNK_BYTES]
        kind = b"R"
        middle = data[len(data) // 2 :][:_SAMPLE_BYTES]
        if len(zlib.compress(middle, 1)) < _COMPRESSED_RATIO * len(middle):
            packed = zlib.compress(data, _ZLIB_LEVEL)
            if len(packed) < len(data):
                kind, data = b"Z", packed
        self._line.write(kind + len(data).to_bytes(4, "big") + data)


class _Expanded:
    """Reads what `_Compressed` has written to *line*. ended: all of it was read."""

    def __init__(self, line):
        self.ended = False
        self._line = line
        self._ready = b""
        self._at = 0  # where what was not read yet begins

    def read(self, size):
        while len(self._ready) - self._at < size and not self.ended:
            self._read_frame()
        return self._take(size)

    def readline(self, limit):
        while True:
            end = self._ready.find(b"\n", self._at) + 1
            if end or self.ended or len(self._ready) - self._at >= limit:
                return self._take(min(limit, end - self._at if end else limit))
            self._read_frame()

    def _take(self, size):
        data = self._ready[self._at : self._at + size]
        self._at += len(data)
        return data

    def _read_frame(self):
        head = self._line.read(5)
        kind, size = head[:1], int.from_bytes(head[1:], "big")
        if len(head) == 5 and (kind not in (b"R", b"Z") or size > CHUNK_BYTES):
            raise protocol_error("it is not compressed as it says")
        data = self._line.read(size)
        if len(head) < 5 or len(data) < size:
            raise TransferFailure("LOST")
        self.ended = not size
        if kind == b"Z":
            data = _expanded(data)
        self._ready, self._at = self._ready[self._at :] + data, 0


def _expanded(data):
    inflate = zlib.decompressobj()
    try:
        expanded = inflate.decompress(data, CHUNK_BYTES + 1)
    except zlib.error as error:
        raise protocol_error(str(error)) from None
    if not inflate.eof or inflate.unused_data:
        raise protocol_error("it is not compressed as it says")
    return expanded


def protocol_error(message=""):
    return TransferFailure("PROTOCOL", message=message)


def message_of(line) -> "dict[str, Any]":
    """Raises the failure that it tells."""
    if not line.endswith(b"\n"):
        raise TransferFailure("LOST")
    try:
        message = json.loads(line)
        error = message.get("error")
        if error:
            told = {name: error[name] for name in FIELDS if name in error}
            names = all(isinstance(text, str) for text in told.get("names", ()))
            if not names or any(type(value) is not FIELDS[name] for name, value in told.items()):
                raise ValueError("a failure that is none")
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise TransferFailure("PROTOCOL") from None
    if error:
        raise TransferFailure(**told)
    return message


def encoded(path):
    return path.encode("utf-8", "surrogateescape")


def decoded(path):
    return path.decode("utf-8", "surrogateescape")


def problem(error, path):
    path = path if isinstance(path, bytes) else encoded(path)
    folder, name = os.path.split(path)
    if name.startswith(PART):  # a name of ours says nothing to anybody
        path = folder
    code = errno.errorcode.get(error.errno or 0, "")
    return [decoded(path), "EXISTS" if code == "EEXIST" else code, error.strerror or ""]


def failure(error, path):
    shown, code, message = problem(error, path)
    return TransferFailure(code, shown, message)


def checked_problem(told):
    """Why a file is not sent: its path, a code and a message."""
    path, code, message = told
    if not all(isinstance(text, str) for text in told):
        raise TransferFailure("PROTOCOL")
    return [path, code, message[:1000]]


class Reports:
    """Tells the number of bytes that were copied, not too often."""

    def __init__(self, report):
        self._report = report
        self._done = 0
        self._total = 0
        self._next = 0.0

    def __call__(self, size, total=None):
        """size: of what was copied; with *total*, of what was there from before."""
        if total is not None:
            self._done, self._total, self._next = 0, total, 0.0
        self._done += size
        now = time.monotonic()
        if now >= self._next or self._done >= self._total:
            self._next = now + REPORT_SECONDS
            self._report(self._done, self._total)
