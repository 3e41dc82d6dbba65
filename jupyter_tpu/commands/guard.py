"""The guard of a TPU in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidInput
from .hunts import local_time

if TYPE_CHECKING:
    from ..fleet.models import Guard

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_REASONS = {"idle": "it is idle", "time": "its time is over", "cost": "it has cost its limit"}
_ACTS = {"stop": "stops", "delete": "is deleted"}


def seconds(text: str) -> float:
    """Of a duration such as 90m, 2h or 1d."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and 0 < len(number) < 6:
        return int(number) * _UNITS[unit]
    raise InvalidInput(f"{text!r} is not a duration.", "Write 90m, 2h or 1d.")


def countdown(guard: Guard) -> str:
    """What happens next, and when: "Stops at 2026-11-23 02:10:00 because it is idle"."""
    act = _ACTS[guard.action]
    if guard.phase == "ending":
        return f"{act} now"
    if guard.ends:
        return f"{act} at {local_time(guard.ends)} because {_REASONS[guard.reason]}"
    if guard.busy:
        return f"busy with {', '.join(guard.busy)}"
    return "has not looked yet" if guard.busy is None else "waits"


def guard_text(name: str, guard: Guard) -> str:
    """All that is known of it, with what is to be done."""
    limits = ", ".join(_limits(guard))
    lines = [f"{name} {_ACTS[guard.action]} {limits}.", f"Now: {countdown(guard)}."]
    if guard.problem is not None:
        lines += [
            f"The TPU can't do it by itself. {guard.problem.message} {guard.problem.hint}".rstrip(),
            "A Jupyter server does it, while one runs and is connected to this TPU.",
        ]
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
