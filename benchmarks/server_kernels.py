"""Kernels of one Jupyter server, on an emulated TPU's host beside local ones, in one run.

    python benchmarks/server_kernels.py [--rounds N] [--kernels N]

Each way has a server of its own, and is measured through its websockets: starts; `1+1`; displays of
50 MB and of 200 MB, and how much the server's memory grows meanwhile; and what each idle kernel
keeps of the server: file descriptors, threads and private memory. The client of ours counts, as a
page with our extension does. Both run the same ipykernel.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from _kernel_ways import Emulator, make_local, make_ours
from _results import summaries, write
from adoption_server import FOLDERS, Server
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketProtocol13,
    websocket_connect,
)

from jupyter_tpu.links import core_thread

EXECUTES = 50
PROTOCOL = "v1.kernel.websocket.jupyter.org"
DISPLAY = "display({{'text/plain': '0123456789' * {}}}, raw=True)"


class Page:
    """One websocket, which only reads what it must."""

    def __init__(self, socket: WebSocketClientConnection, counts: bool) -> None:
        self._socket = socket
        self._counts = counts
        self._session = uuid.uuid4().hex

    async def request(self, kind: str, content: dict[str, Any]) -> None:
        """Sends a request; returns when its reply and its idle have come."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "session": self._session,
            "username": "",
            "date": "2026-01-01T00:00:00Z",
            "version": "5.3",
        }
        parts = [b"shell", *(json.dumps(part).encode() for part in (header, {}, {}, content))]
        ends = list(accumulate(map(len, parts), initial=8 * (len(parts) + 2)))
        offsets = struct.pack(f"<{len(ends) + 1}Q", len(ends), *ends)
        await self._socket.write_message(offsets + b"".join(parts), binary=True)
        awaited = {"reply", "idle"}
        while awaited:
            frame = await self._socket.read_message()
            assert frame is not None, "the connection ended"
            if isinstance(frame, str):
                continue
            (count,) = struct.unpack_from("<Q", frame)
            places = pairwise(struct.unpack_from(f"<{count}Q", frame, 8))
            _, head, parent, metadata, *rest = (frame[start:end] for start, end in places)
            if mark := json.loads(metadata).get("jupyter_tpu"):
                await self._socket.write_message(
                    json.dumps({"jupyter_tpu": {"seen": mark["number"]}})
                )
            if header["msg_id"].encode() in parent:
                if b'_reply"' in head:
                    awaited.discard("reply")
                elif b'"status"' in head and b'"idle"' in rest[0]:
                    awaited.discard("idle")

    async def execute(self, code: str) -> None:
        await self.request("execute_request", {"code": code, "silent": False, "allow_stdin": False})


class Kernels:
    """One server, whose kernels are all of one kind."""

    def __init__(self, server: Server, spec: str, *, counts: bool) -> None:
        self._server = server
        self._spec = spec
        self._counts = counts
        assert server.process is not None
        self.process = psutil.Process(server.process.pid)

    async def start(self) -> str:
        answer = await asyncio.to_thread(
            self._server.request, "POST", "/api/kernels", {"name": self._spec}
        )
        return str(answer["id"])

    async def end(self, kernel_id: str) -> None:
        await asyncio.to_thread(self._server.request, "DELETE", f"/api/kernels/{kernel_id}")

    @contextlib.asynccontextmanager
    async def page(self, kernel_id: str) -> AsyncIterator[Page]:
        url = f"{self._server.url.replace('http', 'ws')}/api/kernels/{kernel_id}/channels"
        url += f"?session_id={uuid.uuid4().hex}&token={self._server.token}"
        url += "&jupyter_tpu_seen=" if self._counts else ""
        socket = await websocket_connect(url, max_message_size=1 << 30, subprotocols=[PROTOCOL])
        assert isinstance(socket.protocol, WebSocketProtocol13)
        socket.protocol.set_nodelay(True)  # as browsers do
        socket.protocol.stream.max_buffer_size = 1 << 30
        try:
            yield Page(socket, self._counts)
        finally:
            socket.close()

    def memory_peak(self) -> int:
        """The largest memory of the server since `forget_peak`; bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def forget_peak(self) -> int:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.memory_peak()

    def idle_cost(self) -> dict[str, float]:
        memory = self.process.memory_full_info().uss
        return {
            "fds": self.process.num_fds(),
            "threads": self.process.num_threads(),
            "private kB": memory / 1000,
        }


async def measure(kernels: Kernels, rounds: int, count: int) -> dict[str, list[float]]:
    """Figures of one server."""
    figures: dict[str, list[float]] = {}

    def note(what: str, value: float) -> None:
        figures.setdefault(what, []).append(value)

    async def timed(what: str, awaitable: Any) -> Any:
        begun = time.perf_counter()
        result = await awaitable
        note(what, (time.perf_counter() - begun) * 1000)
        return result

    await kernels.end(await kernels.start())  # modules are loaded, links are up
    before = kernels.idle_cost()
    idle = [await timed("start, ms", kernels.start()) for _ in range(count)]
    for kernel_id in idle:
        async with kernels.page(kernel_id) as page:
            await page.request("kernel_info_request", {})
    await asyncio.sleep(2.0)  # what ends with the websockets has ended
    for what, value in kernels.idle_cost().items():
        note(f"each idle kernel: {what}", (value - before[what]) / count)
    for kernel_id in idle[1:]:
        await kernels.end(kernel_id)
    async with kernels.page(idle[0]) as page:
        await page.execute("pass")
        for _ in range(EXECUTES):
            await timed("1+1, ms", page.execute("1+1"))
        for megabytes in (50, 200):
            for _ in range(rounds):
                await asyncio.sleep(0.5)
                size = kernels.forget_peak()
                code = DISPLAY.format(megabytes * 100_000)
                await timed(f"{megabytes} MB display, ms", page.execute(code))
                note(f"{megabytes} MB display: MB of memory", (kernels.memory_peak() - size) / 1e6)
    await kernels.end(idle[0])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="displays of each size (5)")
    parser.add_argument("--kernels", type=int, default=10, help="idle kernels (10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for variable, sub in FOLDERS.items():
            os.environ[variable] = str(folder / sub)
            (folder / sub).mkdir(mode=0o700)
        local = make_local(folder)
        emulator = Emulator(folder / "emulator")
        by_way: dict[str, dict[str, list[float]]] = {}
        try:
            ours, line = core_thread().wait(make_ours(emulator))
            for way, spec in (("local", local), ("jupyter-tpu", ours)):
                server = Server(folder, {}, forked=False)
                server.start()
                try:
                    kernels = Kernels(server, spec, counts=way != "local")
                    by_way[way] = asyncio.run(measure(kernels, options.rounds, options.kernels))
                finally:
                    server.stop()
            line.close()
        finally:
            emulator.close()
    results = summaries(by_way)
    print(f"{'median':36}{'local':>12}{'jupyter-tpu':>14}{'ratio':>8}")
    for what, figures in results["local"].items():
        theirs, mine = figures["median"], results["jupyter-tpu"][what]["median"]
        print(f"{what:36}{theirs:12.2f}{mine:14.2f}{mine / theirs if theirs else 0:8.2f}")
    write("server_kernels", n=options.rounds, results=results)


if __name__ == "__main__":
    main()
