"""Errors as a notebook shows them: the host's own, and ours as one sentence."""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Iterator
from typing import Any

from ..errors import TPUError
from ..wording import printable

#: IPython shows these in its own way: with advice on ending *this* kernel, with lines of *this*
#: cell, or as a group of errors that are not here.
_NOT_RAISED_HERE = (SystemExit, SyntaxError, BaseExceptionGroup)
COLOURS = re.compile(r"\x1b\[[\d;]*m")


class FromHost(BaseException):
    """What a cell raised on the host."""

    def __init__(self, value: str, traceback: list[str]) -> None:
        self.args = (value,)
        self._traceback = traceback
        if traceback:
            self.add_note(COLOURS.sub("", "\n".join(["On the TPU:", *traceback])))

    def __str__(self) -> str:
        return str(self.args[0])

    def _render_traceback_(self) -> list[str]:
        """Called by IPython: the host's own traceback instead of ours."""
        return self._traceback


class RemoteError(FromHost, Exception):
    """What a cell raised on the host.

    Its class has the name of the exception there, and the nearest built-in class that it has there
    as a base, so that ``except ZeroDivisionError`` catches it.
    """


def remote_error(error: dict[str, Any], classes: list[str]) -> BaseException:
    """The exception for an error message of the host.

    classes: the names of its built-in classes there, the nearest first.
    """
    name = error.get("ename") or "Error"
    base = next(filter(None, map(_built_in, classes)), Exception)
    kinds = (
        (RemoteError,)
        if issubclass(Exception, base)
        else ((RemoteError, base) if issubclass(base, Exception) else (FromHost, base))
    )
    exception = type(name, kinds, {})(error.get("evalue", ""), error.get("traceback") or [])
    assert isinstance(exception, BaseException)
    return exception


def _built_in(name: str) -> type[BaseException] | None:
    built_in = getattr(builtins, name, None)
    if not isinstance(built_in, type) or not issubclass(built_in, BaseException):
        return None
    return None if issubclass(built_in, _NOT_RAISED_HERE) else built_in


class MagicError(Exception):
    """A failure shown as one sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        from ..terminal.language import in_language

        return [printable(in_language(str(self)))]


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What the core raises, as one sentence without a traceback."""
    try:
        yield
    except TPUError as error:
        raise MagicError(str(error)) from None
