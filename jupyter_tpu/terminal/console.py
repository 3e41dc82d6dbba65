"""What a person sees and answers: complaints of one line, notes, JSON, questions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from .printing import json_option as json_option  # handed on to the commands
from .printing import note as note
from .printing import print_json as print_json
from .printing import print_result as print_result
from .questions import ask as ask
from .questions import can_ask as can_ask
from .questions import confirm as confirm
from .questions import yes_option as yes_option
from .streams import own_escapes
from .tables import is_terminal

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
