"""What became of a copy, host by host."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...problem import Problem


class FileProblem(Struct, kw_only=True):
    """A file that was not copied, and why."""

    path: str
    message: str


class HostCopy(Struct, kw_only=True):
    """What was copied to one host, or from it."""

    host: int
    state: Literal["done", "failed"] = "done"
    #: What was sent now.
    files: int = 0
    bytes: int = 0
    #: How many files were there already, with the same size and time.
    unchanged: int = 0
    #: Where the files and folders that were named are now.
    targets: list[str] = []
    #: The first 100 files that were not copied, and how many there are.
    problems: list[FileProblem] = []
    problem_count: int = 0
    #: Why nothing more was copied.
    problem: Problem | None = None
