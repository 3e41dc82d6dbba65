"""Flex-start on the command line: for how long a TPU runs."""

from __future__ import annotations

import click

from .hunts import seconds

#: Its value is a duration: see `run_seconds`.
run_for_option = click.option(
    "--run-for",
    "--max-run-duration",
    "run_for",
    metavar="TIME",
    help="Of flex-start, which needs it: Google deletes the TPU after 90m, 4h or 2d; at most 7d.",
)


def run_seconds(run_for: str | None) -> float | None:
    """Raises INVALID for what is not a duration."""
    return seconds(run_for) if run_for else None


def run_text(run_for: float | None) -> str:
    """ "4 h, then Google deletes it"; "" for a TPU that has no such end."""
    if run_for is None:
        return ""
    length = f"{run_for / 3600:g} h" if run_for >= 3600 else f"{run_for / 60:g} min"
    return f"{length}, then Google deletes it"
