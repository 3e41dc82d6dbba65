"""The frames of a journal's connection: bytes to frames and back.

A connection is a sequence of frames, each ``length (4 bytes) kind (1 byte) body``, big-endian; the
length counts kind and body. ``journal.py`` gives frames their meaning; here they are only encoded,
decoded and checked.

=========  ====================================================================================
HELLO      ``JTPU``, protocol version, then JSON: the first frame of each direction
NOTICE     JSON outside the numbering: a rejection, a goodbye
MESSAGE    lane, channel, flags, last, span, size, offset, then a piece of the encoded message
GAP        lane, first, last, count, bytes, and perhaps a note: what was dropped on purpose
ACK        lane, sequence number, credit
PING/PONG  a token
=========  ====================================================================================

Every size has a limit. A frame that breaks one, or that can't be decoded, is a
:class:`ProtocolError`: a faulty peer is noticed at its first faulty frame.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

#: The version of this protocol. Peers of different versions reject each other with a message.
VERSION = 1
MAGIC = b"JTPU"

#: Largest frame, bytes: pieces are much smaller; hellos and notices are JSON of at most this size.
MAX_FRAME = 256 * 1024
#: Longest lines of JSON between a client and a daemon, bytes. Any command that a system can run is
#: shorter.
LONGEST_REQUEST = LONGEST_ANSWER = 16 << 20
#: Payload of one MESSAGE frame, bytes: small enough that a ping or an interrupt never waits long.
PIECE_BYTES = 64 * 1024
#: Largest message, bytes, all its parts together.
MAX_MESSAGE = 1 << 30
#: Bytes of a last part above which it is not copied.
LARGE_BYTES = 1 << 20
#: Most parts in a message.
MAX_PARTS = 1 << 16

HELLO, NOTICE, MESSAGE, GAP, ACK, PING, PONG = range(1, 8)

_HEAD = struct.Struct("!IB")
_VERSION = struct.Struct("!H")
_MESSAGE = struct.Struct("!BBBQIQQ")
_GAP = struct.Struct("!BQQQQ")
_ACK = struct.Struct("!BQQ")
_TOKEN = struct.Struct("!Q")
_COUNT = struct.Struct("!I")


class ProtocolError(Exception):
    """The peer broke the protocol; the connection has to be closed."""


class Hello(NamedTuple):
    """Which stream it is, what its end has, and what the application adds."""

    fields: Dict[str, Any]


class Notice(NamedTuple):
    """A message outside the numbering, about this connection only."""

    fields: Dict[str, Any]


class Piece(NamedTuple):
    """A piece of one message. The message covers the numbers ``last - span + 1`` to ``last``."""

    lane: int
    channel: int
    flags: int
    last: int
    span: int
    size: int  # of the whole encoded message, bytes
    offset: int
    data: bytes


class GapFrame(NamedTuple):
    lane: int
    first: int
    last: int
    messages: int  # that were dropped …
    size: int  # … and their bytes
    note: bytes = b""  # of the application, about them


class Ack(NamedTuple):
    """Everything up to *seq* is acknowledged; *credit* payload bytes of this connection have left
    the receiver's window."""

    lane: int
    seq: int
    credit: int


class Ping(NamedTuple):
    token: int


class Pong(NamedTuple):
    token: int


Frame = Union[Hello, Notice, Piece, GapFrame, Ack, Ping, Pong]


def _frame(kind: int, *parts: bytes) -> bytes:
    length = 1 + sum(map(len, parts))
    if length > MAX_FRAME:
        raise ValueError("a frame of %d bytes is larger than the limit %d" % (length, MAX_FRAME))
    return b"".join((_HEAD.pack(length, kind), *parts))


def _json(fields: Dict[str, Any]) -> bytes:
    return json_line(fields)[:-1]


def json_line(fields: Dict[str, Any]) -> bytes:
    """A line of JSON that everybody can read: a host's names may have bytes that are no characters,
    which Python reads as halves of characters.
    """
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def encode_piece(piece: Piece) -> Tuple[bytes, bytes]:
    """The bytes of *piece* on the wire, in two parts, of which the second one is its data."""
    head = _MESSAGE.pack(*piece[:7])
    return _HEAD.pack(1 + len(head) + len(piece.data), MESSAGE) + head, piece.data


def encode(frame: Frame) -> bytes:
    """The bytes of *frame* on the wire."""
    if isinstance(frame, Piece):
        return b"".join(encode_piece(frame))
    if isinstance(frame, Ack):
        return _frame(ACK, _ACK.pack(*frame))
    if isinstance(frame, Ping):
        return _frame(PING, _TOKEN.pack(frame.token))
    if isinstance(frame, Pong):
        return _frame(PONG, _TOKEN.pack(frame.token))
    if isinstance(frame, GapFrame):
        return _frame(GAP, _GAP.pack(*frame[:5]), frame.note)
    if isinstance(frame, Hello):
        return _frame(HELLO, MAGIC, _VERSION.pack(VERSION), _json(frame.fields))
    return _frame(NOTICE, _json(frame.fields))


