"""What a person sees and answers: complaints of one line, notes, JSON, questions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..commands.printing import json_option as json_option  # handed on to the commands
from ..commands.printing import note as note
from ..commands.printing import print_json as print_json
from ..commands.questions import ask as ask
from ..commands.questions import can_ask as can_ask
from ..commands.tables import is_terminal
from ..commands.terminal import own_escapes
from ..errors import Reason, TPUError

F = TypeVar("F", bound=Callable[..., Any])


def complain(message: str) -> None:
    """One line on stderr."""
    start = "jupyter tpu:"
    if is_terminal(sys.stderr) and not os.environ.get("NO_COLOR"):  # https://no-color.org
        start = own_escapes(click.style(start, "red"))
    print(start, " ".join(message.split()), file=sys.stderr, flush=True)


def yes_option(help: str, *, hidden: bool = False) -> Callable[[F], F]:
    """--yes, or gcloud's --quiet, as the parameter *yes*."""
    names = ("--yes", "-y", "--quiet", "-q", "yes")
    return click.option(*names, is_flag=True, help=help, hidden=hidden)


def no_wait_option(function: F) -> F:
    """--no-wait, or gcloud's --async, as the parameter *no_wait*."""
    return click.option(
        "--no-wait",
        "--async",
        "no_wait",
        is_flag=True,
        help="Return immediately; the operation continues.",
    )(function)


def verbose_option(function: F) -> F:
    """--verbose: operations that are waited for print their log; see :func:`is_verbose`."""
    return click.option(
        "--verbose",
        "-v",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.__setitem__("verbose", value),
        help="Print each line of the log, such as those of pip and of a setup script.",
    )(function)


def is_verbose() -> bool:
    """Whether the command has --verbose."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get("verbose"))


def confirm(question: str, instead: str) -> None:
    """Returns if the user says yes.

    Raises CANCELLED if not, and CONFLICT where no one can answer; *instead* says what to do then.
    """
    if not can_ask():
        raise TPUError(f"Not a terminal, so I can't ask: {question}", Reason.CONFLICT, instead)
    if ask(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise TPUError("Nothing was changed.", Reason.CANCELLED)
