"""How often to ask whether something that takes long has ended: quick first, then slower."""

from __future__ import annotations

from collections.abc import Iterator


def poll_intervals(
    first: float = 0.2, factor: float = 1.4, longest: float = 5.0
) -> Iterator[float]:
    """Seconds to wait before each poll."""
    pause = first
    while True:
        yield pause
        pause = min(longest, pause * factor)
