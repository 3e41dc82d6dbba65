"""What the conductor and the process next to a host's kernel send each other: Jupyter messages, and
JSON of their own on the channel KEEPER. The stream is an SSH connection, or a pipe.
"""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, Dict, List, Optional, Tuple

from ..protocol.events import CONTROL, IOPUB, KEEPER, SHELL, STDIN
from ..protocol.frames import MAX_MESSAGE, ProtocolError, join_parts, split_parts

_HEAD = struct.Struct("!IB")
#: Bytes from which messages of different hosts are read one after the other.
LARGE_MESSAGE_BYTES = 4 << 20
_CHANNELS = SHELL, CONTROL, STDIN, IOPUB, KEEPER


def encode(channel: int, parts: List[bytes]) -> bytes:
    """The bytes of one message."""
    message = join_parts(parts)
    return _HEAD.pack(len(message), channel) + message


def encode_note(**fields: Any) -> bytes:
    """The bytes of JSON of ours."""
    return encode(KEEPER, [json.dumps(fields).encode()])


async def read(
    reader: asyncio.StreamReader, turns: Optional[asyncio.Lock] = None
) -> Tuple[int, List[bytes]]:
    """The next message, with its channel. Raises ProtocolError, IncompleteReadError at the end.

    With *turns*, which several readers share, only one of them has a large message in memory.
    """
    size, channel = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if channel not in _CHANNELS or size > MAX_MESSAGE:
        raise ProtocolError("not a message")
    if turns is None or size <= LARGE_MESSAGE_BYTES:
        return channel, split_parts(await reader.readexactly(size))
    async with turns:
        return channel, split_parts(await reader.readexactly(size))


def decode_note(parts: List[bytes]) -> Dict[str, Any]:
    """JSON of ours; raises ProtocolError."""
    try:
        note = json.loads(parts[0])
    except (ValueError, IndexError, RecursionError) as error:
        raise ProtocolError("a note that is no JSON") from error
    if not isinstance(note, dict):
        raise ProtocolError("a note that is no object")
    return note
