"""``jupyter tpu guard``: a TPU that stops or deletes itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..commands.grammar import Group, examples, tpu_argument
from ..commands.guard import guard_text, seconds
from ..commands.hunts import deadline
from ..commands.session import open_session
from ..errors import InvalidInput
from .console import json_option, note, print_json

if TYPE_CHECKING:
    from ..fleet.models import Guard, SetGuard

_OPTIONS = (
    click.option(
        "--max-idle",
        metavar="TIME",
        help="After so long without work, such as 2h: no running cell, job, terminal or program.",
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="When it has cost so much since its creation, about.",
    ),
    click.option("--until", metavar="TIME", help="At a time, or after a time such as 8h."),
    click.option(
        "--then-delete",
        is_flag=True,
        help="Delete it, with its disk. Else it is stopped, and its disk stays.",
    ),
)


def guard_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options, which *function* gets as `guard` (SetGuard, or None without any)."""

    @wraps(function)
    def with_guard(
        *args: Any,
        max_idle: str | None,
        max_cost: float | None,
        until: str | None,
        then_delete: bool,
        **others: Any,
    ) -> Any:
        from ..fleet.models import SetGuard

        wanted: SetGuard | None = None
        if max_idle or max_cost is not None or until:
            wanted = SetGuard(
                action="delete" if then_delete else "stop",
                idle=seconds(max_idle) if max_idle else None,
                max_cost=max_cost,
                until=deadline(until) if until else "",
            )
        elif then_delete:
            raise InvalidInput(
                "--then-delete needs a limit.", "Add --max-idle, --max-cost or --until."
            )
        return function(*args, guard=wanted, **others)

    result: Callable[..., Any] = with_guard
    for option in reversed(_OPTIONS):
        result = option(result)
    return result


@click.group("guard", cls=Group, aliases={"off": "remove"})
def guard() -> None:
    """Let a TPU stop or delete itself: when it is idle, at a cost, or at a time.

    The guard runs on the TPU, so it works while your computer is off.
    """


@guard.command(
    "set",
    epilog=examples(
        "jupyter tpu guard set my-tpu --max-idle 2h",
        "jupyter tpu guard set my-tpu --max-cost 20 --until 2026-12-24T08:00 --then-delete",
    ),
)
@tpu_argument()
@guard_options
@click.option(
    "--notice",
    default="5m",
    metavar="TIME",
    help="For how long it is announced before, at most 60m.",
)
@json_option
def set_guard(name: str, guard: SetGuard | None, notice: str, as_json: bool) -> None:
    """Set or replace the guard of a TPU. What runs there then ends with it."""
    if guard is None:
        raise InvalidInput("A guard needs a limit.", "Add --max-idle, --max-cost or --until.")
    from msgspec import structs

    guard = structs.replace(guard, notice=seconds(notice))
    note("Asking Google whether the TPU may do that.")
    with open_session() as session:
        found = session.call(session.fleet.guards.set(name, guard))
    _print(name, found, as_json)


@guard.command("show", epilog=examples("jupyter tpu guard show my-tpu"))
@tpu_argument()
@json_option
def show(name: str, as_json: bool) -> None:
    """Show the guard of a TPU, what it waits for, and when it acts."""
    with open_session() as session:
        found = session.call(session.fleet.guards.get(name))
    _print(name, found, as_json)


@guard.command("keep", epilog=examples("jupyter tpu guard keep my-tpu --for 3h"))
@tpu_argument()
@click.option("--for", "length", default="1h", metavar="TIME", help="How long.")
@json_option
def keep(name: str, length: str, as_json: bool) -> None:
    """Keep a TPU for some time in any case."""
    from ..fleet.models import KeepTPU

    wanted = KeepTPU(seconds=seconds(length))
    with open_session() as session:
        found = session.call(session.fleet.guards.keep(name, wanted))
    _print(name, found, as_json)


@guard.command("remove", epilog=examples("jupyter tpu guard remove my-tpu"))
@tpu_argument()
def remove(name: str) -> None:
    """Remove the guard: the TPU runs, and is billed, until you stop it."""
    with open_session() as session:
        session.call(session.fleet.guards.remove(name))
    print(f"{name} has no guard now. It runs until you stop it.")


def _print(name: str, guard: Guard, as_json: bool) -> None:
    if as_json:
        print_json(guard)
    else:
        print(guard_text(name, guard))
