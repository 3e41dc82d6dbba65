"""The project folder on a host, through the program `on_host.project` there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO, Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from ...bounds import check_size, inflate
from ...errors import Reason, TPUError, error_for
from ...ssh.host_program import COMMAND, program
from ...ssh.host_values import InvalidAnswer, checked, decode
from ...ssh.stream import CHUNK, CommandStream, decode_answer
from ..models import RemoteHost
from ..on_host.project import digest_of
from ..on_host.stream import BLOCK
from ..on_host.tree import TreeEntry

_PROGRAM = "environment.on_host.project"
#: Bytes of an answer; 20,000 files with long names have less.
_LARGEST = 32 << 20
#: The last second that a date of Python can have.
_LATEST = 253402300799

_Size = Annotated[int, Meta(ge=0, le=1 << 62)]
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_Error = tuple[str, str, str]  # reason, message, hint
#: State, bytes, and seconds since 1970.
_Entry = tuple[
    Annotated[str, Meta(pattern=r"^(?s:(file|program) [0-9a-f]{32}\Z|(link|other) .)")],
    _Size,
    float,
]


class _Head(Struct):
    """The line before an answer: its bytes, or why there is none."""

    size: int = 0
    error: _Error | None = None


class _LookedUp(Struct):
    tree: dict[str, _Entry] = {}
    unknown: bool = False  # it does not remember the paths


class Walked(Struct):
    """What a folder has, and [path, size, reason] of what is skipped; or that it is too large."""

    root: str = ""
    tree: dict[str, _Entry] = {}
    skipped: list[tuple[str, _Size, str]] = []
    too_large: tuple[_Size, _Size, dict[str, _Size]] | None = None

    def entries(self) -> dict[str, TreeEntry]:
        return _tree(self.tree)


class Signature(Struct):
    """See `on_host.stream.signature`."""

    size: _Size
    head: list[_Hash]
    tail: list[_Hash]


class _Received(Struct):
    """Of each change why it was not carried out, up to the *problem* for the others."""

    results: list[str | None]
    problem: _Error | None = None
    kept: str = ""


#: For each change why it was not carried out, or None; and why there are no more.
Received = tuple[list[str | None], TPUError | None]


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
        self._what = f"The sync on {self._where}"
        self.sent = self.received = 0
        self.kept = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, host: StreamingHost, root: str) -> AsyncIterator[RemoteProject]:
        """The folder *root*, which need not exist; locked until the end."""
        async with host.stream_bulk(COMMAND) as stream:
            project = cls(stream, host.host.worker)
            await project._write(program(_PROGRAM))
            await project._request(root=root)
            yield project

    async def look_up(self, paths: list[str], known: str) -> tuple[dict[str, TreeEntry], str]:
        """The entries of those of *paths* that exist, and the paths' digest.

        known: the digest of the paths that were asked for before, which the host may remember.
        """
        digest = digest_of(paths)
        answer = _LookedUp(unknown=True)
        if known == digest:
            answer = await self._call(_LookedUp, "look_up", digest=digest)
        if answer.unknown:
            answer = await self._call(_LookedUp, "look_up", digest=digest, paths=paths)
        asked = set(paths)
        return _tree({path: entry for path, entry in answer.tree.items() if path in asked}), digest

    async def walk(self, rules: list, limits: tuple[int, int, int]) -> Walked:
        walked: Walked = await self._call(Walked, "walk", rules=rules, limits=limits)
        files = (entry for entry in walked.tree.values() if not entry[0].startswith("link "))
        sizes = [size for _, size, _ in files]
        if (
            len(walked.tree) > limits[2]
            or sum(sizes) > limits[1]
            or max(sizes, default=0) > limits[0]
        ):
            raise InvalidAnswer(self._what, "more than the limits")
        return walked

    async def signatures(self, paths: list[str]) -> dict[str, Any]:
        """As `on_host.stream.pack` takes them."""
        if not paths:
            return {}
        signatures = await self._call(dict[str, Signature | None], "signatures", paths=paths)
        for signature in signatures.values():
            if (
                signature
                and not len(signature.head) == len(signature.tail) == signature.size // BLOCK
            ):
                raise InvalidAnswer(self._what, "a signature with other blocks than its file")
        return {
            path: signature and msgspec.to_builtins(signature)
            for path, signature in signatures.items()
        }

    async def receive(
        self, packed: IO[bytes], count: int, sent: Callable[[int], None], *, keep: bool = False
    ) -> Received:
        """Has the changes in *packed* carried out: for each why it was not, or None, and why there
        are no more. Calls *sent* with the bytes that went.

        keep: the host keeps the stream until the end of the conversation.
        """
        await self._request(call="receive", count=count, keep=keep)
        offset = 0
        while data := await asyncio.to_thread(_read_at, packed, offset):
            offset += len(data)
            if not await self._write(len(data).to_bytes(4, "big") + data):
                break  # the host says why
            sent(len(data))
        return self._received(count, await self._answer(_Received))

    async def fetch(self, command: Sequence[str], size: int) -> bool:
        """Has the host run *command*, which gives a stream of *size* bytes. False: it did not."""
        fetched: bool = await self._call(bool, "fetch", command=command, size=size)
        return fetched

    async def receive_fetched(self, count: int) -> Received:
        """As :meth:`receive`, of what was fetched."""
        answer = await self._call(_Received, "receive", count=count, fetched=True)
        return self._received(count, answer)

    def _received(self, count: int, answer: _Received) -> Received:
        if len(answer.results) > count or not (answer.problem or len(answer.results) == count):
            raise InvalidAnswer(self._what, "results of other changes")
        self.kept = answer.kept
        return answer.results, self._error(answer.problem) if answer.problem else None

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

    async def _call(self, kind: Any, call: str, **arguments: Any) -> Any:
        await self._request(call=call, **arguments)
        return await self._answer(kind)

    async def _request(self, **request: Any) -> None:
        await self._write(msgspec.json.encode(request) + b"\n")

    async def _write(self, data: bytes) -> bool:
        self.sent += len(data)
        return await self._stream.write(data)

    async def _answer(self, kind: Any) -> Any:
        line = await self._stream.read_line()
        answer = decode_answer(line, self._stream.errors, self._what, "Sync again.")
        head: _Head = checked(answer, _Head, self._what)
        if head.error:
            raise self._error(head.error)
        data = bytearray()
        try:
            check_size(head.size, _LARGEST)
            while len(data) < head.size:
                more = await self._stream.read()
                if not more:
                    raise TPUError(f"{self._what} ended early.", Reason.INTERRUPTED, "Sync again.")
                data += more
            self.received += len(line) + len(data)
            plain = inflate(data, _LARGEST)
        except ValueError as error:
            raise InvalidAnswer(self._what, str(error)) from None
        return decode(plain, kind, self._what)

    def _error(self, payload: _Error) -> TPUError:
        reason, message, hint = payload
        known = Reason(reason) if reason in Reason.__members__ else Reason.INTERNAL
        return error_for(f"On {self._where}: {message}", known, hint)


def _tree(plain: dict[str, _Entry]) -> dict[str, TreeEntry]:
    return {
        path: TreeEntry(state, size, min(max(time, 0.0), _LATEST))
        for path, (state, size, time) in plain.items()
    }


def _read_at(file: IO[bytes], offset: int) -> bytes:
    """Several hosts read the same file."""
    import os

    return os.pread(file.fileno(), CHUNK, offset)
