"""``jupyter tpu guard`` and ``%tpu guard``: the options of a guard, and its state in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, note, print_result
from ..terminal.questions import confirm_name_option, confirmed_names
from ..terminal.session import FleetSession, fleet_call, open_session, tpu_ref
from ..terminal.times import local_time
from ..wording import phrase
from .losses import session_hint

if TYPE_CHECKING:
    from ..fleet.models import Guard, SetGuard


def guard_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options, which *function* gets as `guard` (SetGuard, or None without any)."""

    @wraps(function)
    def with_guard(*args: Any, guard: dict[str, Any], **others: Any) -> Any:
        return function(*args, guard=_guard(guard), **others)

    return options_of("SetGuard", "idle", "max_cost", "until", "action", into="guard")(with_guard)


def _guard(fields: dict[str, Any]) -> SetGuard | None:
    from ..fleet.models import SetGuard

    if fields.keys() & {"idle", "max_cost", "until"}:
        return SetGuard(**fields)
    if "action" in fields:
        raise InvalidInput("--then-delete needs a limit.", "Add --max-idle, --max-cost or --until.")
    return None


def countdown(guard: Guard) -> str:
    """What happens next, and when: "stops at 2026-11-23 02:10:00 (it is idle)"."""
    stops = guard.action == "stop"
    if guard.phase == "ending":
        return phrase("stops now" if stops else "is deleted now")
    if guard.ends:
        time = local_time(guard.ends)
        act = phrase(f"stops at {time}" if stops else f"is deleted at {time}")
        reasons = {
            "idle": phrase("it is idle"),
            "time": phrase("its time limit is reached"),
            "cost": phrase("its cost limit is reached"),
        }
        return f"{act} ({reasons[guard.reason]})"
    if guard.busy:
        return phrase(f"busy with {', '.join(guard.busy)}")
    if guard.busy is None:
        return phrase("no report from the host yet")
    return phrase("no limit is near")


def guard_text(name: str, guard: Guard) -> str:
    """Its limits and its state, and what to do about a problem."""
    lines = [*_limits(name, guard), f"State: {countdown(guard)}."]
    if guard.problem is not None:
        why = f"{guard.problem.message} {guard.problem.hint}".rstrip()
        lines += [
            f"The TPU can't stop or delete itself. {why}",
            "A Jupyter server does it instead, while it runs and is connected to this TPU.",
        ]
    if guard.google_deletes:
        lines.append(
            f"Google deletes it at {local_time(guard.google_deletes)}, even if the guard does not "
            "run."
        )
    if guard.google_problem is not None:
        lines.append(f"{guard.google_problem.message} {guard.google_problem.hint}".rstrip())
    if guard.no_restart:
        lines.append(
            "After a restart of the host, the guard starts when a Jupyter server or a command "
            f"connects to it: {guard.no_restart}"
        )
    return "\n".join(lines)


def _limits(name: str, guard: Guard) -> Iterator[str]:
    stops = guard.action == "stop"
    if guard.idle is not None:
        idle = _duration(guard.idle)
        yield (
            f"{name} stops after {idle} without work."
            if stops
            else f"{name} is deleted after {idle} without work."
        )
    if guard.max_cost is not None:
        cost = f"${guard.max_cost:.2f}"
        yield (
            f"{name} stops when it has cost {cost}."
            if stops
            else f"{name} is deleted when it has cost {cost}."
        )
    if guard.until:
        time = local_time(guard.until)
        yield f"{name} stops at {time}." if stops else f"{name} is deleted at {time}."


def _duration(length: float) -> str:
    hours, minutes = divmod(round(length / 60), 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min")) if n)


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
        kept = session.call(session.fleet.tpu(ref)).sessions is not None
    _print(name, status, as_json)
    if not kept and not as_json:
        print(session_hint(name))


@guard.command("describe", epilog=examples("jupyter tpu guard describe my-tpu"))
@tpu_argument()
@json_option
def describe(name: str, as_json: bool) -> None:
    """Show the guard of a TPU, what it waits for, and when it acts."""
    status = fleet_call(lambda fleet: fleet.guards.get(name))
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


def _confirmed(session: FleetSession, name: str, confirmed: tuple[str, ...]) -> tuple[str, str]:
    """What names exactly this TPU, and its name if that was confirmed, else ""."""
    tpu = session.call(session.fleet.tpu(name))
    names = confirmed_names([tpu], confirmed)
    return tpu_ref(tpu), tpu.name if tpu.name in names else ""


def _print(name: str, guard: Guard, as_json: bool) -> None:
    print_result(guard, guard_text(name, guard), as_json)
