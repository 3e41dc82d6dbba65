"""Stores answers to `input()` and messages of widgets until the host has them.

Execute requests are in the journal, because pages ask for them again later. The other messages are
stored only while they are in flight: one file per message in the kernel's folder, deleted when the
host acknowledges it, because an answer may be a password. If this process is killed, the next one
sends them again.

Messages that are too large, or too many while the host is unreachable, are sent without being
stored. They are lost only if this process is killed before the host has them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...on_host.agent.protocol import frames, messages
from ...on_host.agent.protocol.deduplication import answered_request, deduplicated_type

#: Bytes of one message, bytes of all messages, and their number.
MAX_MESSAGE, MAX_TOTAL, MAX_COUNT = 4 << 20, 32 << 20, 1024
#: Prefixes of the message types that are stored here.
_KINDS = "input_reply", "comm_"


class _PendingFile(NamedTuple):
    path: Path
    size: int
    after: int  # the number of the journal's next record at that time
    channel: int


class Outbox:
    """Messages in flight to one kernel.

    Parameters
    ----------
    folder: where the files are. Existing ones are read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[bytes, _PendingFile] = {}  # by the messages' headers, in order
        self._bytes = 0
        self._in_flight: deque[tuple[int, bytes]] = deque()  # number and header of sent messages
        self._count = 0
        for path in sorted(folder.glob("said-*-*-*")):
            try:
                after, count, channel = map(int, path.name.split("-")[1:])
                message = frames.split_parts(path.read_bytes())
                header = message[messages.find_delimiter(message) + messages.HEADER]
            except (OSError, ValueError, IndexError, frames.ProtocolError):
                with suppress(OSError):
                    path.unlink(missing_ok=True)  # incomplete, so it was not sent
            else:
                self._add(header, _PendingFile(path, path.stat().st_size, after, channel))
                self._count = count

    def put(self, after: int, channel: int, message: list[bytes]) -> None:
        """Stores a message before it is sent.

        after: the number of the journal's next record.
        """
        header = message[messages.find_delimiter(message) + messages.HEADER]
        kind = deduplicated_type(header)
        if not kind.startswith(_KINDS) or header in self._files:
            return
        if kind == "input_reply" and not answered_request(message):
            return  # it might answer a later question
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
        """The stored messages in order: *after* as in `put`, channel, message."""
        for file in self._files.values():
            with suppress(OSError, frames.ProtocolError):
                yield file.after, file.channel, frames.split_parts(file.path.read_bytes())

    def mark_sent(self, number: int, header: bytes) -> None:
        """A message was sent as *number*. Ignored if it is not stored here."""
        if header in self._files:
            self._in_flight.append((number, header))

    def mark_acknowledged(self, last: int) -> None:
        """The host has all messages up to number *last*."""
        while self._in_flight and self._in_flight[0][0] <= last:
            self._remove(self._in_flight.popleft()[1])

    def clear(self) -> None:
        """Deletes all: they were for an earlier kernel."""
        self._in_flight.clear()
        for header in list(self._files):
            self._remove(header)

    def _remove(self, header: bytes) -> None:
        file = self._files.pop(header)
        self._bytes -= file.size
        file.path.unlink(missing_ok=True)
