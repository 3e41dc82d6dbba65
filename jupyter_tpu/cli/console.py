"""What a person sees: one-line complaints, tables, colours, questions."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from ..errors import Reason, TPUError

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "dim": 2, "bold": 1}
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def complain(message: str) -> None:
    """One line on stderr."""
    line = " ".join(message.split())
    print(colour("jupyter tpu:", "red", sys.stderr), line, file=sys.stderr, flush=True)


def note(message: str) -> None:
    """A line on stderr that is no failure."""
    print(" ".join(message.split()), file=sys.stderr, flush=True)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches *stream*, on something that can move the cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colour(text: str, name: str, stream: TextIO | None = None) -> str:
    """*text* in a colour, on a terminal without NO_COLOR (https://no-color.org)."""
    stream = stream or sys.stdout
    if not text or os.environ.get("NO_COLOR") or not is_terminal(stream):
        return text
    return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with two spaces between them; columns empty in all rows are left out."""
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    lines = [[colour(heads[i], "bold") for i in kept]]
    lines += [[row[i] for i in kept] for row in rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(kept))]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _width(cell: str) -> int:
    return len(_ESCAPES.sub("", cell))


def print_json(value: Any) -> None:
    """A model as JSON, for programs: the same as REST gives."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def can_ask() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str) -> str:
    """The line that the user types; "" for an end of input. Ctrl-C is raised at once.

    Not input(): a Ctrl-C just before it begins to read is not seen until a line has been typed.
    """
    print(question, end="", flush=True)
    if sys.platform != "win32":
        while not select.select([sys.stdin], [], [], 0.2)[0]:
            pass
    return sys.stdin.readline()


def confirm(question: str, instead: str) -> None:
    """Returns if the user says yes; raises CANCELLED if not, and where nobody can be asked,
    CONFLICT with *instead*: what to type then.
    """
    if not can_ask():
        raise TPUError(f"There is nobody here to ask: {question}", Reason.CONFLICT, instead)
    answer = ask(f"{question} [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise TPUError("Nothing was changed.", Reason.CANCELLED)
