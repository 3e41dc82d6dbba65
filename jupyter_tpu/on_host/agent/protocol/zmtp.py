"""ZMTP 3.0, which ZeroMQ's sockets speak, as far as a kernel's sockets need it; no I/O.

The keeper speaks it itself instead of using ZeroMQ: what a kernel sends is in the journal, and on
its way, while the rest of a large message still comes; no thread is between; and a keeper needs
nothing but Python. Source: https://rfc.zeromq.org/spec/23/. A ZeroMQ of a later version speaks
3.0 with a peer that announces it.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

from .frames import MAX_MESSAGE

#: Signature, version, mechanism (no security), "is no server", filler.
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
#: Bytes of a message's parts above which they are not collected.
MAX_COLLECTED = MAX_MESSAGE
#: Largest part, bytes: ZMTP has no larger ones.
MAX_PART = (1 << 63) - 1
#: Bytes of a part above which it is not collected with others, and a caller may take it piece by
#: piece.
LARGE_PART_BYTES = 1 << 20

_MORE, _LONG, _COMMAND = 1, 2, 4
#: Bytes of a PING: how long its sender waits; and most of its context, which the answer repeats.
_TTL_BYTES, _CONTEXT_BYTES = 2, 16
_SHORT_HEAD, _LONG_HEAD = struct.Struct("!BB"), struct.Struct("!BQ")
_SIZE = struct.Struct("!I")

Bytes = Union[bytes, memoryview]


class ZmtpError(Exception):
    """The peer speaks another protocol; the connection has to be closed."""


def greeting(kind: str, identity: bytes = b"") -> bytes:
    """What an end sends first. kind: of its socket, "DEALER" or "SUB"."""
    body = b"\5READY" + _property(b"Socket-Type", kind.encode())
    if identity:
        body += _property(b"Identity", identity)
    return GREETING + _encode_command(body)


def _encode_command(body: bytes) -> bytes:
    return _SHORT_HEAD.pack(_COMMAND, len(body)) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + _SIZE.pack(len(value)) + value


def encode(parts: Sequence[bytes]) -> List[bytes]:
    """A message on the wire: heads and parts."""
    chunks: List[bytes] = []
    for number, part in enumerate(parts, 1):
        flags, size = _MORE if number < len(parts) else 0, len(part)
        head = _SHORT_HEAD.pack(flags, size) if size < 256 else _LONG_HEAD.pack(flags | _LONG, size)
        chunks += (head, part)
    return chunks


class PartWriter:
    """Takes a large part piece by piece. This one discards it."""

    def write(self, piece: Bytes) -> None:
        """The next bytes, which are valid until this returns."""

    def finish(self) -> None:
        """All of it was written."""

    def abort(self) -> None:
        """The rest does not come."""


class _Collector(PartWriter):
    """Needs no memory before the bytes have come, whatever the peer has announced."""

    def __init__(self, parts: List[bytes]) -> None:
        self._parts = parts
        self._data = bytearray()

    def write(self, piece: Bytes) -> None:
        self._data += piece

    def finish(self) -> None:
        self._parts.append(bytes(self._data))


#: Called with the parts of a message before its last one, which is large, and the size of that.
#: Returns what takes the last part, and with it the message (a `PartWriter`); None: it is
#: collected. If the message is above `MAX_COLLECTED`, the last part stands for all that were
#: dropped, too, and None drops it.
TakeLarge = Callable[[List[bytes], int], Optional[Any]]


class ZmtpDecoder:
    """Splits a peer's bytes into messages."""

    def __init__(self, take_large: TakeLarge = lambda parts, size: None) -> None:
        #: What the peer says of itself; None before that.
        self.peer: Optional[Dict[str, bytes]] = None
        #: What the peer has to be sent: answers to its questions whether this end lives.
        self.answers: List[bytes] = []
        self._take_large = take_large
        self._buffer = bytearray()
        self._greeted = False
        self._parts: List[bytes] = []  # of the message after those that were given out
        self._collected = 0  # bytes of them
        self._dropped = 0  # bytes of that message which are not among them
        self._writer: Any = None  # of the large part that comes
        self._ends = False  # the message is the writer's: it is not given out
        self._rest = 0  # bytes of it that are missing
        self._more = False  # parts after it

    def feed(self, data: Bytes) -> Iterator[List[bytes]]:
        """The messages that *data* completes, one by one; raises :class:`ZmtpError`.

        After that, or an error of who takes a large part, the connection has to be closed.
        """
        if self._writer is not None:
            piece, data = data[: self._rest], data[self._rest :]
            yield from self._write(piece)
        self._buffer += data
        if not self._greeted:
            if len(self._buffer) < len(GREETING):
                return
            if self._buffer[0] != 0xFF or self._buffer[10] < 3 or self._buffer[12:17] != b"NULL\0":
                raise ZmtpError("the peer does not speak ZMTP 3 without security")
            del self._buffer[: len(GREETING)]
            self._greeted = True
        at = 0  # what is before it was read
        try:
            while len(self._buffer) >= at + _SHORT_HEAD.size:
                flags, size = _SHORT_HEAD.unpack_from(self._buffer, at)
                start = at + _SHORT_HEAD.size
                if flags & _LONG:
                    if len(self._buffer) < at + _LONG_HEAD.size:
                        break
                    flags, size = _LONG_HEAD.unpack_from(self._buffer, at)
                    start = at + _LONG_HEAD.size
                    if size > MAX_PART or (flags & _COMMAND and size > LARGE_PART_BYTES):
                        raise ZmtpError("a part of %d bytes" % size)
                end = start + size
                large = size >= LARGE_PART_BYTES and not flags & _COMMAND
                if len(self._buffer) < end and not large:
                    break
                with memoryview(self._buffer) as view:
                    body = bytes(view[start:end])
                at = start + len(body)
                if flags & _COMMAND:
                    self._command(body)
                elif large or self._dropped or self._collected + size > MAX_COLLECTED:
                    self._begin_large(size, bool(flags & _MORE))
                    yield from self._write(body)
                else:
                    self._parts.append(body)
                    self._collected += size
                    if not flags & _MORE:
                        yield self._end_message()
        finally:
            del self._buffer[:at]

    def _end_message(self) -> List[bytes]:
        parts, self._parts = self._parts, []
        self._collected = self._dropped = 0
        return parts

    def _begin_large(self, size: int, more: bool) -> None:
        writer: Any = None
        if self._dropped or self._collected + size > MAX_COLLECTED:
            self._dropped += size
            if not more:
                writer = self._take_large(self._parts, self._dropped)
            ends, writer = not more, writer or PartWriter()
        else:
            if not more:
                writer = self._take_large(self._parts, size)
            ends = writer is not None
            writer = writer or _Collector(self._parts)
            self._collected += size
        self._rest, self._more, self._ends, self._writer = size, more, ends, writer

    def _write(self, piece: Bytes) -> Iterator[List[bytes]]:
        self._writer.write(piece)
        self._rest -= len(piece)
        if self._rest:
            return
        writer, self._writer = self._writer, None
        writer.finish()
        if not self._more:
            parts = self._end_message()
            if not self._ends:
                yield parts

    def _command(self, body: bytes) -> None:
        name, rest = body[1 : 1 + body[0]] if body else b"", body[1 + (body or b"\0")[0] :]
        if name == b"ERROR":
            raise ZmtpError("the peer does not accept the connection")
        if name == b"PING":
            context = rest[_TTL_BYTES : _TTL_BYTES + _CONTEXT_BYTES]
            self.answers.append(_encode_command(b"\4PONG" + context))
        if name != b"READY":
            return
        self.peer = {}
        while rest:
            length = rest[0]
            if len(rest) < 1 + length + _SIZE.size:
                raise ZmtpError("a property that is not complete")
            (size,) = _SIZE.unpack_from(rest, 1 + length)
            start = 1 + length + _SIZE.size
            self.peer[rest[1 : 1 + length].decode("latin-1").lower()] = rest[start : start + size]
            rest = rest[start + size :]

    def abort(self) -> None:
        """The connection has ended: what was not complete does not come."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()
