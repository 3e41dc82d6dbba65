"""The guard of a TPU: its options, and its state in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from .field_options import options_of
from .times import local_time

if TYPE_CHECKING:
    from ..fleet.models import Guard, SetGuard

_REASONS = {
    "idle": "it is idle",
    "time": "its time limit is reached",
    "cost": "its cost limit is reached",
}
_ACTS = {"stop": "stops", "delete": "is deleted"}


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
    """What happens next, and when: "Stops at 2026-11-23 02:10:00 because it is idle"."""
    act = _ACTS[guard.action]
    if guard.phase == "ending":
        return f"{act} now"
    if guard.ends:
        return f"{act} at {local_time(guard.ends)} because {_REASONS[guard.reason]}"
    if guard.busy:
        return f"busy with {', '.join(guard.busy)}"
    return "no report from the host yet" if guard.busy is None else "no limit is near"


def guard_text(name: str, guard: Guard) -> str:
    """Its limits and its state, and what to do about a problem."""
    limits = ", or ".join(_limits(guard))
    lines = [f"{name} {_ACTS[guard.action]} {limits}.", f"Now: {countdown(guard)}."]
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


def _limits(guard: Guard) -> list[str]:
    limits = []
    if guard.idle is not None:
        limits.append(f"after {_duration(guard.idle)} without work")
    if guard.max_cost is not None:
        limits.append(f"when it has cost ${guard.max_cost:.2f}")
    if guard.until:
        limits.append(f"at {local_time(guard.until)}")
    return limits


def _duration(length: float) -> str:
    hours, minutes = divmod(round(length / 60), 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min")) if n)
