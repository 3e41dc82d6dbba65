"""What a client says twice reaches the kernel once, and an answer only the question it answers.

A client that was killed does not know what of its messages had come; the next process in its place
sends all of them again of which it has not heard, as they were. Meanwhile the kernel may have gone
on: an answer that comes again may find another question than its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Dict, List

from . import messages

#: The kinds of messages that are never handed on twice.
DEDUPLICATED = "execute_request", "input_reply", "comm_open", "comm_msg", "comm_close"
#: Messages of each kind of which it is remembered that they came.
REMEMBERED = 4096


def deduplicated_type(header: bytes) -> str:
    """Which of DEDUPLICATED a message is, by its header; "" if none."""
    return next((kind for kind in DEDUPLICATED if b'"%s"' % kind.encode() in header), "")


def answered_request(parts: List[bytes]) -> str:
    """The id of the input_request that an input_reply answers; "" if it does not say."""
    if b'"input_request"' not in parts[messages.find_delimiter(parts) + messages.PARENT]:
        return ""
    try:
        return str(messages.decode_part(parts, messages.PARENT).get("msg_id") or "")
    except ValueError:
        return ""


class Deduplicator:
    """Remembers what came for one kernel."""

    def __init__(self) -> None:
        # Of each kind by itself: many clicks on a widget must not push out a cell that waits. By
        # whole headers: the clients that one jupyter_client manager makes count ids from 1 each.
        self._came: Dict[str, Dict[bytes, None]] = {kind: {} for kind in DEDUPLICATED}
        self._question = ""  # the id of the latest input_request, until it is answered

    def asks(self, parts: List[bytes]) -> None:
        """The kernel sends an input_request; it waits for one answer at a time."""
        with suppress(ValueError):
            self._question = str(messages.decode_part(parts, messages.HEADER).get("msg_id") or "")

    def is_new(self, parts: List[bytes]) -> bool:
        """Whether the kernel is to get a client's message."""
        try:
            header = parts[messages.find_delimiter(parts) + messages.HEADER]
            kind = deduplicated_type(header)
            answers = answered_request(parts) if kind == "input_reply" else ""
        except (ValueError, IndexError):
            return True  # not for us to judge
        if not kind:
            return True
        came = self._came[kind]
        if header in came or (answers and answers != self._question):
            return False
        if kind == "input_reply":
            self._question = ""
        came[header] = None
        if len(came) > REMEMBERED:
            del came[next(iter(came))]
        return True
