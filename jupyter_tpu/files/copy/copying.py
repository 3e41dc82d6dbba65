"""Copies files and folders from this computer to a host, and from a host to this computer.

Both ends run `on_host.files.copy`: on a host over the connection for bulk data, here in a thread. A
copy whose connection is lost continues where it was when the link is up again.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from ...errors import InvalidInput, Reason, TPUError
from ...links import Link
from ...on_host.files.copy.receiver import Receiver
from ...on_host.files.copy.sender import Listing, send
from ...on_host.files.messages import MOST_NAMES, Reports, TransferFailure, TransferPeer, message_of
from ...on_host.files.tree import is_inside
from ...on_host.packing import program
from ...ssh.host_program import COMMAND
from ...ssh.host_values import checked
from ...wording import size_text
from ..agent_files import AgentSource, is_open
from ..errors import file_error
from ..exchange import exchange
from .models import FileProblem, HostCopy

#: Called with the bytes that are there and all bytes, from any thread.
Report = Callable[[int, int], None]

#: How long a copy waits for a lost connection, from its last byte on; seconds.
RECONNECT_LIMIT = 600.0
#: The other end's name.
HERE = "this computer"
#: Between two attempts; seconds.
RETRY_SECONDS = 1.0

_PROGRAM = "files.copy.main"


class FilesExist(TPUError):
    """Files would be overwritten (EXISTS). Nothing was changed.

    names: the first of them; count: how many there are.
    """

    def __init__(self, message: str, names: Sequence[str], count: int) -> None:
        them = "it" if count == 1 else "them"
        super().__init__(message, Reason.EXISTS, f"Overwrite {them}, or use another name.")
        self.names = list(names)
        self.count = count


async def upload(
    link: Link,
    sources: Sequence[str],
    destination: str,
    *,
    overwrite: bool = False,
    make_folder: bool = False,
    list_id: str = "",
    agents_folder: str = "",
    report: Report,
) -> HostCopy:
    """Copies files and folders of this computer to a host.

    Parameters
    ----------
    destination: on the host, relative to its home folder or absolute. A folder that exists gets
        the sources, as with `cp`.
    make_folder: whether its folder is created if that is missing.
    agents_folder: as `fleet.models.CopyFiles.agents_folder`.
    list_id: under what name the host keeps the list of what it got, for `spreading`.

    Raises `FilesExist`, INVALID, NOT_FOUND, NO_FOLDER, PERMISSION, DISK_FULL, UNREACHABLE.
    """
    request = {
        "call": "receive",
        "destination": destination,
        "overwrite": overwrite,
        "make_folder": make_folder,
        "list_id": list_id,
    }

    def work(peer: TransferPeer, reports: Reports) -> dict[str, Any]:
        tops = [os.fsencode(os.path.abspath(source)) for source in sources]
        if agents_folder:
            rules = [AgentSource(agents_folder, source) for source in sources]
            listing = Listing(tops, lambda root, *entry: rules[root].leaves_out(*entry))
        else:
            listing = Listing(tops)
        return send(peer, listing.walk(), reports)

    return await _transfer(link, request, work, report, HERE, str(link.host))


async def download(
    link: Link,
    sources: Sequence[str],
    destination: str,
    *,
    overwrite: bool = False,
    make_folder: bool = False,
    agents_folder: str = "",
    private: bool = False,
    most_bytes: int | None = None,
    report: Report,
) -> HostCopy:
    """Copies files and folders of a host to this computer; as :func:`upload` otherwise.

    private: only the owner can read them. most_bytes: more in all is refused, with CONFLICT.
    """

    def work(peer: TransferPeer, reports: Reports) -> dict[str, Any]:
        there = os.path.abspath(os.path.expanduser(destination))
        if destination.endswith(("/", os.sep)):
            there += "/"
        # The host may be anybody's by now: it sends what was asked for, and no link that leads
        # elsewhere, nor what others here may write.
        return Receiver(
            peer,
            there,
            overwrite,
            reports,
            asked=[name_of(source) for source in sources],
            rights=0o700 if private else 0o755,
            allows_link=is_inside,
            make_folder=make_folder,
            may_write=functools.partial(is_open, agents_folder) if agents_folder else None,
            most_bytes=most_bytes,
        ).receive()

    request = {"call": "send", "sources": list(sources), "for_agent": bool(agents_folder)}
    return await _transfer(link, request, work, report, str(link.host), HERE)


def name_of(source: str) -> str | None:
    """The name that a file or folder of a host has here; None if only the host knows it."""
    path = posixpath.normpath(source)
    name = posixpath.basename(path)
    return None if path == "~" or name in ("", ".", "..") else name


async def call_host(link: Link, request: Mapping[str, Any], receiver: str = "") -> dict[str, Any]:
    """The result of what a host's program does without another end here.

    receiver: the computer that an error is about, if it is not the host.
    """
    try:
        async with link.stream_bulk(COMMAND) as stream:
            await stream.write(_start(request))
            while "result" not in (message := message_of(await stream.read_line())):
                pass
    except TransferFailure as failure:
        raise _error(failure, str(link.host), receiver or str(link.host)) from None
    result: dict[str, Any] = checked(message["result"], dict[str, Any], "copy")
    return result


async def _transfer(
    link: Link,
    request: Mapping[str, Any],
    work: Callable[[TransferPeer, Reports], dict[str, Any]],
    report: Report,
    sender: str,
    receiver: str,
) -> HostCopy:
    """Does one end's *work* in a thread, and again when the connection was lost."""
    loop = asyncio.get_running_loop()
    moved: float | None = None  # when the last byte was

    def note(done: int, total: int) -> None:
        nonlocal moved
        moved = loop.time()
        report(done, total)

    while True:
        try:
            return copy_of(link.host.number, await _exchange(link, request, work, note))
        except TransferFailure as failure:
            raise _error(failure, sender, receiver) from None
        except TPUError as error:
            if error.reason is not Reason.UNREACHABLE or moved is None:
                raise
            if loop.time() > moved + RECONNECT_LIMIT:
                raise
        await asyncio.sleep(RETRY_SECONDS)


