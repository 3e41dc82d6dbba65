"""What a journal hands to its application, and the lanes and channels of a kernel's journal."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Union

NORMAL, URGENT = 0, 1
LANES = (URGENT, NORMAL)  # in the order in which they are served

#: The channels of a kernel's journal; KEEPER carries JSON between keeper and client.
KEEPER, SHELL, CONTROL, STDIN, IOPUB = range(5)


class Opened(NamedTuple):
    """The peer's hello came; messages flow from now on."""

    fields: Dict[str, Any]


class Message(NamedTuple):
    """A message for the application, which calls :meth:`Journal.acknowledge` when done with it."""

    lane: int
    last: int
    channel: int
    flags: int
    parts: List[bytes]


class Gap(NamedTuple):
    """Messages that the peer dropped on purpose; to be acknowledged like a message."""

    lane: int
    first: int
    last: int
    messages: int
    size: int  # bytes of them
    note: bytes = b""  # of the peer's application, about them


class Skipped(NamedTuple):
    """Messages that another client of the same stream has acknowledged in the meantime."""

    lane: int
    first: int
    last: int


class NoticeReceived(NamedTuple):
    """A notice of the peer about this connection."""

    fields: Dict[str, Any]


class Rejected(NamedTuple):
    """The peer does not accept the connection; *fields* say why."""

    fields: Dict[str, Any]


class Failed(NamedTuple):
    """The peer broke the protocol: the state is FAILED, the connection is to be closed."""

    problem: str


class PongReceived(NamedTuple):
    """The peer answered a ping."""

    token: int


class Acknowledged(NamedTuple):
    """The peer has everything up to the number *last*."""

    lane: int
    last: int


JournalEvent = Union[
    Opened, Message, Gap, Skipped, NoticeReceived, Rejected, Failed, PongReceived, Acknowledged
]
