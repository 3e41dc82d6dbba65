"""A host of a project sync without SSH: its program runs here, under another home folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import ConnectionLost
from jupyter_tpu.links import HostName
from jupyter_tpu.ssh.login_shell import marked_line


class _Stream:
    """As `ssh.stream.CommandStream`; after *limit* more bytes the line breaks."""

    errors = ""

    def __init__(self, process: asyncio.subprocess.Process, limit: int | None) -> None:
        self._process = process
        self._left = limit

    async def read(self) -> bytes:
        return await self._process.stdout.read(1 << 18)

    async def read_line(self) -> bytes:
        return await self._process.stdout.readline()

    async def write(self, data: bytes) -> bool:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._process.stdin.close()
                raise ConnectionLost("my-tpu")
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True


class ProjectHost:
    """A host whose home is *home*. *breaks_after*: bytes to it after which its line breaks."""

    def __init__(self, home: Path, worker: int = 0) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.host: Any = HostName(NodeName("p", "z", "my-tpu"), worker)
        self.host_id = str(home)
        self.node_id = "1"
        self.problem = None
        self.conversations = 0
        self.breaks_after: int | None = None
        self.pod: list[ProjectHost] = []

    def others(self) -> list[ProjectHost]:
        return [host for host in self.pod if host is not self]

    async def authorize_pod(self) -> None:
        pass

    def pod_command(self, argv: Sequence[str]) -> list[str]:
        """The login shell writes something first."""
        line = marked_line("exec " + shlex.join(argv))
        return ["env", f"HOME={self.home}", "sh", "-c", f"echo Welcome; {line}"]

    @contextlib.asynccontextmanager
    async def stream_bulk(self, argv: Sequence[str]) -> AsyncIterator[Any]:
        self.conversations += 1
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(self.home)},
        )
        try:
            yield _Stream(process, self.breaks_after)
        finally:
            await process.communicate(b"")  # closes its input, and reads its output to the end
