"""What a person sees and answers: complaints of one line, notes, JSON, questions."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..commands.tables import is_terminal
from ..errors import Reason, TPUError

F = TypeVar("F", bound=Callable[..., Any])


def complain(message: str) -> None:
    """One line on stderr."""
    start = "jupyter tpu:"
    if is_terminal(sys.stderr) and not os.environ.get("NO_COLOR"):  # https://no-color.org
        start = click.style(start, "red")
    print(start, " ".join(message.split()), file=sys.stderr, flush=True)


def note(message: str) -> None:
    """A line on stderr that is no failure."""
    print(" ".join(message.split()), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """A model as JSON, for programs: the same as REST gives."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


class _Format(click.Choice[str]):
    """An output format; gcloud has more."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(f"{value!r} is not supported. Use json, or omit --format.", param, ctx)
        return str(value)


def json_option(function: F) -> F:
    """--json, or gcloud's --format json, as the parameter *as_json*."""

    def given(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        ctx.meta["json"] = value == "json"

    form = _Format(["json", "text"])
    function = click.option("--format", type=form, callback=given, expose_value=False, hidden=True)(
        function
    )
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=lambda ctx, _, value: value or ctx.meta.get("json", False),
        help="Print JSON, for programs. Also: --format json.",
    )(function)


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


def can_ask() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, is_moot: Callable[[], bool] = lambda: False) -> str:
    """The line that the user types; "" for an end of input, and as soon as *is_moot* says that no
    answer is needed any more. Ctrl-C is raised at once.

    Not input(): it notices a Ctrl-C that comes just before it reads only after the next line.
    """
    print(question, end="", file=sys.stderr, flush=True)  # stdout may be for a program
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        if is_moot():
            print(file=sys.stderr, flush=True)
            return ""
    return sys.stdin.readline()


def confirm(question: str, instead: str) -> None:
    """Returns if the user says yes.

    Raises CANCELLED if not, and CONFLICT where nobody can answer; *instead* says what to do then.
    """
    if not can_ask():
        raise TPUError(f"Not a terminal, so I can't ask: {question}", Reason.CONFLICT, instead)
    if ask(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise TPUError("Nothing was changed.", Reason.CANCELLED)
