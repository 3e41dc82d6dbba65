"""``jupyter tpu mcp``: tools for agents, on stdin and stdout; ``skill``: how they use commands."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from ..agent_token import AGENT_VARIABLE
from ..commands.grammar import command, examples
from ..commands.terminal import verbatim


@command("mcp", epilog=examples("jupyter tpu mcp", "jupyter tpu mcp --config"))
@click.option(
    "--config", is_flag=True, help="Print what an agent's list of MCP servers needs, and exit."
)
def mcp(config: bool) -> None:
    """Offer tools for TPUs to a coding agent, by the Model Context Protocol.

    On standard input and output. Needs a running Jupyter server with jupyter-tpu, which keeps the
    agents' budget (see `budget`), and `pip install 'jupyter-tpu[mcp]'`.
    """
    if config:
        words = [sys.executable, "-m", "jupyter_tpu.cli", "mcp"]
        server = {"command": words[0], "args": words[1:]}
        print(json.dumps({"mcpServers": {"jupyter-tpu": server}}, indent=2))
        return
    from .server import server as make

    os.environ[AGENT_VARIABLE] = "1"
    make().run("stdio")


@command("skill", epilog=examples("jupyter tpu skill > .claude/skills/jupyter-tpu/SKILL.md"))
def skill() -> None:
    """Print a SKILL.md: how a coding agent uses TPUs with this command line."""
    print(verbatim(Path(__file__).with_name("SKILL.md").read_text(encoding="utf-8")), end="")
