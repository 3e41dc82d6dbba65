"""A host without SSH: this machine under another home folder, over a line that can be cut.

What links and sshd do for real is done here by processes and unix sockets, so that agent, keeper,
journal and relay are tried by themselves, and breaks come exactly where a test wants them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from project_host import ProjectHost
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import ConnectionLost, Reason, TPUError
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.ssh import CompletedCommand
from jupyter_tpu.ssh.agent_client import DaemonClient, ensure_agent

#: Where provisioners made by jupyter_client find their host.
hosts: dict[str, LocalHost] = {}


def umask_of(pid: int | str) -> str:
    """The umask of a process here."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line for line in status.splitlines() if line.startswith("Umask:"))


def fill_disk(path: Path) -> None:
    """Makes the file *path* as large as its disk allows."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


class LocalHost:
    """Behaves like a link (`hold`, `release`, `agent`) to a host whose home is *home*.

    `cut()` breaks all streams and lets none through until `mend()`; `cut_after(n)` does so once n
    more bytes have come from the host, in the middle of whatever is under way. `stall()` lets
    nothing come from the host any more, and breaks nothing.

    It lives on the loop that it was made on; `loop_call` reaches it from other threads.
    """

    def __init__(self, home: Path, environment: dict[str, str] | None = None) -> None:
        self.home = home
        # An idle agent ends soon, but not before a busy machine has connected to it.
        idle = {"JUPYTER_TPU_AGENT_IDLE": "5"}
        self.environment = {**os.environ, "HOME": str(home), **idle, **(environment or {})}
        # Without cached bytecode every kernel would take a second longer to start.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.holds = 0
        self.host_id = str(home)
        self.host = HostName(NodeName("p", "z", home.name), 0)
        self.node_id = home.name
        self.commands = 0
        self.uploaded = 0  # bytes of standard input
        self.downloaded = 0  # bytes over streams
        self._client: DaemonClient | None = None
        self._broken = False
        self._lock = asyncio.Lock()
        self._connected = asyncio.Event()
        self._connected.set()
        self._remaining: int | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._loop = asyncio.get_running_loop()
        self._pipes: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def acquire(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1

    def others(self) -> list[LocalHost]:
        return []

    async def agent(self) -> DaemonClient:
        await asyncio.wait_for(self._connected.wait(), 60)
        async with self._lock:
            if self._client is not None and self._broken:
                await self._client.close()  # it may not have noticed yet
            self._broken = False
            if self._client is None or self._client.closed:
                self._client = await ensure_agent(self.run, self.open_unix)
            return self._client

    @property
    def problem(self) -> TPUError | None:
        return TPUError("The line is cut.", Reason.UNREACHABLE) if self.is_cut else None

    @contextlib.asynccontextmanager
    async def stream_bulk(self, argv: Sequence[str]) -> AsyncIterator[Any]:
        if self.is_cut:
            raise ConnectionLost(self.host_id)
        async with ProjectHost(self.home).stream_bulk(argv) as stream:
            yield stream

    async def run(self, argv, *, input=b"", timeout=60.0, check=True, on_line=None):
        self.commands += 1
        self.uploaded += len(input) + sum(map(len, argv))
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=-1, stdout=-1, stderr=-1, env=self.environment, cwd=self.home
        )
        out, err = await asyncio.wait_for(process.communicate(input), timeout)
        for line in out.decode().splitlines() if on_line else ():
            on_line(line)
        return CompletedCommand(
            returncode=process.returncode, stdout=out.decode(), stderr=err.decode()
        )

    async def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        raise AssertionError("the agent needs no file transfer")

    async def open_unix(self, path: str):
        if not self._connected.is_set():
            raise TPUError("The line is cut.", Reason.UNREACHABLE)
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(path)
        except OSError as error:
            raise TPUError(f"Nothing listens at {path}.", Reason.NOT_FOUND) from error
        # A listener of our own in between, so that both ends are real streams.
        accepted: asyncio.Future = asyncio.get_running_loop().create_future()

        def connected(reader, writer):
            accepted.set_result((reader, writer))

        middle = self.home / f"line-{id(accepted)}.sock"
        server = await asyncio.start_unix_server(connected, middle)
        near = await asyncio.open_unix_connection(middle)
        reader, writer = await accepted
        server.close()
        middle.unlink(missing_ok=True)  # Python 3.13 removes it
        self._pipes |= {far_writer, writer}
        self._spawn(self._carry(reader, far_writer, False))
        self._spawn(self._carry(far_reader, writer, True))
        return near

    def _spawn(self, coroutine) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader, writer, from_host: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if from_host:
                    await self._flowing.wait()
                    self.downloaded += len(data)
                    if self._remaining is not None:
                        data, rest = data[: self._remaining], len(data) - self._remaining
                        self._remaining -= len(data)
                        if rest >= 0:
                            writer.write(data)
                            self._remaining = None
                            self.cut()
                            return
                writer.write(data)
                await writer.drain()
        writer.close()
        self._pipes.discard(writer)

    def cut(self) -> None:
        self._broken = True
        self._connected.clear()
        for writer in self._pipes:
            writer.transport.abort()
        self._pipes.clear()

    def cut_after(self, count: int) -> None:
        self._remaining = count

    def stall(self) -> None:
        self._flowing.clear()

    def mend(self) -> None:
        self._remaining = None
        self._connected.set()
        self._flowing.set()

    @property
    def is_cut(self) -> bool:
        return not self._connected.is_set()

    def loop_call(self, what: Callable[..., None], *arguments: Any) -> None:
        """Calls *what* over there and waits until that is done."""

        async def call() -> None:
            what(*arguments)

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def processes(self) -> list[str]:
        """The command lines of what runs from this home: the agent's and its kernels'."""
        mine = f"HOME={self.home}".encode()
        lines = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                process = Path("/proc", pid)
                if mine in (process / "environ").read_bytes().split(b"\0"):
                    lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return [line for line in lines if line]

    def processes_besides_the_agent(self) -> list[str]:
        """Those but for its daemon and what that starts programs with."""
        ends = ("daemon", "forker")
        return [line for line in self.processes() if not line.rstrip().endswith(ends)]


class LocalTPUProvisioner(TPUProvisioner):
    """The provisioner, but with a host from `hosts`."""

    def host(self):
        return hosts[self.tpu]


@contextlib.asynccontextmanager
async def host_of_its_own(environment: dict[str, str] | None = None) -> AsyncIterator[LocalHost]:
    """Below /tmp itself: the paths of sockets must be short. Nothing is left after the block."""
    home = Path(tempfile.mkdtemp(prefix="h-"))
    host = LocalHost(home, environment)
    yield host
    host.mend()
    await eventually(lambda: _cleared(host))
    await host.close()
    await eventually(lambda: not host.processes())
    shutil.rmtree(home)


async def _cleared(host: LocalHost) -> bool:
    """Not by a connection that a test has broken, which may not have noticed yet."""
    with contextlib.suppress(TPUError):
        await (await host.agent()).request(requests.PrepareDeleteRequest())
        return True
    return False
