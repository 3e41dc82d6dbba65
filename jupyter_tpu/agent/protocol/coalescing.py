"""Folding: what waits to be sent is made smaller, and shows the same in the end.

A kernel says much that it takes back at once: a progress bar draws itself a thousand times, a
display is updated, an output is cleared for the next. Who reads along sees all of it; who was away
needs only what is left of it, and a thin line could not carry more. A :class:`Coalescer` takes
messages that follow each other and gives back fewer, by these rules:

*Streams are merged*: adjacent ones of the same name and parent become one of about `LIMIT` bytes.
*What is written over goes*: of a stream's text, what a carriage return and as much text after it
write over (:func:`collapse_overwritten`).
*Superseded updates go*: an update_display_data before another one of the same display and parent.
*Cleared outputs go*: of one parent, outputs before a clear_output that has come into force, and
earlier ones of it. Outputs with a display id stay, as other messages may speak of them.

Nothing is moved. Nothing else goes: replies, status, comms, errors, and what has a form that is
not expected. As a comm may change where output goes (to a widget that captures it), what is
cleared is not looked for beyond one, nor beyond an error or a question.

A message that stays takes over the numbers of those that went or were merged before it, so there
are no holes. It is for the caller never to fold what a peer may have, wholly or in part.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from . import messages
from .journal import CONTROL, IOPUB, SHELL
from .messages import MessageSigner
from .segments import NumberedMessage

#: Characters of text in a merged stream message: it is to be one piece on the wire.
LIMIT = 32 << 10

_FOLDABLE = ("stream", "display_data", "execute_result", "update_display_data", "clear_output")
#: Other messages of iopub that change nothing about where output goes and what is cleared.
_INDIFFERENT = ("status", "execute_input")


class Coalescer:
    """Folds the messages of one kernel.

    Parameters
    ----------
    signer: signs what had to be written anew; has the kernel's key.
    """

    def __init__(self, signer: MessageSigner) -> None:
        self._signer = signer

    def coalesce(self, held: Sequence[NumberedMessage]) -> List[NumberedMessage]:
        """Fewer messages, or as many, for the same numbers."""
        if len(held) == 1 and not any(b"\\r" in part for part in held[0].parts):
            return list(held)  # alone, a message is made smaller by carriage returns only
        looks = [_Look(each) for each in held]
        gone = _superseded(looks)
        folded: List[NumberedMessage] = []
        merging: Optional[_Merging] = None
        first = 0  # of those that went before the one that stays
        for index, look in enumerate(looks):
            first = first or look.held.first
            if index in gone:
                continue
            if merging is not None and not merging.takes(look):
                folded.append(merging.done(self._signer))
                merging = None
            elif merging is not None:
                first = 0
                continue
            if look.text is not None:
                merging = _Merging(first, look)
            else:
                folded.append(look.held._replace(first=first))
            first = 0
        if merging is not None:
            folded.append(merging.done(self._signer))
        return folded


class _Look:
    """What matters of one message."""

    def __init__(self, held: NumberedMessage) -> None:
        self.held = held
        self.kind = ""  # "": it is left as it is
        self.parent = ""
        self.display: Optional[str] = None  # its display id
        self.wait = False  # of clear_output
        self.name = ""
        self.text: Optional[str] = None  # of a stream that may be merged
        self.indifferent = held.channel in (SHELL, CONTROL)
        if held.channel == IOPUB and not held.flags:
            try:
                self._read(held.parts)
            except (ValueError, KeyError, TypeError, AttributeError):
                self.kind = ""

    def _read(self, parts: List[bytes]) -> None:
        at = self.at = messages.find_delimiter(parts)
        header = json.loads(parts[at + messages.HEADER])
        kind = header["msg_type"]
        self.indifferent = kind in _INDIFFERENT
        if kind not in _FOLDABLE:
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


def _request(parent: bytes) -> str:
    """The request that a parent header is of. (ipykernel writes one header in two ways.)"""
    return str(json.loads(parent).get("msg_id", ""))


def _superseded(looks: Sequence[_Look]) -> Set[int]:
    """Which of them leave no trace, because of what follows."""
    gone: Set[int] = set()
    updated: Set[Tuple[str, Optional[str]]] = set()
    shown: Set[str] = set()  # parents of which there is output later on, …
    cleared: Set[str] = set()  # … and whose output is cleared later on
    for index in range(len(looks) - 1, -1, -1):
        look = looks[index]
        if look.kind == "update_display_data":
            if (look.parent, look.display) in updated:
                gone.add(index)
            updated.add((look.parent, look.display))
        elif look.kind == "clear_output":
            if look.wait and look.parent not in shown:
                continue  # it waits for output that may never come
            if look.parent in cleared:
                gone.add(index)
            cleared.add(look.parent)
        elif look.kind:
            shown.add(look.parent)
            if look.parent in cleared and look.display is None:
                gone.add(index)
        elif not look.indifferent:
            shown.clear()
            cleared.clear()
    return gone


class _Merging:
    """A stream message that is growing.

    Parameters
    ----------
    first: the first number that it stands for.
    look: the message it begins with.
    """

    def __init__(self, first: int, look: _Look) -> None:
        self._first = first
        self._latest = look
        self._texts = [look.text or ""]
        self._size = len(self._texts[0])
        self._count = 1

    def takes(self, look: _Look) -> bool:
        """Whether the next message was merged; else this one is complete."""
        latest = self._latest
        if look.text is None or (look.name, look.parent) != (latest.name, latest.parent):
            return False
        if self._size + len(look.text) > LIMIT:
            folded = collapse_overwritten("".join(self._texts))
            self._texts, self._size = [folded], len(folded)
            if self._size + len(look.text) > LIMIT // 2:
                return False
        self._latest = look
        self._texts.append(look.text)
        self._size += len(look.text)
        self._count += 1
        return True

    def done(self, signer: MessageSigner) -> NumberedMessage:
        held, at = self._latest.held, self._latest.at
        text = collapse_overwritten("".join(self._texts))
        if self._count == 1 and text == self._latest.text:
            return held._replace(first=self._first)
        content = _json({"name": self._latest.name, "text": text})
        return held._replace(first=self._first, parts=signer.with_content(held.parts, at, content))


def collapse_overwritten(text: str) -> str:
    """*text* without what it writes over itself, wherever it is written.

    A line's text after a carriage return writes over as many characters as it is long. So what
    stands between two carriage returns of a line leaves nothing if something at least as long
    follows one of the next. Lines with backspaces, escape sequences or characters that some count
    as two are left alone, as all are where a sequence may move the cursor to another line.
    """
    if "\r" not in text or _moves(text):
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "\r" in line and not {"\b", "\x1b"} & set(line) and max(line) <= "\uffff":
            lines[number] = _fold_line(line, from_start=number > 0)
    return "\n".join(lines)


def _fold_line(line: str, *, from_start: bool) -> str:
    """*from_start*: what comes before the first carriage return begins the line, too."""
    written = line.split("\r")
    last = written.pop()
    keep, longest = [last], len(last)
    while written:
        piece = written.pop()
        if len(piece) > longest or (not written and not from_start):
            keep.append(piece)
            longest = max(longest, len(piece))
    return "\r".join(reversed(keep))


def _moves(text: str) -> bool:
    """Whether there is an escape sequence that is not a colour."""
    rest = text.split("\x1b")[1:]
    return any(not _is_colour(piece) for piece in rest)


def _is_colour(piece: str) -> bool:
    end = piece.find("m")
    return piece.startswith("[") and end > 0 and set(piece[1:end]) <= set("0123456789;")


def _json(content: Dict[str, Any]) -> bytes:
    try:
        return json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # queue of a surrogate pair: only escaped it can travel
        return json.dumps(content).encode()
