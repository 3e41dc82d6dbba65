"""Times as the models carry them: RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def timestamp(
    precision: Literal["milliseconds", "seconds"] = "milliseconds", at: float | None = None
) -> str:
    """The time now, or *at* so many seconds since the epoch."""
    time = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    return time.isoformat(timespec=precision).replace("+00:00", "Z")
