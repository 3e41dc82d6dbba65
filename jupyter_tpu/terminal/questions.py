"""Questions to the person at the terminal, if there is one."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import TPU, QueuedResource

F = TypeVar("F", bound=Callable[..., Any])


def can_ask() -> bool:
    """Whether someone can answer a question."""
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

    Raises CANCELLED if not, and CONFLICT where no one can answer; *instead* says what to do then.
    """
    if not can_ask():
        raise TPUError(f"Not a terminal, so I can't ask: {question}", Reason.CONFLICT, instead)
    if ask(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise TPUError("Nothing was changed.", Reason.CANCELLED)


def yes_option(help: str, *, hidden: bool = False) -> Callable[[F], F]:
    """--yes, or gcloud's --quiet, as the parameter *yes*."""
    names = ("--yes", "-y", "--quiet", "-q", "yes")
    return click.option(*names, is_flag=True, help=help, hidden=hidden)


confirm_name_option = click.option(
    "--confirm-name",
    "confirmed",
    multiple=True,
    metavar="NAME",
    help="Confirm the name of a TPU or queued resource of another person. In a terminal, you are "
    "asked for it.",
)


def confirmed_names(things: Sequence[TPU | QueuedResource], confirmed: Collection[str]) -> set[str]:
    """The names that were given as *confirmed* or are typed now.

    Raises CANCELLED if another name is typed. Without a terminal, the fleet refuses the rest.
    """
    names = set(confirmed)
    for thing in things:
        if thing.not_yours and thing.name not in names and can_ask():
            typed = ask(
                f'{thing.name} belongs to {thing.owner}. To continue, type "{thing.name}": '
            )
            if typed.strip() != thing.name:
                raise TPUError("Nothing was changed.", Reason.CANCELLED)
            names.add(thing.name)
    return names
