"""Coalescing: waiting messages are merged into fewer ones that show the same in the end.

A kernel soon replaces much of its output: a progress bar redraws itself a thousand times, a display
is updated, an output is cleared for the next. A connected client sees all of it. A client that was
away needs only the result, and a slow line could not carry more. A :class:`Coalescer` takes
messages that follow each other and returns fewer, by these rules:

*Streams are merged*: adjacent ones of the same name and parent become one of about
`MERGED_CHARACTERS`.
*Overwritten text goes*: stream text that a carriage return and enough text after it overwrite
(:func:`collapse_overwritten`).
*Superseded updates go*: an update_display_data before another one of the same display and parent.
*Cleared outputs go*: of one parent, outputs before a clear_output that has come into effect, and
earlier clear_outputs. Outputs with a display id stay, as other messages may refer to them.
*Superseded states of widgets go*: of an update of a comm, the keys that a later update of the same
comm sets again, if nothing else of this comm is between them.

Nothing is reordered. Everything else stays: replies, status, other messages of comms, errors, and
messages of an unexpected form. A comm may redirect output (to a widget that captures it, by its key
``msg_id``), so such an update stays, and clearing is not followed past a comm, an error or an input
request.

A message that stays takes over the numbers of those before it that went or were merged, so there
are no holes. The caller must never coalesce messages of which a peer may have a byte.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from . import messages
from .events import CONTROL, IOPUB, SHELL
from .messages import MessageSigner
from .segments import NumberedMessage

#: Characters of text in a merged stream message, so that it is one piece on the wire.
MERGED_CHARACTERS = 32 << 10

_MERGEABLE = ("stream", "display_data", "execute_result", "update_display_data", "clear_output")
#: Other messages of iopub that change nothing about where output goes and what is cleared.
_NEUTRAL = ("status", "execute_input")


class Coalescer:
    """Coalesces the messages of one kernel.

    Parameters
    ----------
    signer: signs merged messages; has the kernel's key.
    """

    def __init__(self, signer: MessageSigner) -> None:
        self._signer = signer

    def coalesce(self, held: Sequence[NumberedMessage]) -> List[NumberedMessage]:
        """The messages to keep instead, with the same numbers."""
        if len(held) == 1 and not any(b"\\r" in part for part in held[0].parts):
            return list(held)  # only carriage returns make a single message smaller
        views = [_View(numbered_message) for numbered_message in held]
        gone = _superseded(views) | self._superseded_states(views)
        folded: List[NumberedMessage] = []
        merging: Optional[_StreamMerge] = None
        first = 0  # of those that went before the one that stays
        for index, view in enumerate(views):
            first = first or view.held.first
            if index in gone:
                continue
            if merging is not None and not merging.try_add(view):
                folded.append(merging.finish(self._signer))
                merging = None
            elif merging is not None:
                first = 0
                continue
            if view.text is not None:
                merging = _StreamMerge(first, view)
            else:
                folded.append(view.held._replace(first=first))
            first = 0
        if merging is not None:
            folded.append(merging.finish(self._signer))
        return folded

    def _superseded_states(self, views: Sequence[_View]) -> Set[int]:
        """Indices of updates of which no key is left; others get a message without some keys."""
        gone: Set[int] = set()
        later: Dict[str, Set[str]] = {}  # keys that are set later on, by comm
        for index in range(len(views) - 1, -1, -1):
            view = views[index]
            if view.state is None:
                later.pop(view.comm, None)
                continue
            known = later.setdefault(view.comm, set())
            new = set(view.state) - known
            if view.state and not new:
                gone.add(index)
            elif len(new) < len(view.state) and not view.has_buffers:
                view.keep_keys(new, self._signer)
            known |= new
        return gone


class _View:
    """The parts of a message that the rules need."""

    def __init__(self, held: NumberedMessage) -> None:
        self.held = held
        self.kind = ""  # "" if it stays as it is
        self.parent = ""
        self.display: Optional[str] = None  # its display id
        self.wait = False  # of clear_output
        self.name = ""
        self.text: Optional[str] = None  # of a stream that may be merged
        self.comm = ""  # the id of its comm
        self.state: Optional[Dict[str, Any]] = None  # of an update of a comm that may be superseded
        self.has_buffers = False
        self.neutral = held.channel in (SHELL, CONTROL)
        if held.channel == IOPUB and not held.flags:
            try:
                self._read(held.parts)
            except (ValueError, KeyError, TypeError, AttributeError):
                self.kind = ""

    def _read(self, parts: List[bytes]) -> None:
        at = self.at = messages.find_delimiter(parts)
        header = json.loads(parts[at + messages.HEADER])
        kind = header["msg_type"]
        self.neutral = kind in _NEUTRAL
        if kind.startswith("comm_"):
            self._read_comm(kind, parts)
        if kind not in _MERGEABLE:
            return
        self.parent = _request(parts[at + messages.PARENT])
        if kind not in ("execute_result", "display_data"):
            content = json.loads(parts[at + messages.CONTENT])
        elif b'"display_id"' in parts[at + messages.CONTENT]:
            content = {"transient": {"display_id": ""}}
        else:
            content = {}
        if kind == "stream":
            plain = set(content) == {"name", "text"} and len(parts) == at + messages.CONTENT + 1
            if plain and parts[at + messages.METADATA] == b"{}":
                self.name, self.text = str(content["name"]), str(content["text"])
        elif kind == "clear_output":
            self.wait = bool(content.get("wait"))
        else:
            self.display = (content.get("transient") or {}).get("display_id")
        if kind != "update_display_data" or self.display:
            self.kind = kind

    def _read_comm(self, kind: str, parts: List[bytes]) -> None:
        content = json.loads(parts[self.at + messages.CONTENT])
        self.comm = str(content["comm_id"])
        self.has_buffers = len(parts) > self.at + messages.CONTENT + 1
        data = content.get("data")
        if kind == "comm_msg" and isinstance(data, dict) and data.get("method") == "update":
            state = data.get("state")
            if isinstance(state, dict) and "msg_id" not in state:
                paths = data.get("buffer_paths") or ()
                self.state = {**state, **{str(path[0]): None for path in paths}}

    def keep_keys(self, keys: Set[str], signer: MessageSigner) -> None:
        """Removes the other keys from the state; only without buffers."""
        content = json.loads(self.held.parts[self.at + messages.CONTENT])
        state = content["data"]["state"]
        content["data"]["state"] = {key: state[key] for key in state if key in keys}
        parts = signer.with_content(self.held.parts, self.at, _json(content))
        self.held = self.held._replace(parts=parts)


def _request(parent: bytes) -> str:
    """The id of the request in a parent header. (ipykernel serializes one header in two ways.)"""
    return str(json.loads(parent).get("msg_id", ""))


def _superseded(views: Sequence[_View]) -> Set[int]:
    """Indices of messages that later ones make superfluous."""
    gone: Set[int] = set()
    updated: Set[Tuple[str, Optional[str]]] = set()
    shown: Set[str] = set()  # parents with output later on, …
    cleared: Set[str] = set()  # … and those whose output is cleared later on
    for index in range(len(views) - 1, -1, -1):
        view = views[index]
        if view.kind == "update_display_data":
            if (view.parent, view.display) in updated:
                gone.add(index)
            updated.add((view.parent, view.display))
        elif view.kind == "clear_output":
            if view.wait and view.parent not in shown:
                continue  # it waits for output that may never come
            if view.parent in cleared:
                gone.add(index)
            cleared.add(view.parent)
        elif view.kind:
            shown.add(view.parent)
            if view.parent in cleared and view.display is None:
                gone.add(index)
        elif not view.neutral:
            shown.clear()
            cleared.clear()
    return gone


class _StreamMerge:
    """A growing stream message.

    Parameters
    ----------
    first: the first number that it stands for.
    view: the message it begins with.
    """

    def __init__(self, first: int, view: _View) -> None:
        self._first = first
        self._latest = view
        self._texts = [view.text or ""]
        self._size = len(self._texts[0])
        self._count = 1

    def try_add(self, view: _View) -> bool:
        """Merges the next message; False if this one is complete."""
        latest = self._latest
        if view.text is None or (view.name, view.parent) != (latest.name, latest.parent):
            return False
        if self._size + len(view.text) > MERGED_CHARACTERS:
            folded = collapse_overwritten("".join(self._texts))
            self._texts, self._size = [folded], len(folded)
            if self._size + len(view.text) > MERGED_CHARACTERS // 2:
                return False
        self._latest = view
        self._texts.append(view.text)
        self._size += len(view.text)
        self._count += 1
        return True

    def finish(self, signer: MessageSigner) -> NumberedMessage:
        held, at = self._latest.held, self._latest.at
        text = collapse_overwritten("".join(self._texts))
        if self._count == 1 and text == self._latest.text:
            return held._replace(first=self._first)
        content = _json({"name": self._latest.name, "text": text})
        return held._replace(first=self._first, parts=signer.with_content(held.parts, at, content))


def collapse_overwritten(text: str) -> str:
    """*text* without the parts that it overwrites itself, wherever it is shown.

    Text after a carriage return overwrites as many characters as it is long. So text between two
    carriage returns of a line leaves nothing if text of at least its length follows a later one.
    Lines with backspaces, escape sequences or double-width characters stay as they are; so does the
    whole text if a sequence may move the cursor to another line.
    """
    if "\r" not in text or _moves_cursor(text):
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "\r" in line and not {"\b", "\x1b"} & set(line) and max(line) <= "\uffff":
            lines[number] = _collapse_line(line, from_start=number > 0)
    return "\n".join(lines)


def _collapse_line(line: str, *, from_start: bool) -> str:
    """*from_start*: the text before the first carriage return begins the line."""
    written = line.split("\r")
    last = written.pop()
    keep, longest = [last], len(last)
    while written:
        piece = written.pop()
        if len(piece) > longest or (not written and not from_start):
            keep.append(piece)
            longest = max(longest, len(piece))
    return "\r".join(reversed(keep))


def _moves_cursor(text: str) -> bool:
    """Whether there is an escape sequence other than a colour."""
    rest = text.split("\x1b")[1:]
    return any(not _is_colour(piece) for piece in rest)


def _is_colour(piece: str) -> bool:
    end = piece.find("m")
    return piece.startswith("[") and end > 0 and set(piece[1:end]) <= set("0123456789;")


def _json(content: Dict[str, Any]) -> bytes:
    try:
        return json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair can only be sent escaped
        return json.dumps(content).encode()
