"""What a person sees: one-line complaints, tables, colours, questions."""

from __future__ import annotations

import select
import sys
from typing import Any

import msgspec

from ..commands.tables import colour
from ..errors import Reason, TPUError


def complain(message: str) -> None:
    """One line on stderr."""
    line = " ".join(message.split())
    print(colour("jupyter tpu:", "red", sys.stderr), line, file=sys.stderr, flush=True)


def note(message: str) -> None:
    """A line on stderr that is no failure."""
    print(" ".join(message.split()), file=sys.stderr, flush=True)


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