async def _exchange(
    link: Link,
    request: Mapping[str, Any],
    work: Callable[[TransferPeer, Reports], dict[str, Any]],
    report: Report,
) -> dict[str, Any]:
    """One attempt. Raises `TransferFailure`, and what the link does."""
    async with link.stream_bulk(COMMAND) as stream:
        await stream.write(_start(request))
        try:
            return await exchange(stream, lambda peer: work(peer, Reports(report)))
        except TransferFailure as failure:
            if failure.code == "LOST":
                failure.message = stream.errors.strip().rpartition("\n")[2]
            raise


def _start(request: Mapping[str, Any]) -> bytes:
    return program(_PROGRAM) + json.dumps(request).encode() + b"\n"


_Count = Annotated[int, Meta(ge=0, le=1 << 62)]


class _Result(Struct):
    """What a receiver says at its end."""

    files: _Count
    bytes: _Count
    unchanged: _Count
    problems: Annotated[list[tuple[str, str, str]], Meta(max_length=MOST_NAMES)]
    problem_count: _Count
    targets: list[str]


def copy_of(host: int, told: Mapping[str, Any]) -> HostCopy:
    result: _Result = checked(told, _Result, f"The copy on host {host}")
    return HostCopy(
        host=host,
        files=result.files,
        bytes=result.bytes,
        unchanged=result.unchanged,
        targets=result.targets,
        problems=[
            FileProblem(path=path, message=_why(code, message))
            for path, code, message in result.problems
        ],
        problem_count=result.problem_count,
    )


def _why(code: str, message: str) -> str:
    return {
        "SPECIAL": "It is not a file, folder or symbolic link.",
        "CHANGED": "It changed while it was copied. Copy it again.",
        "BROKEN": "It arrived with a wrong hash, twice. Check the disks.",
        "BUSY": "Another copy wrote it at the same time. Copy it again.",
        "EXISTS": "It exists.",
        "OUTSIDE": "It is a link that leads out of the copied folder.",
    }.get(code, f"{message}.")


def _error(failure: TransferFailure, sender: str, receiver: str) -> TPUError:
    """The error for a person; *sender* and *receiver* are computers."""
    match failure.code:
        case "EXISTS" if failure.names:
            path, host = failure.names[0], receiver
            one = f"{path} exists on {host}."
            many = f"{failure.count} files exist on {receiver}, such as {failure.names[0]}."
            return FilesExist(one if failure.count == 1 else many, failure.names, failure.count)
        case "IN_THE_WAY":
            return InvalidInput(
                f"{failure.path} on {receiver} is not a folder.", "Use another name, or rename it."
            )
        case "CLOSED":
            return TPUError(
                f"A coding agent may not write {failure.path} on {receiver}.",
                Reason.PERMISSION,
                "Hidden files, credentials and other folders than the agents' are for people.",
            )
        case "BUSY":
            return TPUError(
                f"Another copy wrote {failure.path} on {receiver} at the same time.",
                Reason.CONFLICT,
                "Copy again when it has ended.",
            )
        case "SAME_NAME":
            return InvalidInput(
                "Two of the files and folders have the same name.", "Copy one after the other."
            )
        case "TOO_LARGE":
            return TPUError(
                f"It has {size_text(failure.count)}, which is more than was allowed.",
                Reason.CONFLICT,
                "Allow more, or copy a part of it.",
            )
        case "LOST":
            why = f" ({failure.message})" if failure.message else ""
            return TPUError(
                f"The copy from {sender} to {receiver} ended early{why}.",
                Reason.UNREACHABLE,
                "Copy again. It continues where it stopped.",
            )
        case "TOO_MANY":
            return InvalidInput(
                f"On {sender} are more than {failure.count:,} files, or very long names.",
                "Copy a part of them, or pack them into one file with tar.",
            )
        case "PROTOCOL":
            why = f" ({failure.message})" if failure.message else ""
            return TPUError(
                f"The copy from {sender} to {receiver} ended: the other side sent something "
                f"unexpected{why}.",
                Reason.INTERNAL,
            )
    where = sender if failure.of_sender else receiver
    return file_error(failure.code, failure.path, failure.message, where)
