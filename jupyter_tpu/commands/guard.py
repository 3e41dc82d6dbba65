"""The guard of a TPU: its options, and its state in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from .grammar import parameters
from .times import deadline, local_time, seconds

if TYPE_CHECKING:
    from ..fleet.models import Guard, SetGuard

_REASONS = {
    "idle": "it is idle",
    "time": "its time limit is reached",
    "cost": "its cost limit is reached",
}
_ACTS = {"stop": "stops", "delete": "is deleted"}

_options = parameters(
    click.option(
        "--max-idle",
        metavar="TIME",
        help="Stop it after this time, such as 2h, without a running cell, job, terminal or "
        "program.",
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Stop it when its cost since creation reaches about this amount.",
    ),
    click.option(
        "--until", metavar="TIME", help="Stop it at this time, or after a time such as 8h."
    ),
    click.option(
        "--then-delete",
        is_flag=True,
        help="Delete it with its disk instead of stopping it.",
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

    return _options(with_guard)


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
    if guard.no_restart:
        lines.append(
            "After a restart of the host, the guard starts when a Jupyter server or a command "
            f"connects to it: {guard.no_restart}"
        )
    return "\n".join(lines)


def _limits(guard: Guard) -> list[str]:
    found = []
    if guard.idle is not None:
        found.append(f"after {_duration(guard.idle)} without work")
    if guard.max_cost is not None:
        found.append(f"when it has cost ${guard.max_cost:.2f}")
    if guard.until:
        found.append(f"at {local_time(guard.until)}")
    return found


def _duration(length: float) -> str:
    hours, minutes = divmod(round(length / 60), 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min")) if n)
