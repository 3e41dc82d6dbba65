"""Limits for what another machine sends: more is an error, before it takes memory."""

from __future__ import annotations

import zlib

from .wording import size_text


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
        plain = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    check_size(len(plain), limit)
    if not unpacker.eof:
        raise ValueError("it is cut off")
    return plain
