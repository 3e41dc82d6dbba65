"""Single files of a host: what they are, and their content, both ways.

A small program runs on the host for each request (`on_host.files.requests`), over the connection
for bulk data. It writes to another name first, and renames when the file is whole.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NotRequired, TypedDict

from ...errors import InvalidInput, Reason, TPUError
from ...files.errors import file_error
from ...links import Link
from ...on_host.packing import argument
from ...ssh.host_values import Count, InvalidAnswer, Text, Word, checked
from ...ssh.stream import CommandStream, decode_answer
from ..models import HostFile

#: Also of `contents`.
PROGRAM = "files.requests"


class FileAnswer(TypedDict):
    """What the program on the host says of a file, and how writing it went; or an error."""

    size: NotRequired[Count]
    error: NotRequired[Word]  # an errno's name
    message: NotRequired[Text | None]


class HostFiles:
    """The files of one host, as the user that we log in as.

    A path is relative to the home folder, where kernels run by default, or absolute. All methods
    raise INVALID for a path that is not clear or leads to a folder, NOT_FOUND, PERMISSION,
    and UNREACHABLE where the connection is lost.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def describe(self, path: str) -> HostFile:
        path = _checked(path)
        async with self._run("size", path) as stream:
            return HostFile(path=path, size=await self._size(stream, path))

    @contextlib.asynccontextmanager
    async def download(self, path: str) -> AsyncIterator[tuple[HostFile, AsyncIterator[bytes]]]:
        """The file, and its content. The content ends early, with INTERRUPTED, if the file becomes
        shorter meanwhile.
        """
        path = _checked(path)
        async with self._run("send", path) as stream:
            size = await self._size(stream, path)
            yield HostFile(path=path, size=size), _content(stream, path, size)

    async def upload(
        self, path: str, size: int, content: AsyncIterator[bytes], *, overwrite: bool = False
    ) -> HostFile:
        """Writes a file of *size* bytes; the folder must exist. A failure leaves no part of it.

        Raises EXISTS unless *overwrite*, NO_FOLDER, DISK_FULL, INTERRUPTED if *content* ends early.
        """
        path = _checked(path)
        left = size
        try:
            async with self._run("receive", path, size=size, overwrite=overwrite) as stream:
                await self._answer(stream, path)  # it is ready
                async for chunk in content:
                    if not await stream.write(chunk):
                        break  # the host says why
                    left -= len(chunk)
                else:
                    if left > 0:
                        raise TPUError(f"The upload of {path} ended early.", Reason.INTERRUPTED)
                written = await self._size(stream, path)
        except TPUError as error:
            if error.reason is Reason.UNREACHABLE:
                kept = f"Nothing of {path} was kept. Upload it again."
                unknown = "The file may be there or not. Look, or upload it again."
                error.hint = kept if left > 0 else unknown
            raise
        return HostFile(path=path, size=written)

    @contextlib.asynccontextmanager
    async def _run(self, call: str, path: str, **more: Any) -> AsyncIterator[CommandStream]:
        # The request, too, is an argument: so the answer takes one round trip.
        request = json.dumps({"call": call, "path": path, **more})
        argv = ["python3", "-I", "-c", argument(PROGRAM), request]
        async with self._link.stream_bulk(argv) as stream:
            yield stream

    async def _size(self, stream: CommandStream, path: str) -> int:
        answer = await self._answer(stream, path)
        if "size" not in answer:
            raise InvalidAnswer("file", "Object missing required field `size`")
        return answer["size"]

    async def _answer(self, stream: CommandStream, path: str) -> FileAnswer:
        what = f"On {self._link.host}, {path}"
        line = decode_answer(await stream.read_line(), stream.errors, what)
        answer: FileAnswer = checked(line, FileAnswer, "file")
        if "error" in answer:
            why = answer.get("message") or ""
            raise file_error(answer["error"], path, why, str(self._link.host))
        return answer


async def _content(stream: CommandStream, path: str, size: int) -> AsyncIterator[bytes]:
    left = size
    while left:
        chunk = await stream.read()
        if not chunk:
            raise TPUError(f"The download of {path} ended early.", Reason.INTERRUPTED)
        left -= len(chunk)
        if left < 0:
            raise InvalidAnswer("file", "more than its size")
        yield chunk


def _checked(path: str) -> str:
    """*path* without ``~/``; raises INVALID unless it can mean only one file."""
    path = path.removeprefix("~/")
    parts = path.removeprefix("/").split("/")
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise InvalidInput(
            f"{path!r} is not a path of a file.",
            "A path is relative to the home folder, or begins with /. It has no . or .. in it.",
        )
    return path
