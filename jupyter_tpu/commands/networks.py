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
    where = f"{setup.network} ({setup.project}{', emulated' if setup.emulated else ''})"
    return "\n".join([*lines, "", f"{where}: {_summary(setup)}"])


def _summary(setup: NetworkSetup) -> str:
    if setup.blocked:
        return "a rule that jupyter-tpu did not create is in the way."
    if setup.changes and setup.dry_run:
        return "it is not set up."
    return "it is set up."
