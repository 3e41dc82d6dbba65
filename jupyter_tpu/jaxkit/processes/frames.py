"""Messages over a pipe: two lengths of four bytes each, a head of JSON, a body of bytes."""

from __future__ import annotations

import struct
from typing import BinaryIO

_LENGTHS = struct.Struct(">II")
#: Bytes of a head; it holds names and figures, never arrays.
MAX_HEAD = 32 << 20
LENGTHS = _LENGTHS.size


class FrameTooLarge(ValueError):
    """A message announces more bytes than the reader accepts."""


def pack(head: bytes, body: bytes) -> bytes:
    return _LENGTHS.pack(len(head), len(body)) + head + body


def lengths(data: bytes, most: int) -> tuple[int, int]:
    """(head, body) lengths; `FrameTooLarge` if the body has more than *most* bytes."""
    head, body = _LENGTHS.unpack(data)
    if head > MAX_HEAD or body > most:
        raise FrameTooLarge(f"a message of {head} + {body} bytes")
    return head, body


def write_frame(stream: BinaryIO, head: bytes, body: bytes) -> None:
    stream.write(_LENGTHS.pack(len(head), len(body)))
    stream.write(head)
    stream.write(body)
    stream.flush()


def read_frame(stream: BinaryIO, most: int) -> tuple[bytes, bytes]:
    """The next message; EOFError where the stream ends before it does."""
    head, body = lengths(_exactly(stream, LENGTHS), most)
    return _exactly(stream, head), _exactly(stream, body)


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