def _decode(kind: int, view: memoryview) -> Frame:
    if kind == MESSAGE:
        lane, channel, flags, last, span, size, offset = _MESSAGE.unpack_from(view)
        data = bytes(view[_MESSAGE.size :])
        return Piece(lane, channel, flags, last, span, size, offset, data)
    body = bytes(view)
    if kind == ACK:
        return Ack(*_ACK.unpack(body))
    if kind == PING:
        return Ping(*_TOKEN.unpack(body))
    if kind == PONG:
        return Pong(*_TOKEN.unpack(body))
    if kind == GAP:
        lane, first, last, count, dropped = _GAP.unpack_from(body)
        return GapFrame(lane, first, last, count, dropped, body[_GAP.size :])
    if kind == HELLO:
        if body[: len(MAGIC)] != MAGIC:
            raise ProtocolError("the peer does not speak the journal protocol")
        (version,) = _VERSION.unpack_from(body, len(MAGIC))
        if version != VERSION:
            raise ProtocolError(
                "the peer uses version %d of the journal protocol, this is version %d"
                % (version, VERSION)
            )
        return Hello(_json_object(body[len(MAGIC) + _VERSION.size :]))
    if kind == NOTICE:
        return Notice(_json_object(body))
    raise ProtocolError("a frame of unknown kind %d" % kind)


def _json_object(body: bytes) -> Dict[str, Any]:
    fields = json.loads(body)
    if not isinstance(fields, dict):
        raise ProtocolError("a hello or notice that is not a JSON object")
    return fields


class Decoder:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that *data* completes, one by one; raises :class:`ProtocolError`.

        A caller may stop in the middle; the next call continues there.
        """
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._buffer)
            if not 1 <= length <= MAX_FRAME:
                raise ProtocolError("a frame of %d bytes; the limit is %d" % (length, MAX_FRAME))
            end = _HEAD.size - 1 + length
            if len(self._buffer) < end:
                return
            try:
                with memoryview(self._buffer) as whole, whole[_HEAD.size : end] as body:
                    frame = _decode(kind, body)
            except (struct.error, ValueError, RecursionError) as error:
                raise ProtocolError("a frame that cannot be decoded: %s" % error) from error
            finally:
                del self._buffer[:end]
            yield frame


# ---- the parts of one message ------------------------------------------------------------------


def join_parts(parts: Sequence[bytes]) -> bytes:
    """The encoded message of *parts*: their number, their sizes, their bytes."""
    return b"".join((encode_sizes(list(map(len, parts))), *parts))


def encode_sizes(sizes: Sequence[int]) -> bytes:
    """What is before the parts in their encoded message: their number, and their *sizes*."""
    if len(sizes) > MAX_PARTS:
        raise ValueError("a message of %d parts; the limit is %d" % (len(sizes), MAX_PARTS))
    return struct.pack("!%dI" % (1 + len(sizes)), len(sizes), *sizes)


def split_parts(message: Union[bytes, bytearray]) -> List[bytes]:
    """The inverse of :func:`join_parts`; raises :class:`ProtocolError`."""
    position, sizes = _decode_sizes(message)
    view, parts = memoryview(message), []
    for size in sizes:
        parts.append(bytes(view[position : position + size]))
        position += size
    return parts


def take_parts(message: bytearray) -> List[bytes]:
    """As :func:`split_parts` of a *message* that is not used any more: a large last part is not
    copied.
    """
    _, sizes = _decode_sizes(message)
    if not sizes or sizes[-1] < LARGE_BYTES:
        return split_parts(message)
    position = len(message) - sum(sizes)
    parts: List[Any] = []
    for size in sizes[:-1]:
        parts.append(bytes(message[position : position + size]))
        position += size
    del message[:position]  # Python moves only the beginning
    return [*parts, message]


def _decode_sizes(message: Union[bytes, bytearray]) -> Tuple[int, Sequence[int]]:
    """Where the parts of an encoded message begin, and their sizes."""
    if len(message) < _COUNT.size:
        raise ProtocolError("a message without its header")
    (count,) = _COUNT.unpack_from(message)
    position = _COUNT.size * (1 + count)
    if count > MAX_PARTS or position > len(message):
        raise ProtocolError("a message with an incomplete header")
    sizes = struct.unpack_from("!%dI" % count, message, _COUNT.size)
    if position + sum(sizes) != len(message):
        raise ProtocolError("a message whose parts do not add up to its size")
    return position, sizes
