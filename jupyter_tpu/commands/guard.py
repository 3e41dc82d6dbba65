"""The guard of a TPU: its options, and its state in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..wording import phrase
from .field_options import options_of
from .times import local_time

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
