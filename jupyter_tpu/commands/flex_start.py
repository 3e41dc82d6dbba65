"""Flex-start on the command line: for how long a TPU runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .times import local_time

if TYPE_CHECKING:
    from ..fleet.models import TPU


def run_text(tpu: TPU) -> str:
    """ "4 h, until about 2026-11-23 02:10:00; then Google deletes it"; "" for any other."""
    if tpu.run_for is None:
        return ""
    until = f", until about {local_time(tpu.run_ends)}" if tpu.run_ends else ""
    return f"{run_length(tpu.run_for)}{until}; then Google deletes it"


def run_length(run_for: float | None) -> str:
    """ "4 h", "90 min"; "" for None."""
    if run_for is None:
        return ""
    return f"{run_for / 3600:g} h" if run_for % 3600 == 0 else f"{run_for / 60:g} min"
