"""Text with a checksum line before it, so that a reader knows whether it is complete."""

from __future__ import annotations

import zlib


def seal(content: bytes) -> bytes:
    """*content*, which has no line ends, as one line with its checksum."""
    return b"%08x %b\n" % (zlib.crc32(content), content)


def unseal(data: bytes) -> bytes:
    """What was sealed at the start of *data*; whatever follows it is ignored.

    Raises ValueError if it is damaged.
    """
    line, end, _ = data.partition(b"\n")
    checksum, _, content = line.partition(b" ")
    if not end or checksum != b"%08x" % zlib.crc32(content):
        raise ValueError("its checksum is wrong")
    return content
