"""How the making of an environment is told to whoever started it."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct


class StepPlan(Struct, frozen=True):
    """A step before it runs: *weight* is its usual share of the time, in any unit."""

    key: str
    title: str
    weight: float


class ProgressReporter(Protocol):
    """Told on the core thread's loop, never from two hosts at once."""

    def begin(self, key: str) -> None:
        """A step begins, on all hosts."""

    def part(self, key: str, part: float) -> None:
        """A step is so far, 0 to 1."""

    def host_done(self, key: str) -> None:
        """One more host is through with it."""

    def done(self, key: str, state: Literal["done", "skipped"] = "done") -> None:
        """All hosts are."""

    def log(self, line: str) -> None:
        """A line for people."""
