"""Times as the models carry them: RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Literal

from ...errors import InvalidInput


def timestamp(
    precision: Literal["milliseconds", "seconds"] = "milliseconds", at: float | None = None
) -> str:
    """The time now, or *at* so many seconds since the epoch."""
    time = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    return time.isoformat(timespec=precision).replace("+00:00", "Z")


def future_seconds(text: str, field: str, now: float, zone: tzinfo | None = None) -> float:
    """As `seconds_of`; raises INVALID for a time that has passed, too."""
    seconds = seconds_of(text, field, zone)
    if seconds <= now:
        raise InvalidInput(f"The time {text} has passed.", "Choose a later time.", field=field)
    return seconds


def seconds_of(text: str, field: str, zone: tzinfo | None = None) -> float:
    """The time *text* of a request's *field*, in seconds since the epoch.

    zone: that of a text without one; None: it needs one. Raises INVALID for what is not a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"The field {field} is not a time: {text!r}.",
            "Write it like 2026-07-01T08:00:00Z.",
            field=field,
        ) from None
    if time.tzinfo is None:
        if zone is None:
            raise InvalidInput(
                f"The field {field} has no time zone: {text}.",
                "Add Z for UTC, for example.",
                field=field,
            )
        time = time.replace(tzinfo=zone)
    return time.timestamp()
