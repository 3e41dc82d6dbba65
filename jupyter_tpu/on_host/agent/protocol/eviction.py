"""Eviction: drops output of a full journal for users who prefer losing output to waiting.

The oldest output that a cell only shows goes first: streams, then displays and results. Everything
else stays: replies, status, errors, input requests, comms, updates of displays. A display with an
id, which may still be updated, is replaced by a placeholder.

Every eviction leaves a gap with a note that says what is missing of each request (:class:`Loss`).
The client shows it as a line in that place.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional

from . import messages
from .events import IOPUB
from .frames import ProtocolError, join_parts, split_parts
from .messages import MessageSigner
from .segments import GapRange, SegmentStore, StoredEntry

_PRIORITIES = {"stream": 1, "display_data": 2, "execute_result": 2}
#: The approximate limit of a gap's note, bytes; a gap of too many requests is split.
NOTE_BYTES = 32 << 10


class Loss(NamedTuple):
    """What was evicted of one request's output."""

    parent: str  # the request's header, JSON
    lines: int  # ends of lines in streams
    displays: int  # and results
    messages: int
    size: int  # bytes of the messages

    def plus(self, other: "Loss") -> "Loss":
        return Loss(
            self.parent,
            self.lines + other.lines,
            self.displays + other.displays,
            self.messages + other.messages,
            self.size + other.size,
        )

    def __str__(self) -> str:
        """The line that a reader sees."""
        what = []
        if self.lines:
            what.append("%s line%s" % (format(self.lines, ","), "s" * (self.lines != 1)))
        if self.displays:
            what.append("%s output%s" % (format(self.displays, ","), "s" * (self.displays != 1)))
        one = self.lines + self.displays == 1
        missing = " and ".join(what) or "part of a line"
        verb = "was" if one or not what else "were"
        details = missing, format_bytes(self.size), verb
        return "… %s (%s) %s dropped here: the journal was full" % details


def eviction_priority(channel: int, parts: List[bytes]) -> int:
    """When a message is evicted: 1 before 2; 0 means never."""
    if channel != IOPUB:
        return 0
    try:
        kind = json.loads(parts[messages.find_delimiter(parts) + messages.HEADER])["msg_type"]
        return _PRIORITIES.get(kind, 0)
    except (ValueError, KeyError, TypeError):
        return 0


def parse_losses(note: bytes) -> List[Loss]:
    """Reads a gap's note; raises ValueError for a note of another form."""
    try:
        losses = [Loss(str(parent), *map(int, counts)) for parent, *counts in json.loads(note)]
        if all(isinstance(json.loads(loss.parent), dict) for loss in losses):
            return losses
    except (TypeError, RecursionError) as error:
        raise ValueError("an invalid note: %s" % error) from error
    raise ValueError("a note about something that is not a request")


def format_bytes(count: float) -> str:
    """Bytes as text: "1.2 GB"."""
    if count < 1000:
        return "%d B" % count
    units = ["GB", "MB", "kB"]
    count /= 1000
    while count >= 999.5 and len(units) > 1:
        count /= 1000
        units.pop()
    return "%.*f %s" % (1 if count < 10 else 0, count, units[-1])


