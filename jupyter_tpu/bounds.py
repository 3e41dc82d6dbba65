"""What another machine sends has a size and a type. What does not keep them is an error that says
so, before it costs memory.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from .errors import Reason, TPUError
from .wording import size_text


class Unexpected(TPUError):
    """What was sent is not what it has to be (INTERNAL)."""

    def __init__(self, what: str, why: object, hint: str = "") -> None:
        why = str(why).rstrip(".")[:200]
        super().__init__(f"{what} sent something unexpected: {why}.", Reason.INTERNAL, hint)


def check_size(size: int, limit: int) -> int:
    """*size*, of what is to be read. Raises ValueError beyond *limit*, in bytes."""
    if not 0 <= size <= limit:
        raise ValueError(f"more than {size_text(limit)}")
    return size


def inflate(data: bytes | bytearray, limit: int, *, gzip: bool = False) -> bytes:
    """What *data* is unpacked to. Raises ValueError for more than *limit* bytes, and for what is
    not all of a stream.
    """
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16 if gzip else zlib.MAX_WBITS)
    try:
        found = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    check_size(len(found), limit)
    if not unpacker.eof:
        raise ValueError("it is cut off")
    return found


def decode(data: bytes, kind: Any, what: str) -> Any:
    """The JSON in *data* as a *kind*; *what* is who sent it. Raises `Unexpected`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        raise Unexpected(what, error) from None


def convert(value: Any, kind: Any, what: str) -> Any:
    """As :func:`decode`, of what is decoded already."""
    try:
        return msgspec.convert(value, type=kind)
    except (ValueError, RecursionError) as error:
        raise Unexpected(what, error) from None
