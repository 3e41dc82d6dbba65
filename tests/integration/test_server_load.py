"""Many requests to jax/ at once, of a real server process: memory, errors, and other routes.

No project and no credentials; the memory is that of the server and all processes it started.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from adoption_server import Server
from waiting import eventually

from jupyter_tpu.server.jax import MAX_UNREAD

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc"),
]

MIB = 1 << 20
LIMIT = 540  # seconds for everything: a slow machine
#: For what is on its way between the processes, in several copies.
ROOM = 320 * MIB
#: As large as one may be: 16 MiB.
LARGE = {"key": {"seed": 1}, "distribution": "normal", "shape": [1 << 22]}
ENDLESS = "while True: print('x' * 1000)"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, {"HOME": str(tmp_path)}, forked=False) as server:
        yield server


class Memory:
    """Looks at a process all the time, and keeps what it had at most."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.before = self.most = self._process.memory_info().rss

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.03):
            self.most = max(self.most, self._process.memory_info().rss)


@contextlib.asynccontextmanager
async def client(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        server.url,
        connector=aiohttp.TCPConnector(limit=0),
        headers={"Authorization": f"token {server.token}"},
        timeout=aiohttp.ClientTimeout(total=LIMIT),
    ) as session:
        yield session


async def ask(session: aiohttp.ClientSession, name: str, body: Any) -> tuple[int, bytes]:
    text = body if isinstance(body, str) else json.dumps(body)
    async with session.post(f"/jupyter-tpu/v1/jax/{name}", data=text) as answer:
        return answer.status, await answer.read()


@pytest.mark.long
async def test_unread_answers_are_bounded_and_other_requests_continue(server):
    text = json.dumps(LARGE)
    head = (
        f"POST /jupyter-tpu/v1/jax/prng/sample HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: token {server.token}\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    small = {"key": {"seed": 1}, "distribution": "normal", "shape": [3]}
    with Memory(server.process.pid) as memory, contextlib.ExitStack() as stalled:
        for _ in range(MAX_UNREAD // (16 * MIB) + 8):
            one = stalled.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            one.sendall((head + text).encode())
        async with client(server) as session:
            # Those that nobody reads have their turns, and then there is room for no more.
            async def refused() -> tuple[int, bytes] | None:
                answer = await ask(session, "prng/sample", LARGE)
                return answer if answer[0] != 200 else None

            answer = await eventually(refused, LIMIT)
            assert answer[0] == 503, answer[1][:300]
            assert "have not read" in json.loads(answer[1])["message"]
            assert (await ask(session, "prng/sample", small))[0] == 200
            assert (await ask(session, "tiling", {"arrays": {}}))[0] == 200
            stalled.close()

            async def served() -> bool:
                return (await ask(session, "prng/sample", LARGE))[0] != 503

            await eventually(served, LIMIT)
    assert memory.most < memory.before + MAX_UNREAD + ROOM


async def test_a_server_that_is_killed_takes_the_compiler_along(server):
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    body = {"function": "fn", "arguments": [], "type": "v6e-1", "code": ENDLESS}
    async with client(server) as session:
        assert (await ask(session, "compile", body))[0] == 202
    children = await eventually(psutil.Process(server.process.pid).children)
    server.kill()
    gone, _ = psutil.wait_procs(children, timeout=60)
    assert gone == children
