"""What hosts print in one cell: shown once where it is equal, folded where it differs. No I/O.

Host 0's output is shown as it comes. What the other hosts print is compared with it, and shown when
it differs. Of each host only the beginning and the end are stored, with a digest of the whole.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import io
import re
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from .host_names import host_ranges

#: Characters of a host's output that are stored: of its beginning, and of its end.
HEAD_CHARACTERS, TAIL_CHARACTERS = 48 << 10, 16 << 10
#: Longest line that is compared as a line; longer ones are compared in pieces of this length.
LONGEST_LINE = 64 << 10
#: Characters of a host's picture (base64) that are shown if it differs.
PICTURE_CHARACTERS = 2 << 20
#: Lines of a host's output up to which it is shown unfolded.
SHORT_LINES = 12
#: What JupyterLab shows as a row of tabs, with the texts of the HTML (labextension/src/pod).
TABS = "application/vnd.jupyter-tpu.hosts+json"

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WIDGET = "application/vnd.jupyter.widget-view+json"
#: The picture formats of which a host's own is shown.
_PICTURES = "image/png", "image/jpeg"


class Transcript:
    """What one host printed in one cell."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """The host has cleared its output."""
        self._streams: Dict[str, "hashlib._Hash"] = {}
        self._partial: Dict[str, str] = {}  # a line of each stream that has not ended
        self._rewritten: Dict[str, None] = {}  # streams of which that line was rewritten
        self._displays = hashlib.sha256()
        self._head: List[str] = []
        self._tail = ""
        self._stored = self._omitted = 0
        self.pictures: List[Tuple[str, str]] = []  # type, base64

    def add_stream(self, name: str, text: str) -> None:
        """Adds what was written to ``stdout`` or ``stderr``."""
        text = self._partial.get(name, "") + text
        end = text.rfind("\n") + 1
        end += (len(text) - end) // LONGEST_LINE * LONGEST_LINE
        complete, self._partial[name] = text[:end], text[end:]
        if "\r" in complete or name in self._rewritten:
            for line in io.StringIO(complete):  # ends at \n only
                self._add_line(name, line)
        elif complete:
            self._add(name, complete)

    def _add_line(self, name: str, line: str) -> None:
        """Adds a line, or the beginning of a long one that has not ended."""
        for start in range(0, len(line), LONGEST_LINE):
            piece = line[start : start + LONGEST_LINE]
            if "\r" in piece.rstrip("\r\n"):
                self._rewritten[name] = None
            if name not in self._rewritten:
                self._add(name, piece.replace("\r", ""))
        if line.endswith("\n"):
            self._rewritten.pop(name, None)

    def _add(self, name: str, text: str) -> None:
        digest = self._streams.setdefault(name, hashlib.sha256())
        digest.update(text.encode("utf-8", "surrogatepass"))
        self._store(text)

    def add_display(self, data: Dict[str, Any]) -> None:
        """Adds a result, a plot or another rich output: a bundle of mime types."""
        if _WIDGET in data:
            self._displays.update(b"widget")
            return
        text = _text(data.get("text/plain"))
        picture = next(
            ((kind, _text(data[kind])) for kind in _PICTURES if data.get(kind)), ("", "")
        )
        same = (_ADDRESS.sub("0x", text), *picture)
        self._displays.update(repr(same).encode("utf-8", "surrogatepass"))
        self._store(text.rstrip("\n") + "\n")
        if (
            picture[0]
            and sum(len(data) for _, data in [*self.pictures, picture]) < PICTURE_CHARACTERS
        ):
            self.pictures.append(picture)

    def _store(self, text: str) -> None:
        free = HEAD_CHARACTERS - self._stored
        if free > 0:
            self._head.append(text[:free])
            self._stored += len(text[:free])
        if len(text) > free:
            rest = text[max(free, 0) :]
            self._omitted += len(rest)
            self._tail = (self._tail + rest)[-TAIL_CHARACTERS:]

    def finish(self) -> None:
        """The cell has ended: a line that has no end is one, too."""
        for name, rest in self._partial.items():
            if rest:
                self._add_line(name, rest)
        self._partial = {}

    @property
    def digest(self) -> Tuple[str, ...]:
        """Equal for hosts that printed the same."""
        streams = sorted((name, digest.hexdigest()) for name, digest in self._streams.items())
        return (self._displays.hexdigest(), *("%s %s" % stream for stream in streams))

    @property
    def text(self) -> str:
        """What is stored of it, as plain text."""
        pending = "".join(self._partial.values())
        omitted = self._omitted - len(self._tail)
        between = "\n[… %d characters …]\n" % omitted if omitted > 0 else ""
        return plain("".join(self._head) + between + self._tail + pending)


class Fold(NamedTuple):
    """Something that some hosts have in common, and others have not."""

    hosts: Tuple[int, ...]
    title: str
    text: str
    pictures: Sequence[Tuple[str, str]] = ()


def differences(transcripts: Dict[int, Transcript]) -> List[Fold]:
    """What the hosts printed that did not print the same as the first of them, by its content;
    [] if all printed the same.
    """
    groups: Dict[Tuple[str, ...], List[int]] = {}
    for host in sorted(transcripts):
        groups.setdefault(transcripts[host].digest, []).append(host)
    if len(groups) < 2:
        return []
    folds = []
    for hosts in list(groups.values())[1:]:
        transcript = transcripts[hosts[0]]
        text = transcript.text or ("[a plot]" if transcript.pictures else "[no output]")
        folds.append(Fold(tuple(hosts), host_ranges(hosts), text, transcript.pictures))
    return folds


def bundle(heading: str, folds: Sequence[Fold], above: str = "") -> Dict[str, Any]:
    """*folds* below a *heading* as a mime bundle: tabs, HTML that can be opened, and plain text.

    What hosts printed is data: none of it is markup. *above*: the hosts whose output is that of
    the cell. The tabs' texts are those of the HTML, so that a slow line carries them once.
    """
    lines, parts = [heading], ["<div><div>%s</div>" % html.escape(heading)]
    for fold in folds:
        short = fold.text.count("\n") <= SHORT_LINES and len(folds) <= 8
        lines.append("%s:" % fold.title)
        lines += ["    " + line for line in fold.text.rstrip("\n").split("\n")]
        parts.append(
            "<details%s><summary>%s</summary><pre>%s</pre>%s</details>"
            % (
                " open" if short else "",
                html.escape(fold.title),
                html.escape(fold.text.rstrip("\n")),
                "".join(map(_picture, fold.pictures)),
            )
        )
    return {
        TABS: {"heading": heading, "above": above, "hosts": [list(fold.hosts) for fold in folds]},
        "text/html": "".join(parts) + "</div>",
        "text/plain": "\n".join(lines),
    }


def _picture(picture: Tuple[str, str]) -> str:
    kind, data = picture
    try:
        decoded = base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        return ""
    return '<img src="data:%s;base64,%s">' % (kind, base64.b64encode(decoded).decode())


def plain(text: str) -> str:
    """*text* without what a terminal would do with it."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def _text(payload: Any) -> str:
    if isinstance(payload, list):
        payload = "".join(part for part in payload if isinstance(part, str))
    return payload if isinstance(payload, str) else ""
