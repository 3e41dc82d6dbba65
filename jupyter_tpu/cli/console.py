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
from ..commands.printing import print_result as print_result
from ..commands.questions import ask as ask
from ..commands.questions import can_ask as can_ask
from ..commands.questions import confirm as confirm
from ..commands.questions import yes_option as yes_option
from ..commands.tables import is_terminal
from ..commands.terminal import own_escapes

F = TypeVar("F", bound=Callable[..., Any])


def complain(message: str) -> None:
    """One line on stderr."""
    start = "jupyter tpu:"
    if is_terminal(sys.stderr) and not os.environ.get("NO_COLOR"):  # https://no-color.org
        start = own_escapes(click.style(start, "red"))
    print(start, " ".join(message.split()), file=sys.stderr, flush=True)


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
