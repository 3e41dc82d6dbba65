"""``jupyter tpu skill``: what a coding agent should know, as a SKILL.md."""

from __future__ import annotations

from pathlib import Path

from ..terminal.grammar import command, examples
from ..terminal.streams import verbatim

FILE = Path(__file__).parents[1] / "mcp" / "SKILL.md"


@command("skill", epilog=examples("jupyter tpu skill > .claude/skills/jupyter-tpu/SKILL.md"))
def skill() -> None:
    """Print a SKILL.md: how a coding agent uses TPUs with this command line."""
    print(verbatim(FILE.read_text(encoding="utf-8")), end="")
