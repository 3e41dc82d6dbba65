"""The project folder on a host, through the program `on_host.files.project` there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from ...bounds import check_size, inflate
from ...errors import Reason, TPUError
from ...links.remote_host import RemoteHost
from ...on_host.files.changes import digest_of, send_contents, send_list
from ...on_host.files.contents import checked_signature
from ...on_host.files.messages import TransferFailure, TransferPeer
from ...on_host.files.tree import TreeEntry
from ...on_host.packing import program
from ...ssh.host_program import COMMAND
from ...ssh.host_values import InvalidAnswer, Line, Word, checked, decode
from ...ssh.stream import CommandStream, decode_answer
from ..errors import file_error
from ..exchange import exchange

if TYPE_CHECKING:
    from ...links import HostName

_PROGRAM = "files.project"
#: Bytes of an answer; 20,000 files with long names have less.
_LARGEST_ANSWER_BYTES = 32 << 20
#: The last second that a date of Python can have.
_LAST_SECOND = 253402300799

_Size = Annotated[int, Meta(ge=0, le=1 << 62)]
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_Problem = tuple[Word, Line, Line]  # for `file_error`
#: State, bytes, and seconds since 1970.
_Entry = tuple[
    Annotated[str, Meta(pattern=r"^(?s:(file|program) [0-9a-f]{32}\Z|(link|other) .)")],
    _Size,
    float,
]


class _Head(Struct):
    """The line before an answer: its bytes, or why there is none."""

    size: int = 0
    error: _Problem | None = None


class _LookedUp(Struct):
    tree: dict[str, _Entry] = {}
    kept: dict[str, tuple[str, _Size]] = {}  # the state and size of what was not whole
    unknown: bool = False  # it does not remember the paths


class Walked(Struct):
    """What a folder has, and [path, size, reason] of what is skipped; or that it is too large."""

    root: str = ""
    tree: dict[str, _Entry] = {}
    skipped: list[tuple[str, _Size, str]] = []
    too_large: tuple[_Size, _Size, dict[str, _Size]] | None = None

    def entries(self) -> dict[str, TreeEntry]:
        return _tree(self.tree)


class _Received(Struct):
    """Why each change was not carried out, up to the *problem* for the others; None if they
    did not come from the other host: *why*.
    """

    results: list[str | None] | None
    problem: _Problem | None = None
    why: Line = ""


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

    sent: bytes that went to the host; received: those that came. kept: what it has of large files
    that were not whole, as it said last: {path: (state, bytes)}.
    """

    def __init__(self, stream: CommandStream, host: HostName) -> None:
        self._stream = stream
        self._host = str(host)
        self._where = f"host {host.number}"
        self._what = f"The sync on {self._where}"
        self.sent = self.received = 0
        self.kept: dict[str, tuple[str, int]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, host: StreamingHost, root: str) -> AsyncIterator[RemoteProject]:
        """The folder *root*, which need not exist; locked until the end."""
        async with host.stream_bulk(COMMAND) as stream:
            project = cls(stream, host.host)
            await project.write(program(_PROGRAM))
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
        self.kept = answer.kept
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

    async def signatures(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """The signatures of large files that are there. sizes: what they will have."""
        if not sizes:
            return {}
        signatures = await self._call(dict[str, Any], "signatures", sizes=sizes)
        try:
            return {path: checked_signature(old) for path, old in signatures.items()}
        except TransferFailure as failure:
            raise InvalidAnswer(self._what, failure.message) from None

    async def receive(
        self,
        folder: str,
        changes: list[dict],
        known: Mapping[str, Any],
        report: Callable[[int], None],
        list_id: str = "",
    ) -> Received:
        """Has *changes* carried out, with the contents from *folder* here: for each why it was not,
        or None, and why there are no more. Calls *report* with the bytes of files that are there.

        known, list_id: as `on_host.files.changes` and `on_host.files.project` have them.
        """

        def work(peer: TransferPeer) -> None:
            peer.compress()
            send_list(peer, changes)
            send_contents(peer, folder, changes, known, report)
            peer.send_end()

        await self._request(call="receive", count=len(changes), list_id=list_id)
        with contextlib.suppress(TransferFailure):  # the host says why
            await exchange(self, work, answers=False)
        return self._received(changes, await self._answer(_Received))

    async def fetch(
        self, command: Sequence[str], changes: list[dict], list_id: str
    ) -> Received | str:
        """As :meth:`receive`, from the host on which *command* starts Python; or why that failed,
        "" if it is not known.
        """
        request = {"count": len(changes), "list_id": list_id, "source": command}
        answer = await self._call(_Received, "receive", **request)
        return answer.why if answer.results is None else self._received(changes, answer)

    def _received(self, changes: list[dict], answer: _Received) -> Received:
        results, problem = answer.results or [], answer.problem
        if len(results) > len(changes) or not (problem or len(results) == len(changes)):
            raise InvalidAnswer(self._what, "results of other changes")
        return results, problem and file_error(*problem, self._host)

    async def send(self, changes: list[dict], known: Mapping[str, Any]) -> None:
        """Has the contents for *changes* sent, for an :func:`~..exchange.exchange` over this."""
        await self._request(call="send", changes=changes, known=known)

    # ---- as a stream

    async def read(self) -> bytes:
        data = await self._stream.read()
        self.received += len(data)
        return data

    async def write(self, data: bytes) -> bool:
        self.sent += len(data)
        return await self._stream.write(data)

    async def _call(self, kind: Any, call: str, **arguments: Any) -> Any:
        await self._request(call=call, **arguments)
        return await self._answer(kind)

    async def _request(self, **request: Any) -> None:
        await self.write(msgspec.json.encode(request) + b"\n")

    async def _answer(self, kind: Any) -> Any:
        line = await self._stream.read_line()
        answer = decode_answer(line, self._stream.errors, self._what, "Sync again.")
        head: _Head = checked(answer, _Head, self._what)
        if head.error:
            raise file_error(*head.error, self._host)
        data = bytearray()
        try:
            check_size(head.size, _LARGEST_ANSWER_BYTES)
            while len(data) < head.size:
                more = await self._stream.read()
                if not more:
                    raise TPUError(f"{self._what} ended early.", Reason.INTERRUPTED, "Sync again.")
                data += more
            self.received += len(line) + len(data)
            plain = inflate(data, _LARGEST_ANSWER_BYTES)
        except ValueError as error:
            raise InvalidAnswer(self._what, str(error)) from None
        return decode(plain, kind, self._what)


def _tree(plain: dict[str, _Entry]) -> dict[str, TreeEntry]:
    return {
        path: TreeEntry(state, size, min(max(time, 0.0), _LAST_SECOND))
        for path, (state, size, time) in plain.items()
    }
