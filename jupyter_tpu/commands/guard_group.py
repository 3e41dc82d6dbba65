"""``jupyter tpu guard`` and ``%tpu guard``: a TPU that stops or deletes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from .field_options import options_of
from .grammar import Group, examples
from .guard import guard_options, guard_text
from .owners import confirm_name_option, confirmed_names
from .parameters import tpu_argument
from .printing import json_option, note, print_json
from .session import Session, open_session, tpu_ref

if TYPE_CHECKING:
    from ..fleet.models import Guard, SetGuard


@click.group("guard", cls=Group, aliases={"off": "remove", "show": "describe"})
def guard() -> None:
    """Stop or delete a TPU automatically: when it is idle, at a cost, or at a time.

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
@options_of("SetGuard", "notice", into="guard")
@confirm_name_option
@json_option
def set_guard(name: str, guard: SetGuard | None, confirmed: tuple[str, ...], as_json: bool) -> None:
    """Set or replace the guard of a TPU. When it acts, everything that runs there ends."""
    if guard is None:
        raise InvalidInput("A guard needs a limit.", "Add --max-idle, --max-cost or --until.")
    from msgspec import structs

    with open_session() as session:
        ref, typed = _confirmed(session, name, confirmed)
        guard = structs.replace(guard, confirm_name=typed)
        note("Checking whether the TPU has the permission.")
        status = session.call(session.fleet.guards.set(ref, guard))
    _print(name, status, as_json)


@guard.command("describe", epilog=examples("jupyter tpu guard describe my-tpu"))
@tpu_argument()
@json_option
def describe(name: str, as_json: bool) -> None:
    """Show the guard of a TPU, what it waits for, and when it acts."""
    with open_session() as session:
        status = session.call(session.fleet.guards.get(name))
    _print(name, status, as_json)


@guard.command("keep", epilog=examples("jupyter tpu guard keep my-tpu --for 3h"))
@tpu_argument()
@options_of("KeepTPU", "seconds")
@confirm_name_option
@json_option
def keep(name: str, fields: dict[str, Any], confirmed: tuple[str, ...], as_json: bool) -> None:
    """Keep a TPU running for some time, even if it reaches a limit."""
    from ..fleet.models import KeepTPU

    with open_session() as session:
        ref, typed = _confirmed(session, name, confirmed)
        request = KeepTPU(confirm_name=typed, **fields)
        status = session.call(session.fleet.guards.keep(ref, request))
    _print(name, status, as_json)


@guard.command("remove", epilog=examples("jupyter tpu guard remove my-tpu"))
@tpu_argument()
@confirm_name_option
def remove(name: str, confirmed: tuple[str, ...]) -> None:
    """Remove the guard: the TPU runs, and is billed, until you stop or delete it."""
    from ..fleet.models import RemoveGuard

    with open_session() as session:
        ref, typed = _confirmed(session, name, confirmed)
        session.call(session.fleet.guards.remove(ref, RemoveGuard(confirm_name=typed)))
    print(f"{name} has no guard now. It runs until you stop or delete it.")


def _confirmed(session: Session, name: str, confirmed: tuple[str, ...]) -> tuple[str, str]:
    """What names exactly this TPU, and its name if that was confirmed, else ""."""
    tpu = session.call(session.fleet.tpu(name))
    names = confirmed_names([tpu], confirmed)
    return tpu_ref(tpu), tpu.name if tpu.name in names else ""


def _print(name: str, guard: Guard, as_json: bool) -> None:
    if as_json:
        print_json(guard)
    else:
        print(guard_text(name, guard))
