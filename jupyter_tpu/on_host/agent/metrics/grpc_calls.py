"""Short gRPC calls to a service of this host, over HTTP/2 without encryption.

Only what such calls need: all requests are sent at once, and the answers are read to their ends.
Headers of answers are not read: a call that has failed is one without a message.
Sources: RFC 9113 (HTTP/2), RFC 7541 (HPACK), grpc/doc/PROTOCOL-HTTP2.md.
"""

from __future__ import annotations

import asyncio
from typing import Dict, List, Optional, Sequence, Tuple

#: Longest answers to all calls together, bytes.
LONGEST_ANSWERS_BYTES = 4 << 20

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
#: All that a connection sends before its streams.
_BEGIN = _PREFACE + b"\0\0\0" + bytes([_SETTINGS, 0]) + b"\0\0\0\0"


class NotGRPC(Exception):
    """What answers on the port is not a gRPC service."""


async def call(
    address: str, port: int, requests: Sequence[Tuple[str, bytes]]
) -> List[Optional[bytes]]:
    """The answers to unary calls, each a path and a message; None for a call that has failed.

    Raises OSError if nothing listens there or the connection breaks, and NotGRPC.
    """
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(_BEGIN)
        streams: Dict[int, bytearray] = {}
        for number, (path, message) in enumerate(requests):
            stream = 2 * number + 1
            streams[stream] = bytearray()
            writer.write(_frame(_HEADERS, _END_HEADERS, stream, _headers(path)))
            body = b"\0" + len(message).to_bytes(4, "big") + message
            writer.write(_frame(_DATA, _END_STREAM, stream, body))
        await writer.drain()
        await _read_answers(reader, writer, streams)
    except asyncio.IncompleteReadError as error:
        raise NotGRPC("the connection was closed") from error
    finally:
        writer.close()
    return [_message(bytes(streams[stream])) for stream in sorted(streams)]


async def _read_answers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, streams: Dict[int, bytearray]
) -> None:
    """Fills *streams*. The first frame tells whether it is HTTP/2 at all."""
    left, size, first = set(streams), 0, True
    while left:
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        if (first and kind != _SETTINGS) or length > LONGEST_ANSWERS_BYTES:
            raise NotGRPC("it does not speak HTTP/2")
        first = False
        content = await reader.readexactly(length)
        if kind == _SETTINGS and not flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, content))
        elif kind == _DATA and stream in streams:
            size += length
            if size > LONGEST_ANSWERS_BYTES:
                raise NotGRPC("the answers are too long")
            if flags & _PADDED and content:
                content = content[1 : len(content) - content[0]]
            streams[stream] += content
            if length:
                more = length.to_bytes(4, "big")
                writer.write(_frame(_WINDOW, 0, 0, more) + _frame(_WINDOW, 0, stream, more))
        elif kind == _GOAWAY:
            raise NotGRPC("the service refuses calls")
        if kind == _RST_STREAM or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
            left.discard(stream)


def _message(body: bytes) -> Optional[bytes]:
    """The message of an answer; None if it has none or not all of it, or is compressed."""
    size = int.from_bytes(body[1:5], "big")
    return body[5 : 5 + size] if len(body) >= 5 + size > 4 and not body[0] else None


def _headers(path: str) -> bytes:
    """The block of headers: those of HPACK's static table by their numbers, and no compression."""
    return b"\x83\x86" + b"".join(
        name + _text(value)
        for name, value in (
            (b"\x04", path),
            (b"\x01", "localhost"),
            (b"\x0f\x10", "application/grpc"),
            (b"\0" + _text("te"), "trailers"),
        )
    )


def _text(value: str) -> bytes:
    """A text of up to 126 characters: longer ones would have a longer number before them."""
    return bytes([len(value)]) + value.encode("ascii")


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    head = len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + content
