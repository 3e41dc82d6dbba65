"""Many requests to jax/ at once, of a real server process: memory, errors, and other routes.

No project and no credentials; the memory is that of the server and all processes it started.
"""

from __future__ import annotations

import asyncio
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
GREEDY = "eaten = []\nwhile True: eaten.append(bytearray(1 << 24))"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, {"HOME": str(tmp_path)}, forked=False) as server:
        yield server


class Memory:
    """Looks at a process and its children all the time; what they had at most, by what they are."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.before = self._process.memory_info().rss
        self.most = {"server": 0, "rest.worker": 0, "compile.child": 0, "all": 0}
        self.at_once = {"rest.worker": 0, "compile.child": 0}
        self.looks = 0

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.03):
            self._look()

    def _look(self) -> None:
        sizes: dict[str, list[int]] = {"server": [self._process.memory_info().rss]}
        for child in self._process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                command, size = child.cmdline(), child.memory_info().rss
                kind = next((k for k in self.at_once if f"jupyter_tpu.jaxkit.{k}" in command), "")
                if kind:
                    sizes.setdefault(kind, []).append(size)
        for kind, bytes_used in sizes.items():
            self.most[kind] = max(self.most[kind], *bytes_used)
        for kind in self.at_once:
            self.at_once[kind] = max(self.at_once[kind], len(sizes.get(kind, ())))
        self.most["all"] = max(self.most["all"], sum(map(sum, sizes.values())))
        self.looks += 1


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


def mixed() -> list[tuple[str, Any, int]]:
    """A hundred requests, good and bad, and what they are to be answered with."""
    small = {"distribution": "normal", "shape": [3]}
    shape: dict[str, Any] = {"shape": [4096, 1024], "spec": ["data"]}
    compiled = {"function": "fn", "arguments": [], "type": "v6e-1"}
    calls: list[tuple[str, Any, int]] = []
    calls += [("prng/sample", {**small, "key": {"seed": seed}}, 200) for seed in range(30)]
    calls += [("prng/sample", LARGE, 200) for _ in range(8)]
    calls += [("prng/sample", {**LARGE, "shape": [1 << 42]}, 400) for _ in range(6)]
    calls += [("prng/sample", {**small, "key": {"seed": 10**30}}, 400) for _ in range(3)]
    calls += [("prng/sample", {**small, "key": {"seed": 1}, "dtype": "float7"}, 400)] * 3
    calls += [
        ("placement", {"mesh": {"data": 8}, "arrays": {"w": shape}, "picture": "w"}, 200)
        for _ in range(12)
    ]
    calls += [("placement", {"mesh": {"data": 3}, "arrays": {"w": shape}}, 400)] * 4
    calls += [("tiling", {"arrays": {"w": {"shape": [1 << 40, 3]}}}, 200) for _ in range(16)]
    calls += [("tiling", {"arrays": {"w": {"shape": [-1]}}}, 400)] * 4
    calls += [("compile", {**compiled, "code": "1 / 0"}, 202) for _ in range(6)]
    calls += [
        ("compile", {**compiled, "code": ENDLESS, "limits": {"seconds": 1}}, 202),
        ("compile", {**compiled, "code": ENDLESS, "limits": {"seconds": 3600}}, 202),
        ("compile", {**compiled, "code": GREEDY, "limits": {"memory_bytes": 1 << 29}}, 202),
        ("compile", {**compiled, "code": "fn = 3", "type": "v6e-1"}, 202),
        ("compile", {**compiled, "code": "", "arguments": [{"shape": [-1]}]}, 400),
        ("compile", {**compiled, "code": "", "mesh": {"data": -3}}, 400),
        ("compile", {**compiled, "code": "", "type": "v9-8"}, 400),
        ("compile", '{"code": NaN}', 400),
    ]
    assert len(calls) == 100
    return calls


@pytest.mark.long  # without a server: test_jaxkit_worker.py
async def test_a_hundred_mixed_requests_at_once_take_bounded_memory_and_delay_no_other_client(
    server: Server,
) -> None:
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    requests = mixed()
    others: list[int] = []
    over = asyncio.Event()

    async def look_elsewhere(session: aiohttp.ClientSession) -> None:
        while not over.is_set():
            async with session.get("/api/status") as answer:
                others.append(answer.status)
            await asyncio.sleep(0.01)

    async def operations(session: aiohttp.ClientSession) -> list[Any]:
        async with session.get("/jupyter-tpu/v1/operations") as answer:
            return json.loads(await answer.read())

    assert server.process is not None
    with Memory(server.process.pid) as memory:
        async with client(server) as session:
            looking = asyncio.create_task(look_elsewhere(session))
            answers = await asyncio.gather(*(ask(session, n, body) for n, body, _ in requests))
            long = next(
                json.loads(answer)["id"]
                for (_, body, _), (_, answer) in zip(requests, answers, strict=True)
                if "3600" in str(body)
            )
            await session.delete(f"/jupyter-tpu/v1/operations/{long}")

            async def all_ended() -> list[Any] | None:
                listed = await operations(session)
                return listed if all(one["state"] != "running" for one in listed) else None

            done = await eventually(all_ended, LIMIT)
            over.set()
            await looking
    for (name, body, status), answer in zip(requests, answers, strict=True):
        assert answer[0] == status, (name, body, answer[1][:300])
    said = sorted(one["problem"]["message"] for one in done)
    assert len(said) == 10
    assert sum("ZeroDivisionError" in one for one in said) == 6
    for words in ("longer than 1 s", "more than 0.5 GiB", "Cancelled", "no function 'fn'"):
        assert sum(words in one for one in said) == 1, said

    # Queued, not all at work at once; and none of them is left with what it took.
    assert memory.at_once["rest.worker"] <= 2
    assert memory.at_once["compile.child"] <= 1
    assert max(len(one["log"]) for one in done) < 300
    assert memory.most["server"] < memory.before + MAX_UNREAD + ROOM, memory.most
    assert memory.most["rest.worker"] < 1024 * MIB, memory.most
    assert memory.most["compile.child"] < 1024 * MIB, memory.most
    assert memory.most["all"] < 3072 * MIB, memory.most
    assert set(others) == {200}
    assert len(others) > 20


@pytest.mark.long
async def test_unread_answers_are_bounded_and_other_requests_continue(server: Server) -> None:
    assert server.process is not None
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
    assert memory.most["server"] < memory.before + MAX_UNREAD + ROOM, memory.most


async def test_a_server_that_is_killed_takes_the_compiler_along(server: Server) -> None:
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    assert server.process is not None
    body = {"function": "fn", "arguments": [], "type": "v6e-1", "code": ENDLESS}
    async with client(server) as session:
        assert (await ask(session, "compile", body))[0] == 202
    children = await eventually(psutil.Process(server.process.pid).children)
    server.kill()
    gone, _ = psutil.wait_procs(children, timeout=60)
    assert gone == children