class Evictor:
    """Evicts messages of one kernel.

    Parameters
    ----------
    signer: signs placeholders; has the kernel's key.
    """

    def __init__(self, signer: MessageSigner) -> None:
        self._signer = signer
        self._done = dict.fromkeys(
            sorted(set(_PRIORITIES.values())), 0
        )  # nothing is left before these numbers

    def evict(self, store: SegmentStore, first: int, size: int) -> int:
        """Frees up to *size* bytes of messages from *first* on, the first number of an entry.

        Returns how many it freed.
        """
        before = store.bytes
        for priority in self._done:
            missing = size - (before - store.bytes)
            if missing > 0:
                self._evict(store, priority, first, missing)
        return before - store.bytes

    def _evict(self, store: SegmentStore, priority: int, first: int, size: int) -> None:
        gaps: List[_Gap] = []
        placeholders: Dict[StoredEntry, bytes] = {}
        gap: Optional[_Gap] = None
        number = max(first, self._done[priority])
        for entry in store.since(number):
            if size <= 0 and not (entry.note and gap is not None):
                break
            number = entry.last + 1
            loss = self._inspect(store, entry, placeholders) if entry.priority == priority else None
            if loss is not None:
                size -= loss.size
            elif entry in placeholders:
                size -= entry.size - len(placeholders[entry])
            if loss is None and not entry.note:
                gap = None
                continue
            if gap is None or not gap.try_add(entry, loss):
                gap = _Gap(entry, loss)
                gaps.append(gap)
        # The next time continues in the gap that this one has reached.
        self._done[priority] = gap.first if gap is not None else number
        store.replace_with_gaps(
            [GapRange(gap.first, gap.last, gap.note()) for gap in gaps if gap.grown]
        )
        for entry, payload in placeholders.items():
            store.rewrite(entry, payload)

    def _inspect(
        self, store: SegmentStore, entry: StoredEntry, placeholders: Dict[StoredEntry, bytes]
    ) -> Optional[Loss]:
        """What is lost with a message; None if it stays or leaves a placeholder."""
        try:
            parts = split_parts(store.read(entry, 0, entry.size))
            at = messages.find_delimiter(parts)
            parent = parts[at + messages.PARENT].decode()
            content = json.loads(parts[at + messages.CONTENT])
            request = json.loads(parent)
            if not isinstance(request, dict) or len(parent) > NOTE_BYTES // 2:
                return None
            if "text" in content and "name" in content:
                lines = content["text"].count("\n")
                return Loss(parent, lines, 0, 1, entry.size)
            loss = Loss(parent, 0, 1, 1, entry.size)
            if not (content.get("transient") or {}).get("display_id"):
                return loss
            payload = self._placeholder(parts, at, content, loss)
            if len(payload) < entry.size:
                placeholders[entry] = payload
        except (ValueError, TypeError, AttributeError, ProtocolError):
            entry.priority = 0  # not of the expected form
        return None

    def _placeholder(
        self, parts: List[bytes], at: int, content: Dict[str, Any], loss: Loss
    ) -> bytes:
        shown = {**content, "data": {"text/plain": str(loss)}, "metadata": {}}
        rest = parts[: at + messages.CONTENT + 1]  # without buffers
        return join_parts(self._signer.with_content(rest, at, json.dumps(shown).encode()))


class _Gap:
    """A growing gap: entries that follow each other, gaps among them."""

    def __init__(self, entry: StoredEntry, loss: Optional[Loss]) -> None:
        self.first = entry.first
        self.last = entry.last
        self.grown = loss is not None  # more than the gap that it began with
        self._losses = _by_request(entry, loss)
        self._size = _size(self._losses)

    def try_add(self, entry: StoredEntry, loss: Optional[Loss]) -> bool:
        """Adds the next entry; False: a new gap has to begin with it."""
        more = _by_request(entry, loss)
        added = _size({request: more[request] for request in more if request not in self._losses})
        if self._size + added > NOTE_BYTES:
            return False
        for request, its in more.items():
            known = self._losses.get(request)
            self._losses[request] = its if known is None else known.plus(its)
        self._size += added
        self.last, self.grown = entry.last, True
        return True

    def note(self) -> bytes:
        return json.dumps(list(self._losses.values())).encode()


def _by_request(entry: StoredEntry, loss: Optional[Loss]) -> Dict[str, Loss]:
    """The losses of a gap, or of an evicted message, by the id of their request.

    (ipykernel serializes one header in two ways.)
    """
    losses = [loss] if loss is not None else parse_losses(entry.note)
    return {str(json.loads(loss.parent).get("msg_id", "")): loss for loss in losses}


def _size(losses: Dict[str, Loss]) -> int:
    """The approximate size of a note, bytes."""
    return sum(len(loss.parent) + 100 for loss in losses.values())
