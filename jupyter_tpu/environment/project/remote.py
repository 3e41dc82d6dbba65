"""The project folder on a host, through the program `on_host.project` there."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO, Any, Protocol

import msgspec

from ...errors import Reason, TPUError, error_for
from ...ssh.stream import CHUNK, CommandStream, decode_answer
from ..host_program import COMMAND
from ..models import RemoteHost
from ..on_host.project import digest_of
from ..on_host.tree import TreeEntry
from ..remote_call import sources

_MODULES = ("protocol", "paths", "tree", "stream", "project")
_SHARED = ("login_shell",)


class StreamingHost(RemoteHost, Protocol):
    """A host on which a command's input and output can be streamed; ``links.Link`` is one."""

    def stream_bulk(
        self, argv: Sequence[str]
    ) -> contextlib.AbstractAsyncContextManager[CommandStream]: ...

    async def authorize_pod(self) -> None:
        """Lets the hosts of its TPU log in to each other, as far as they can be reached."""

    def pod_command(self, argv: Sequence[str]) -> list[str]:
        """The command with which another host of its TPU, once authorized, runs *argv* on it."""


class RemoteProject:
    """One conversation with the program. All methods raise what the host reports, UNREACHABLE where
    the connection is lost.

    sent: bytes that went to the host; received: those that came. kept: the file there with the last
    stream that it was to keep.
    """

    def __init__(self, stream: CommandStream, worker: int) -> None:
        self._stream = stream
        self._where = f"host {worker}"
        self.sent = self.received = 0
        self.kept = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, host: StreamingHost, root: str) -> AsyncIterator[RemoteProject]:
        """The folder *root*, which need not exist; locked until the end."""
        async with host.stream_bulk(COMMAND) as stream:
            project = cls(stream, host.host.worker)
            await project._write(sources(_MODULES, _SHARED))
            await project._request(root=root)
            yield project

    async def look_up(self, paths: list[str], known: str) -> tuple[dict[str, TreeEntry], str]:
        """The entries of those of *paths* that exist, and the paths' digest.

        known: the digest of the paths that were asked for before, which the host may remember.
        """
        digest = digest_of(paths)
        answer: dict[str, Any] = {"unknown": True}
        if known == digest:
            answer = await self._call("look_up", digest=digest)
        if "unknown" in answer:
            answer = await self._call("look_up", digest=digest, paths=paths)
        return _tree(answer["tree"]), digest

    async def walk(self, rules: list, limits: tuple[int, int, int]) -> dict[str, Any]:
        """``tree``: {path: Entry} and ``skipped``, or ``too_large``."""
        answer = await self._call("walk", rules=rules, limits=limits)
        if "tree" in answer:
            answer["tree"] = _tree(answer["tree"])
        return answer

    async def signatures(self, paths: list[str]) -> dict[str, Any]:
        return await self._call("signatures", paths=paths) if paths else {}

    async def receive(
        self, packed: IO[bytes], count: int, sent: Callable[[int], None], *, keep: bool = False
    ) -> tuple[list[list], TPUError | None]:
        """Has the changes in *packed* carried out: [path, error or None] of each that was, and why
        the others were not. Calls *sent* with the bytes that went.

        keep: the host keeps the stream until the end of the conversation.
        """
        await self._request(call="receive", count=count, keep=keep)
        offset = 0
        while data := await asyncio.to_thread(_read_at, packed, offset):
            offset += len(data)
            if not await self._write(len(data).to_bytes(4, "big") + data):
                break  # the host says why
            sent(len(data))
        return self._received(await self._answer())

    async def fetch(self, command: Sequence[str], size: int) -> bool:
        """Has the host run *command*, which gives a stream of *size* bytes. False: it did not."""
        return bool(await self._call("fetch", command=command, size=size))

    async def receive_fetched(self, count: int) -> tuple[list[list], TPUError | None]:
        """As :meth:`receive`, of what was fetched."""
        return self._received(await self._call("receive", count=count, fetched=True))

    def _received(self, answer: dict[str, Any]) -> tuple[list[list], TPUError | None]:
        self.kept = answer.get("kept", "")
        problem = answer.get("problem")
        return answer["results"], self._error(problem) if problem else None

    async def send(self, changes: list[dict]) -> Callable[[int], bytes]:
        """A function for other threads that reads the stream of *changes*."""
        await self._request(call="send", changes=changes)
        loop = asyncio.get_running_loop()

        def read(size: int) -> bytes:
            return asyncio.run_coroutine_threadsafe(self._read(), loop).result()

        return read

    async def _read(self) -> bytes:
        data = await self._stream.read()
        self.received += len(data)
        return data

    async def _call(self, call: str, **arguments: Any) -> Any:
        await self._request(call=call, **arguments)
        return await self._answer()

    async def _request(self, **request: Any) -> None:
        await self._write(msgspec.json.encode(request) + b"\n")

    async def _write(self, data: bytes) -> bool:
        self.sent += len(data)
        return await self._stream.write(data)

    async def _answer(self) -> Any:
        line = await self._stream.read_line()
        what = f"The sync on {self._where}"
        head = decode_answer(line, self._stream.errors, what, "Sync again.")
        if "error" in head:
            raise self._error(head["error"])
        data = bytearray()
        while len(data) < head["size"]:
            more = await self._stream.read()
            if not more:
                raise TPUError(
                    f"The sync on {self._where} ended early.", Reason.INTERRUPTED, "Sync again."
                )
            data += more
        self.received += len(line) + len(data)
        return msgspec.json.decode(zlib.decompress(data))

    def _error(self, payload: list[str]) -> TPUError:
        reason, message, hint = payload
        return error_for(f"On {self._where}: {message}", Reason(reason), hint)


def _tree(plain: dict[str, list]) -> dict[str, TreeEntry]:
    return {path: TreeEntry(*entry) for path, entry in plain.items()}


def _read_at(file: IO[bytes], offset: int) -> bytes:
    """Several hosts read the same file."""
    import os

    return os.pread(file.fileno(), CHUNK, offset)
