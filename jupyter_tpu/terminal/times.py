"""Times and durations as a person types and reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ..errors import InvalidInput

if TYPE_CHECKING:
    from ..fleet.models import TPU

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}


def deadline(text: str) -> str:
    """An RFC 3339 time, from such a time or from a duration such as 90m, 8h or 2d."""
    length = _seconds(text)
    try:
        time = (
            datetime.fromisoformat(text)
            if length is None
            else datetime.now(UTC) + timedelta(seconds=length)
        )
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not a duration or a time.", "Write 90m, 8h, 2d or 2026-07-01T08:00."
        ) from None
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def seconds(text: str) -> float:
    """The seconds of a duration such as 90m, 2h or 1d."""
    length = _seconds(text)
    if length is None:
        raise InvalidInput(f"{text!r} is not a duration.", "Write 90m, 2h or 1d.")
    return length


def limit(text: str) -> float:
    """Seconds: a number of them, or a duration such as 90m or 2h."""
    try:
        length = float(text)
    except ValueError:
        return seconds(text)
    if not 0 < length < 1e9:
        raise InvalidInput(f"{text!r} is not a time limit.", "Write seconds, or 90m, 2h or 1d.")
    return length


def duration(length: float) -> str:
    """The shortest text that `seconds` reads as so many, in whole minutes."""
    unit = next(unit for unit in "dhm" if length % _UNITS[unit] == 0 or unit == "m")
    return f"{length / _UNITS[unit]:.0f}{unit}"


def _seconds(text: str) -> float | None:
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and len(number) < 6:
        return int(number) * _UNITS[unit]
    return None


def local_time(time: str) -> str:
    """An RFC 3339 time as the clock here shows it."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def age(time: str) -> str:
    """How long ago *time* is, as kubectl says it: "12m", "3h5m", "4d"; "" if that is not known."""
    try:
        started = datetime.fromisoformat(time)
    except ValueError:
        return ""
    minutes = max(0, int((datetime.now(UTC) - started).total_seconds() // 60))
    hours, days = minutes // 60, minutes // 1440
    if days >= 2:
        return f"{days}d"
    return f"{hours}h{minutes % 60}m" if hours else f"{minutes}m"


def run_text(tpu: TPU) -> str:
    """ "4 h, until about 2026-11-23 02:10:00; then Google deletes it"; "" if not flex-start."""
    if tpu.run_for is None:
        return ""
    until = f", until about {local_time(tpu.run_ends)}" if tpu.run_ends else ""
    return f"{run_length(tpu.run_for)}{until}; then Google deletes it"


def run_length(run_for: float | None) -> str:
    """ "4 h", "90 min"; "" for None."""
    if run_for is None:
        return ""
    return f"{run_for / 3600:g} h" if run_for % 3600 == 0 else f"{run_for / 60:g} min"
