"""Sends a message that is large without making another copy of it.

The journal has it in a file. It goes from there to the websocket in pieces, as fragments of one
websocket message, which a browser puts together. So only what the client has not taken yet is in
memory, once.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from tornado.iostream import StreamClosedError

#: Opcodes of websocket frames.
_BINARY, _CONTINUATION = 0x2, 0x0


def can_be_written_in_pieces(handler: Any) -> bool:
    """Whether a websocket sends messages as they are: neither compressed nor in other frames."""
    protocol = handler.ws_connection
    return hasattr(protocol, "_write_frame") and getattr(protocol, "_compressor", None) is None


def write_in_pieces(
    handler: Any, channel: bytes, head: Sequence[bytes], sizes: Sequence[int], rest: deque[bytes]
) -> None:
    """Writes one message of the protocol v1.kernel.websocket.jupyter.org.

    Parameters
    ----------
    head: its first parts; *rest* is the others, which have these *sizes*, as one sequence of bytes.
        It is emptied.
    """
    lengths = [len(channel), *map(len, head), *sizes]
    offsets = list(accumulate(lengths, initial=8 * (len(lengths) + 2)))
    prefix = struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets)
    write = handler.ws_connection._write_frame
    try:
        write(False, _BINARY, b"".join([prefix, channel, *head]))
        while rest:  # without a pause, so that no other message comes in between
            piece = rest.popleft()
            write(not rest, _CONTINUATION, piece)
    except StreamClosedError:
        pass  # the client has gone


def split(pieces: deque[bytes], sizes: Sequence[int]) -> list[bytes]:
    """The parts of these *sizes* whose bytes are in *pieces*."""
    whole, ends = memoryview(b"".join(pieces)), accumulate(sizes, initial=0)
    return [bytes(whole[start:end]) for start, end in pairwise(ends)]
