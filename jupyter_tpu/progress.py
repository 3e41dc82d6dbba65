"""How work that takes a while says its steps, and how far it is."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct


class StepPlan(Struct, frozen=True):
    """A step before it runs.

    weight: its usual share of the time, in any unit. all_hosts: it runs on each host.
    """

    key: str
    title: str
    weight: float
    all_hosts: bool = True


class ProgressReporter(Protocol):
    """Called on the core thread's loop, never for two hosts at once."""

    def begin(self, key: str) -> None:
        """A step begins, on all hosts."""

    def part(self, key: str, part: float) -> None:
        """The finished part of a step, 0 to 1."""

    def host_done(self, key: str) -> None:
        """One more host has finished the step."""

    def done(self, key: str, state: Literal["done", "skipped", "failed"] = "done") -> None:
        """All hosts have finished the step; "failed": the environment can be used without it."""

    def log(self, line: str) -> None:
        """A line for people."""
