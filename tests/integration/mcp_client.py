"""A coding agent: `jupyter tpu mcp`, used by the MCP SDK's own client."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from cli_shell import Shell
from waiting import eventually

from jupyter_tpu.mcp.results import UNTRUSTED


class Agent:
    """The SDK's client; keeps a transcript."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.transcript: list[str] = []
        self.succeeded: set[str] = set()

    async def list(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self._client.list_tools()).tools}

    async def try_call(self, tool: str, /, **arguments: Any) -> tuple[bool, Any]:
        """Whether it succeeded, and what it answered."""
        answer = await self._client.call_tool(tool, arguments)
        text = answer.content[0].text
        self.transcript.append(f"> {tool} {json.dumps(arguments)}\n{text[:600]}")
        if not answer.is_error:
            self.succeeded.add(tool)
        try:
            return not answer.is_error, json.loads(text[text.index("{") :])
        except ValueError:
            return not answer.is_error, text

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        succeeded, answer = await self.try_call(tool, **arguments)
        assert succeeded, answer
        return answer

    async def done(self, operation: str) -> Any:
        async def ended() -> Any:
            now = await self.call("tpu_operation", id=operation)
            return now if now["state"] != "running" else None

        return await eventually(ended, 240)

    async def cell(self, name: str, code: str) -> Any:
        """A cell that has ended, with all of its lines."""
        id = (await self.call("tpu_execute", name=name, code=code))["cell"]
        return await self.read(id)

    async def read(self, id: str) -> Any:
        line, lines = 0, []
        while True:
            answer = await self.call("tpu_output", cell=id, line=line, wait=10)
            assert answer["note"] == UNTRUSTED
            lines += answer["untrusted_output"].splitlines()
            line = answer["next"]
            if answer["state"] != "running" and not answer["untrusted_output"]:
                return {**answer, "lines": lines}


@contextlib.asynccontextmanager
async def agent(shell: Shell) -> AsyncIterator[Agent]:
    from mcp import Client, StdioServerParameters, stdio_client

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "jupyter_tpu.cli", "mcp"],
        env=shell.environment,
        cwd=str(shell.folder),
    )
    with (shell.folder / "mcp.log").open("a") as log:
        async with Client(stdio_client(command, errlog=log)) as client:
            yield Agent(client)
