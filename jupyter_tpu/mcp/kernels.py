"""Kernels on TPUs that an agent executes code in. They belong to this process, and end with it.

A cell is sent, and its output is kept by lines; whoever has its id reads on from a line. So no call
waits for a cell. A lost link or a killed Jupyter server ends neither kernel nor cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..agent_token import AGENT_VARIABLE, permitted_kernelspecs
from ..concurrency import cancel_all
from ..errors import Reason, TPUError

#: Seconds for a kernel to answer after its start.
READY_SECONDS = 120.0
#: Lines of a cell that are kept, and cells.
KEPT_LINES = 20_000
KEPT_CELLS = 100
_LONGEST_LINE_CHARACTERS = 4000


class Cell:
    """Code that was sent to a kernel. Lines are numbered from 0."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.state = "running"
        self.raised = False
        self.first = 0  # the number of the first line that is kept
        self.lines: list[str] = []
        self._open = False  # the last line has no end yet
        self.news = asyncio.Event()

    def add(self, text: str) -> None:
        if not text:
            return
        parts = text.split("\n")
        if self._open:
            self.lines[-1] = _after_returns(self.lines[-1] + parts.pop(0))
        self.lines += map(_after_returns, parts)
        self._open = bool(self.lines[-1])
        if not self._open:
            self.lines.pop()
        excess = max(0, len(self.lines) - KEPT_LINES)
        del self.lines[:excess]
        self.first += excess
        self.news.set()

    def end(self, state: str) -> None:
        self.state = state
        self.news.set()


def _after_returns(line: str) -> str:
    """What a terminal shows of a line with carriage returns: a progress bar's last state."""
    return line.rstrip("\r").rpartition("\r")[2][:_LONGEST_LINE_CHARACTERS]


class AgentKernels:
    """On the core's thread. A kernel is known by its TPU (zone~name) and environment."""

    def __init__(self) -> None:
        self._kernels: dict[str, tuple[Any, Any, asyncio.Task[None]]] = {}
        self._starting = asyncio.Lock()
        self._compiler = asyncio.Lock()  # each may take gigabytes
        self._compiling: set[asyncio.Task[None]] = set()
        self.cells: OrderedDict[str, Cell] = OrderedDict()

    async def execute(self, ref: str, kernelspec: str, code: str) -> str:
        """Sends code, and returns the cell's id; starts the kernel if there is none."""
        async with self._starting:
            manager, client = await self._kernel(ref, kernelspec)
        del manager
        id = str(client.execute(code, allow_stdin=False, stop_on_error=False))
        self.cells[id] = Cell(ref)
        while len(self.cells) > KEPT_CELLS:
            self.cells.popitem(last=False)
        return id

    async def read(self, id: str, start: int, wait: float) -> Cell:
        """The cell, as soon as it has line *start*, or has ended, or after *wait* seconds."""
        cell = self.cells.get(id)
        if cell is None:
            raise TPUError(f"The cell {id} is not known.", Reason.NOT_FOUND, "Execute it again.")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while cell.state == "running" and cell.first + len(cell.lines) <= start:
                    cell.news.clear()
                    await cell.news.wait()
        return cell

    async def compile(self, work: Callable[[], Awaitable[msgspec.Struct]]) -> str:
        """Compiles on this computer, one program after the other; the result is a cell's output."""
        id = f"compile-{secrets.token_hex(4)}"
        cell = self.cells[id] = Cell("")
        task = asyncio.create_task(self._compile(work, cell))
        self._compiling.add(task)
        task.add_done_callback(self._compiling.discard)
        return id

    async def _compile(self, work: Callable[[], Awaitable[msgspec.Struct]], cell: Cell) -> None:
        try:
            async with self._compiler:
                outcome = await work()
        except TPUError as error:
            cell.add(f"{error}\n")
            cell.end("failed")
        except Exception as error:
            cell.add(f"{type(error).__name__}: {error}\n")
            cell.end("failed")
        else:
            cell.add(msgspec.json.format(msgspec.json.encode(outcome), indent=1).decode() + "\n")
            cell.end("done")

    async def interrupt(self, ref: str) -> None:
        if ref not in self._kernels:
            raise TPUError(f"No kernel of yours runs on {ref}.", Reason.NOT_FOUND)
        await self._kernels[ref][0].interrupt_kernel()

    async def shut_down(self, ref: str) -> None:
        manager, client, reading = self._kernels.pop(ref)
        reading.cancel()
        client.stop_channels()
        self._lose(ref, "its kernel was shut down")
        with contextlib.suppress(Exception):
            async with asyncio.timeout(20.0):
                await manager.shutdown_kernel(now=True)

    async def close(self) -> None:
        await cancel_all(self._compiling)
        for ref in list(self._kernels):
            await self.shut_down(ref)

    async def _kernel(self, ref: str, kernelspec: str) -> tuple[Any, Any]:
        from jupyter_client.manager import AsyncKernelManager

        if ref in self._kernels:
            manager, client, _ = self._kernels[ref]
            if await manager.is_alive():
                return manager, client
            await self.shut_down(ref)
        manager = AsyncKernelManager(kernel_name=kernelspec)
        permitted_kernelspecs.add(kernelspec)  # the server was asked for this cell
        # Also where the tools run in a Jupyter server, which is a person's.
        variables = {**os.environ, AGENT_VARIABLE: "1"}
        await manager.start_kernel(env=variables, answers_when_dead=True)
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=READY_SECONDS)
        except RuntimeError as error:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)
            raise TPUError(
                f"The kernel on {ref} did not start: {error}.", Reason.TIMEOUT, "Try again."
            ) from None
        reading = asyncio.create_task(self._read_output(ref, client))
        self._kernels[ref] = manager, client, reading
        return manager, client

    def _lose(self, ref: str, why: str) -> None:
        """The ends of the cells that run there will not be seen."""
        for cell in self.cells.values():
            if cell.kernel == ref and cell.state == "running":
                cell.end(f"lost: {why}")

    async def _read_output(self, ref: str, client: Any) -> None:
        try:
            while True:
                self._show(await client.get_iopub_msg(timeout=None))
        finally:
            self._lose(ref, "its output can't be read any more")

    def _show(self, message: dict[str, Any]) -> None:
        cell = self.cells.get(message["parent_header"].get("msg_id"))
        if cell is None:
            return
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            cell.add(str(content.get("text", "")))
        elif kind in ("execute_result", "display_data"):
            cell.add(str(content.get("data", {}).get("text/plain", "")) + "\n")
        elif kind == "error":
            cell.add("\n".join(map(str, content.get("traceback", []))) + "\n")
            cell.raised = True
        elif kind == "status" and content.get("execution_state") == "idle":
            cell.end("failed" if cell.raised else "done")
