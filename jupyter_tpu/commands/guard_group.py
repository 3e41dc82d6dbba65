"""``jupyter tpu guard`` and ``%tpu guard``: a TPU that stops or deletes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import InvalidInput
from .grammar import Group, examples, tpu_argument
from .guard import guard_options, guard_text
from .hunts import seconds
from .printing import json_option, note, print_json
from .session import open_session

if TYPE_CHECKING:
    from ..fleet.models import Guard, SetGuard


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
    help="How long before it acts the guard announces that, at most 60m.",
)
@json_option
def set_guard(name: str, guard: SetGuard | None, notice: str, as_json: bool) -> None:
    """Set or replace the guard of a TPU. When it acts, everything that runs there ends."""
    if guard is None:
        raise InvalidInput("A guard needs a limit.", "Add --max-idle, --max-cost or --until.")
    from msgspec import structs

    guard = structs.replace(guard, notice=seconds(notice))
    note("Checking whether the TPU has the permission.")
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
    """Keep a TPU running for some time, whatever its limits are."""
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
