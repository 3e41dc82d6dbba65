"""Reads what a client sends through its websocket, as the server's websocket class passes it on."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
)
from tornado.iostream import StreamClosedError

from ...on_host.agent.protocol import messages

#: The websocket protocol of JupyterLab.
V1 = "v1.kernel.websocket.jupyter.org"


def parse(connection: Any, frame: Any) -> tuple[str | None, list[bytes]]:
    """The channel and parts (header, parent, metadata, content, buffers) of a client's message.

    They must have the same bytes that the base class passes on, because a repeated message is
    recognised by its header.
    """
    if connection.subprotocol == V1:
        channel, parts = deserialize_msg_from_ws_v1(frame)
        return channel, [bytes(part) for part in parts]
    fields = deserialize_binary_message(frame) if isinstance(frame, bytes) else json.loads(frame)
    parts = [
        connection.session.pack(fields.get(name) or {})
        for name in ("header", "parent_header", "metadata", "content")
    ]
    return fields.get("channel"), [*parts, *map(bytes, fields.get("buffers") or ())]


def signed(connection: Any, body: list[bytes]) -> list[bytes]:
    """A message as the base class sends it to the kernel's port, with the client's identity."""
    session = connection.session
    return [session.bsession, messages.DELIMITER, session.sign(body[:4]), *body]


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
