"""A face: ``jupyter tpu``. Each command lives in a file of its own, imported when it is used."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code, 0 or 1. What went wrong is one line on stderr."""
    from .arguments import run

    return run(argv)
