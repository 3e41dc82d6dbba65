"""Deduplication: a message that is sent twice reaches the kernel once.

A client that was killed does not know which of its messages arrived. Its successor sends all of
them again that were not acknowledged. Meanwhile the kernel may have sent another input_request, so
an input_reply reaches it only if it answers the latest one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Dict, List

from . import messages

#: The types of messages that never reach the kernel twice.
DEDUPLICATED = "execute_request", "input_reply", "comm_open", "comm_msg", "comm_close"
#: How many messages of each type are remembered.
REMEMBERED_MESSAGES = 4096


def deduplicated_type(header: bytes) -> str:
    """Which type of DEDUPLICATED a message has, by its header; "" if none."""
    return next((kind for kind in DEDUPLICATED if b'"%s"' % kind.encode() in header), "")


def answered_request(parts: List[bytes]) -> str:
    """The id of the input_request that an input_reply answers; "" if unknown."""
    if b'"input_request"' not in parts[messages.find_delimiter(parts) + messages.PARENT]:
        return ""
    try:
        return str(messages.decode_part(parts, messages.PARENT).get("msg_id") or "")
    except ValueError:
        return ""


class Deduplicator:
    """Remembers the messages that came for one kernel."""

    def __init__(self) -> None:
        # Each type separately: many clicks on a widget must not push out a waiting cell. By whole
        # headers: the clients of one jupyter_client manager count their message ids from 1 each.
        self._seen: Dict[str, Dict[bytes, None]] = {kind: {} for kind in DEDUPLICATED}
        self._question = ""  # the id of the latest input_request, until it is answered

    def note_input_request(self, parts: List[bytes]) -> None:
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
            return True  # not a message that we know
        if not kind:
            return True
        seen = self._seen[kind]
        if header in seen or (answers and answers != self._question):
            return False
        if kind == "input_reply":
            self._question = ""
        seen[header] = None
        if len(seen) > REMEMBERED_MESSAGES:
            del seen[next(iter(seen))]
        return True
