"""What is in the bodies of uploads and downloads: bytes, in pieces, on a line that may be bad."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from email.message import Message
from typing import Any, BinaryIO

import msgspec
from aiohttp import web

from ...model.faults import Fault, Faults
from ...storage import errors

_CHUNK_BYTES = 2**18
#: What may come before the content in a multipart body: the object's metadata.
_HEAD_BYTES = 2**20


class Line:
    """The line of one call, as faults have it: slow, or cut after some bytes of a body."""

    def __init__(self, request: web.Request, faults: Faults, location: str, method: str) -> None:
        self._request = request
        self._faults = faults
        self._where = (location, method)
        self._moved = 0
        self._slow: Fault | None = None

    async def move(self, size: int) -> None:
        """Waits as long as *size* more bytes take. Raises ConnectionResetError if the line is cut
        before they have arrived.
        """
        if self._moved == 0:
            self._slow = self._faults.consume("slow-transfer", *self._where)
        self._moved += size
        if self._slow is not None:
            await asyncio.sleep(size / self._slow.bytes_per_second)
        cut = self._faults.consume(
            "cut-transfer", *self._where, where=lambda fault: fault.bytes < self._moved
        )
        if cut is not None:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("a fault has cut the line")


async def pieces(request: web.Request, line: Line) -> AsyncIterator[bytes]:
    """The body of a request as it arrives."""
    async for data in request.content.iter_any():
        await line.move(len(data))
        yield data


async def send(response: web.StreamResponse, file: BinaryIO, size: int, line: Line) -> None:
    """*size* bytes of *file*, from where it is."""
    while size > 0:
        data = file.read(min(size, _CHUNK_BYTES))
        await line.move(len(data))
        await response.write(data)
        size -= len(data)


class Multipart:
    """A body of ``multipart/related``: an object's metadata, and then its content.

    Lines end as the first of them does: gcsfs has ``\\n``, most others ``\\r\\n``.
    """

    def __init__(self, content_type: str) -> None:
        """Raises ApiError if that is no such body."""
        header = Message()
        header["Content-Type"] = content_type
        boundary = header.get_boundary()
        if header.get_content_type() != "multipart/related" or not boundary:
            raise errors.invalid("Bad request: the body is not multipart/related with a boundary.")
        self._delimiter = b"--" + boundary.strip("'").encode()  # gcloud's quotes
        separator = re.escape(self._delimiter) + rb"[ \t]*\r?\n"
        headers = rb"((?:[^\r\n]+\r?\n)*)\r?\n"
        self._head = re.compile(
            rb"\s*" + separator + headers + rb"(.*?)\r?\n" + separator + headers, re.DOTALL
        )
        #: The object's metadata and the content's type, once the content begins.
        self.metadata: Any = None
        self.content_type = ""

    async def content(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The content in pieces, for a *body* in pieces. Raises ApiError for what is none."""
        head = b""
        match = None
        async for data in body:
            head += data
            if (match := self._head.match(head)) is not None:
                break
            if len(head) > _HEAD_BYTES:
                break
        if match is None:
            raise errors.invalid("Malformed multipart body.")
        try:
            self.metadata = msgspec.json.decode(match[2])
        except msgspec.DecodeError as error:
            raise errors.invalid(f"Parse Error: {error}") from None
        headers = Message()
        for line in match[3].decode(errors="replace").splitlines():
            name, _, value = line.partition(":")
            headers[name] = value.strip()
        self.content_type = headers.get("Content-Type", "")
        newline = b"\r\n" if head[: match.start(1)].endswith(b"\r\n") else b"\n"
        end = newline + self._delimiter + b"--"
        kept = len(end) + 16  # what may be the end, with white space after it
        rest = head[match.end() :]
        async for data in body:
            rest += data
            if len(rest) > kept:
                yield rest[:-kept]
                rest = rest[-kept:]
        if not rest.rstrip(b" \t\r\n").endswith(end):
            raise errors.invalid("Malformed multipart body: it has no end.")
        yield rest.rstrip(b" \t\r\n").removesuffix(end)
