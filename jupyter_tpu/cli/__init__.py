"""A face: ``jupyter tpu``. Each command is in a file that is imported when the command is used."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command (default: the process's); returns the exit code.

    0: done. 1: it failed, and one line on stderr says why. 2: the command line is wrong.
    """
    from .root import run

    return run(argv)
