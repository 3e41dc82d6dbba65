"""Times as the models carry them: RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def timestamp(precision: Literal["milliseconds", "seconds"] = "milliseconds") -> str:
    """The time now."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
