"""A network in words: what is right, what has to be changed, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..fleet.models import NetworkSetup


def setup_text(setup: NetworkSetup) -> str:
    """A line for each thing, and a last one for all."""
    marks = (
        ("ok", setup.found),
        ("WARNING", setup.warnings),
        ("to do" if setup.dry_run else "done", setup.changes),
        ("PROBLEM", setup.blocked),
    )
    lines = [f"{mark:7}  {text}" for mark, texts in marks for text in texts]
    return "\n".join([*lines, "", _summary(setup)])


def _summary(setup: NetworkSetup) -> str:
    kind = "emulated network" if setup.emulated else "network"
    network = f"The {kind} {setup.network} of the project {setup.project}"
    if setup.blocked:
        return f"{network} is not set up. A rule that jupyter-tpu did not create conflicts with it."
    if setup.changes and setup.dry_run:
        return f"{network} is not set up."
    return f"{network} is set up."
