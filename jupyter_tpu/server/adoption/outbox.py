"""Answers to a kernel's questions, and what widgets say to it, until its host is known to have it.

Execute requests are in the journal's copy, since pages ask for them again later. The rest is only
under way: a file per message, in the kernel's folder, that is gone as soon as the host acknowledges
it, for an answer may be a password. A process that is killed leaves what its successor sends again.

What is too large, or too much while the host is out of reach, is not written down: it is sent as
ever, and lost only if this process is killed before the host has it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...agent.protocol import frames, messages
from ...agent.protocol.deduplication import answered_request, deduplicated_type

#: Bytes of one message, and of all, and how many these may be.
MAX_MESSAGE, MAX_TOTAL, MAX_COUNT = 4 << 20, 32 << 20, 1024
#: The kinds of messages that are kept here, as their names begin.
_KINDS = "input_reply", "comm_"


class _PendingFile(NamedTuple):
    path: Path
    size: int
    after: int  # the number of the journal's record that came next
    channel: int


class Outbox:
    """What is under way to one kernel.

    Parameters
    ----------
    folder: where the files are; those that are there are read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[bytes, _PendingFile] = {}  # by the messages' headers, in order
        self._bytes = 0
        self._in_flight: deque[tuple[int, bytes]] = deque()  # number and header
        self._count = 0
        for path in sorted(folder.glob("said-*-*-*")):
            _, after, count, channel = path.name.split("-")
            try:
                message = frames.split_parts(path.read_bytes())
                header = message[messages.find_delimiter(message) + messages.HEADER]
            except (OSError, ValueError, frames.ProtocolError):
                path.unlink(missing_ok=True)  # it was not whole yet, so it was not sent either
            else:
                self._add(header, _PendingFile(path, path.stat().st_size, int(after), int(channel)))
                self._count = int(count)

    def put(self, after: int, channel: int, message: list[bytes]) -> None:
        """Writes a message down before it is sent.

        after: the number of the record of the journal's copy that comes next.
        """
        header = message[messages.find_delimiter(message) + messages.HEADER]
        kind = deduplicated_type(header)
        if not kind.startswith(_KINDS) or header in self._files:
            return
        if kind == "input_reply" and not answered_request(message):
            return  # who knows what it would answer later
        payload = frames.join_parts(message)
        if (
            len(payload) > MAX_MESSAGE
            or self._bytes + len(payload) > MAX_TOTAL
            or len(self._files) == MAX_COUNT
        ):
            return
        self._count += 1
        path = self._folder / f"said-{after:012d}-{self._count:09d}-{channel}"
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(payload)
        except OSError:  # a full disk
            with suppress(OSError):
                path.unlink(missing_ok=True)
        else:
            self._add(header, _PendingFile(path, len(payload), after, channel))

    def _add(self, header: bytes, file: _PendingFile) -> None:
        self._files[header] = file
        self._bytes += file.size

    def pending(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """What is here, in order: the number of the journal's record that came next, channel,
        message.
        """
        for file in self._files.values():
            with suppress(OSError, frames.ProtocolError):
                yield file.after, file.channel, frames.split_parts(file.path.read_bytes())

    def mark_sent(self, number: int, header: bytes) -> None:
        """A message, if it is one of these, is under way as *number* …"""
        if header in self._files:
            self._in_flight.append((number, header))

    def mark_acknowledged(self, last: int) -> None:
        """… and its host has all up to number *last*."""
        while self._in_flight and self._in_flight[0][0] <= last:
            self._remove(self._in_flight.popleft()[1])

    def clear(self) -> None:
        """They were for another kernel."""
        self._in_flight.clear()
        for header in list(self._files):
            self._remove(header)

    def _remove(self, header: bytes) -> None:
        file = self._files.pop(header)
        self._bytes -= file.size
        file.path.unlink(missing_ok=True)
