"""Where a command's output begins on a host whose login shell writes something before it."""

from __future__ import annotations

from typing import Any

#: What a command of ours writes first, to its output and to its errors.
OUTPUT_MARK, ERRORS_MARK = b"\x1ejupyter-tpu 1\x1e", b"\x1ejupyter-tpu 2\x1e"
#: Bytes that a login shell may write before it.
GREETING_LIMIT = 1 << 20


def skip_greeting(stream: Any) -> bool:
    """Reads a buffered binary *stream* up to the mark; False if there is none."""
    seen = bytearray()
    while len(seen) < GREETING_LIMIT:
        byte = stream.read(1)
        if not byte:
            return False
        seen += byte
        if seen.endswith(OUTPUT_MARK):
            return True
    return False
