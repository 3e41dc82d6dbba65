"""``jupyter tpu mcp``: the tools on standard input and output."""

from __future__ import annotations

import json
import os

import click

from ..agent_token import AGENT_VARIABLE
from ..python_command import module_command
from ..terminal.grammar import command, examples


@command("mcp", epilog=examples("jupyter tpu mcp", "jupyter tpu mcp --config"))
@click.option(
    "--config",
    is_flag=True,
    help="Print what a coding agent's list of MCP servers needs, and exit.",
)
def mcp(config: bool) -> None:
    """Offer tools for TPUs to a coding agent, by the Model Context Protocol.

    On standard input and output. Needs a running Jupyter server with jupyter-tpu, which keeps the
    agents' budget (see `budget`), and `pip install 'jupyter-tpu[mcp]'`.
    """
    if config:
        program, *arguments = module_command("jupyter_tpu.cli", "mcp")
        server = {"command": program, "args": arguments}
        print(json.dumps({"mcpServers": {"jupyter-tpu": server}}, indent=2))
        return
    from .server import server as make

    os.environ[AGENT_VARIABLE] = "1"
    make().run("stdio")
