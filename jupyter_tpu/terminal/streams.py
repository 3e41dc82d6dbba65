"""What commands print, made safe for a terminal, whatever a host has put into it.

A name or message of a host may have control characters, which a terminal would obey. `clean_output`
puts a `CleanStream` in the place of stdout and stderr: all that is printed passes through it. It is
also put into the user's language there, but for what `verbatim` marks. What must not be cleaned is
written to the stream below: the output of the user's own commands, jobs and cells, as ssh would
show it, and progress bars, whose text `clean_console` cleans.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from ..errors import Reason, TPUError
from ..wording import printable
from .language import catalogue_name, in_language

if TYPE_CHECKING:
    from rich.console import Console

#: Stands for our own escape characters until they are written. No host can know it.
_ESCAPE = f"\ue000{os.urandom(8).hex()}\ue001"
#: Stands in a line that is not translated.
_VERBATIM = f"\ue002{os.urandom(8).hex()}\ue001"
#: For characters that the terminal's encoding does not have. In JSON they stay what they are.
_ERRORS = "jupyter_tpu.escape"


class OutputError(TPUError):
    """stdout or stderr can't be written: a full disk, for example."""


class CleanStream:
    """Writes to *plain* what `printable` leaves, translated; in all else it is *plain*."""

    def __init__(self, plain: TextIO) -> None:
        self.plain = plain

    def write(self, text: str) -> int:
        with explained(self.plain):
            shown = _in_language(printable(_masked(text)))
            self.plain.write(shown.replace(_ESCAPE, "\x1b"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with explained(self.plain):
            self.plain.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


def _masked(text: str) -> str:
    """*text* for a coding agent: with the names of the tokens that TPUs get in place of values."""
    for value, name in _secrets().items():
        text = text.replace(value, f"[{name}]")
    return text


@functools.cache
def _secrets() -> dict[str, str]:
    from ..agent_token import acts_as_agent

    if not acts_as_agent():
        return {}
    from ..tokens import known_secrets

    return known_secrets()


def _in_language(text: str) -> str:
    if not catalogue_name():
        return text
    return "\n".join(
        line.replace(_VERBATIM, "") if _VERBATIM in line else in_language(line)
        for line in text.split("\n")
    )


def verbatim(text: str) -> str:
    """*text* so that its lines are printed as they are: tables, and what is for a program."""
    if not text or not catalogue_name() or not isinstance(sys.stdout, CleanStream):
        return text
    return "\n".join(_VERBATIM + line for line in text.split("\n"))


@contextlib.contextmanager
def clean_output() -> Iterator[None]:
    """What is printed inside is cleaned."""
    with (
        contextlib.redirect_stdout(cast(TextIO, _clean(sys.stdout))),
        contextlib.redirect_stderr(cast(TextIO, _clean(sys.stderr))),
    ):
        yield


def _clean(stream: TextIO) -> TextIO | CleanStream:
    if isinstance(stream, CleanStream):
        return stream
    if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors=_ERRORS)
    return CleanStream(stream)


def plain(stream: TextIO) -> TextIO:
    """The stream below a `CleanStream`; another one is returned as it is."""
    return stream.plain if isinstance(stream, CleanStream) else stream


def write_plain(stream: TextIO, data: str | bytes) -> None:
    """Writes what the user's own programs have written, as it is, and flushes.

    For a coding agent it is masked, piece by piece.
    """
    below: Any = plain(stream)
    with explained(below):
        if isinstance(data, str):
            data = _masked(data)
        else:
            if _secrets():
                data = _masked(data.decode("utf-8", "surrogateescape")).encode(
                    "utf-8", "surrogateescape"
                )
            below.flush()
            below = below.buffer
        below.write(data)
        below.flush()


def own_escapes(text: str) -> str:
    """*text*, whose escape sequences are ours and reach the terminal when it is printed."""
    return text.replace("\x1b", _ESCAPE) if isinstance(sys.stdout, CleanStream) else text


def as_shown(text: str) -> str:
    """*text* without our own escape sequences and marks, which take no room on the terminal."""
    return re.sub(rf"{_ESCAPE}\[[\d;]*m|{_VERBATIM}", "", text)


def clean_console(stream: TextIO, **options: Any) -> Console:
    """A console of rich's that writes its own control sequences, and cleans all text."""
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text), style, control)

    return CleanConsole(file=plain(stream), **options)


@contextlib.contextmanager
def explained(stream: Any) -> Iterator[None]:
    """A failure to write becomes one line; that no one reads any more is told by its own error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:  # ValueError: it is closed
        names = {1: "stdout", 2: "stderr"}
        name = names.get(stream.fileno(), "the output")
        why = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"Can't write to {name}: {why}.", Reason.DISK_FULL) from error


def open_standard_streams() -> None:
    """Where stdin, stdout or stderr is closed: no file that is opened later takes its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number. What is written to a closed stdout is an error.
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (lost[at : at + 2].hex() for at in range(0, len(lost), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


codecs.register_error(_ERRORS, _escape)
