"""Servers of models on emulated TPUs: real SSH, real servers, a port here that leads to them."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pod_fleet import silent_ssh
from ports import free_port
from refusals import raises
from test_serving_agent import SERVER
from test_tunnels_emulator import LIMIT, Server, name_of
from waiting import eventually

from jupyter_tpu.emulator.hosts.namespace_host import process_tree
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import ModelServer, Operation, StartModelServer, StartRun, StopTPU
from jupyter_tpu.fleet.serving.on_request import MOST_HELD


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[dict[str, Any]]:
    with emulator.tpu("serving", "v5litepod-1", "us-west4-a") as node:
        yield node


@pytest.fixture
def server(emulator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    return Server(emulator.state_file, tmp_path)


async def get(url: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, content and headers. Without a thread: the fleet needs those there are."""
    address = urlsplit(url)
    async with asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        asked = f"GET {address.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        writer.write(asked.encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), body, dict(line.split(": ", 1) for line in lines)


async def put_server(fleet: Fleet, name: str, code: str = SERVER) -> None:
    """Writes server.py on the host."""
    command = ["sh", "-c", 'printf %s "$1" > server.py', "sh", code]
    run = await fleet.runs.start(name, StartRun(command=command))

    async def is_done() -> bool:
        return (await fleet.runs.get(name, run.id)).state == "done"

    await eventually(is_done, LIMIT)


def request(**more: Any) -> StartModelServer:
    command = ["python3", "server.py", "127.0.0.1"]
    fields = {"command": command, "port": free_port(), "health": "/health", **more}
    return StartModelServer(**fields)


async def serve(fleet: Fleet, name: str, **more: Any) -> ModelServer:
    operation = await fleet.serving.start(name, request(**more))
    ended = await end(fleet, operation)
    assert ended.state == "done", ended.problem
    return next(server for server in await fleet.serving.list(name) if server.state == "healthy")


async def end(fleet: Fleet, operation: Operation) -> Operation:
    return await asyncio.wait_for(fleet.operations.wait(operation.id), LIMIT)


async def until(
    fleet: Fleet, name: str, id: str, is_so: Callable[[ModelServer], bool]
) -> ModelServer:
    async def is_now() -> bool:
        return is_so(await fleet.serving.get(name, id))

    await eventually(is_now, LIMIT)
    return await fleet.serving.get(name, id)


async def test_a_server_answers_at_a_local_port_survives_this_process_and_is_stopped(server, tpu):
    name = name_of(tpu)
    async with server as fleet:
        await put_server(fleet, name)
        started = await serve(fleet, name)
        assert (await get(f"{started.url}/v1"))[:2] == (200, b"hello")
        with raises(Reason.CONFLICT, "is used by the server python3"):
            await fleet.serving.start(name, request(port=started.port))
    async with server as fleet:  # another Jupyter server, later
        again = (await fleet.serving.list(name))[-1]
        assert (again.id, again.url) == (started.id, started.url)
        assert (await get(f"{again.url}/v1"))[:2] == (200, b"hello")
        stopped = await fleet.serving.stop(name, again.id)
        assert (stopped.url, await fleet.tunnels.list(name)) == ("", [])
        await until(fleet, name, again.id, lambda server: server.state == "stopped")


async def test_a_server_that_fails_at_its_start_is_explained_by_its_own_lines(server, tpu):
    name = name_of(tpu)
    async with server as fleet:
        code = "import sys; sys.exit('RESOURCE_EXHAUSTED: out of HBM: 20 GB of 16 GB')"
        operation = await fleet.serving.start(name, request(command=["python3", "-c", code]))
        ended = await end(fleet, operation)
        assert ended.problem is not None
        assert "RESOURCE_EXHAUSTED: out of HBM: 20 GB of 16 GB" in ended.problem.message
        assert await fleet.tunnels.list(name) == []


async def test_a_start_that_is_cancelled_ends_the_server(server, tpu):
    name = name_of(tpu)
    async with server as fleet:
        operation = await fleet.serving.start(name, request(command=["sleep", "1000"]))
        id = (await fleet.serving.list(name))[-1].id
        await fleet.operations.cancel(operation.id)
        await until(fleet, name, id, lambda server: server.state == "stopped")
        assert await fleet.tunnels.list(name) == []


async def test_a_request_starts_a_stopped_tpu_once_and_waits_for_its_server(server, tpu, emulator):
    name = name_of(tpu)
    async with server as fleet:
        await put_server(fleet, name)
        started = await serve(fleet, name, start_on_request=True, hold_limit=LIMIT)
        stop = await fleet.stop(name, StopTPU(end_jobs=True))
        assert (await end(fleet, stop)).state == "done"
        answers = await asyncio.gather(*(get(f"{started.url}/v1") for _ in range(1000)))
        codes = [status for status, _, _ in answers]
        assert (codes.count(200), codes.count(503)) == (MOST_HELD, 1000 - MOST_HELD)
        assert [body for status, body, _ in answers if status == 200] == [b"hello"] * MOST_HELD
        starts = [o for o in await fleet.operations.list() if o.kind == "start"]
        assert len(starts) == 1
        await fleet.serving.stop(name, started.id)


async def test_a_request_that_can_not_wait_is_answered_with_503(server, tpu):
    name = name_of(tpu)
    async with server as fleet:
        await put_server(fleet, name)
        started = await serve(fleet, name, start_on_request=True, hold_limit=0.0)
        stop = await fleet.stop(name, StopTPU(end_jobs=True))
        assert (await end(fleet, stop)).state == "done"
        status, body, headers = await get(f"{started.url}/v1")
        assert (status, headers["Retry-After"]) == (503, "30")
        assert "is starting" in json.loads(body)["error"]["message"]

        async def answers() -> bool:
            return (await get(f"{started.url}/v1"))[0] == 200

        await eventually(answers, LIMIT)
        await fleet.serving.stop(name, started.id)


async def test_a_preempted_tpu_is_said_to_be_and_the_next_one_answers_at_the_same_port(
    server, create_tpu, emulator, faults
):
    node = create_tpu(type="v5litepod-1", zone="us-west4-a")
    name, command = name_of(node), ["python3", "-c", SERVER, "127.0.0.1"]
    async with server as fleet:
        kept = await serve(fleet, name, command=command, restart_with_tpu=True)
        ends = await serve(fleet, name, command=command)
        faults(kind="preempt", node=node["name"])
        why = f"The TPU {name} is preempted."
        for one in (kept, ends):
            gone = await until(fleet, name, one.id, lambda server: server.cause == why)
            assert gone.state == "unknown"
            status, body, _ = await get(f"{one.url}/v1")
            assert (status, json.loads(body)["error"]["message"]) == (503, why)
        emulator.wait(emulator.request("DELETE", f"/v2/{node['name']}"))
        emulator.create(name, "v5litepod-1", "us-west4-a")
        again = await until(
            fleet, name, kept.id, lambda server: server.state == "healthy" and bool(server.url)
        )
        assert again.url == kept.url
        assert (await get(f"{again.url}/v1"))[:2] == (200, b"hello")

        async def only_that_is_left() -> bool:
            tunnels = [tunnel.local_port for tunnel in await fleet.tunnels.list(name)]
            servers = [one.id for one in await fleet.serving.list(name)]
            return (servers, tunnels) == ([kept.id], [urlsplit(kept.url).port])

        await eventually(only_that_is_left, LIMIT)
        assert (await get(f"{kept.url}/v1"))[:2] == (200, b"hello")


async def test_a_link_that_is_cut_for_long_is_said_and_the_server_and_its_port_go_on(
    server, tpu, emulator
):
    name = name_of(tpu)
    async with server as fleet:
        started = await serve(fleet, name, command=["python3", "-c", SERVER, "127.0.0.1"])
        [host] = emulator.hosts(name)
        with silent_ssh(host["init_pid"]):
            cut = await until(fleet, name, started.id, lambda one: one.state == "unknown")
            assert cut.url == started.url
            assert cut.cause
            held = asyncio.create_task(get(f"{started.url}/v1"))
            ended, _ = await asyncio.wait({held}, timeout=5)
            assert not ended
        assert (await held)[:2] == (200, b"hello")
        back = await until(fleet, name, started.id, lambda one: one.state == "healthy")
        assert (back.restarts, back.url) == (0, started.url)
        await fleet.serving.stop(name, started.id)


#: Hosts that keep connections to each other, as those of torch.distributed do: one that is new is
#: not heard by those that had lost it. Host 1 fails if there is a file.
GROUP = """
import http.server, os, socket, sys, time
rank, peers = int(os.environ["JUPYTER_TPU_HOST"]), []
addresses = os.environ["JUPYTER_TPU_ADDRESSES"].split(",")
if rank and os.path.exists("fails"):
    sys.exit("RESOURCE_EXHAUSTED: out of HBM on host 1")
if rank:
    while True:
        try:
            peer = socket.create_connection((addresses[0], 7123))
            break
        except OSError:
            time.sleep(0.1)
    while True:
        peer.sendall(peer.recv(1) or time.sleep(1000))
listener = socket.create_server((addresses[0], 7123))
while len(peers) < len(addresses) - 1:
    peers.append(listener.accept()[0])
listener.close()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        for peer in peers if self.path != "/health" else ():
            peer.sendall(b"x")
            assert peer.recv(1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[dict[str, Any]]:
    with emulator.tpu("group", "v4-16", "us-central2-b") as node:
        yield node


async def put_group(fleet: Fleet, name: str, more: str = "") -> None:
    command = ["sh", "-c", 'printf %s "$1" > group.py; rm -f fails; ' + more, "sh", GROUP]
    run = await fleet.runs.start(name, StartRun(command=command, hosts="all"))

    async def is_done() -> bool:
        return (await fleet.runs.get(name, run.id)).state == "done"

    await eventually(is_done, LIMIT)


async def test_a_server_that_fails_at_its_start_on_another_host_ends_on_all(server, pod):
    name = name_of(pod)
    async with server as fleet:
        await put_group(fleet, name, "touch fails")
        ended = await end(
            fleet, await fleet.serving.start(name, request(command=["python3", "group.py"]))
        )
        assert ended.problem is not None
        assert "Host 1: The job exited with code 1." in ended.problem.message
        assert "RESOURCE_EXHAUSTED: out of HBM on host 1" in ended.problem.message
        failed = (await fleet.serving.list(name))[-1]
        await until(fleet, name, failed.id, lambda server: server.state == "failed")


@pytest.mark.long  # the pause until the others have ended is the host's
async def test_a_host_that_is_lost_is_started_again_with_all_others(server, pod, emulator):
    name = name_of(pod)
    async with server as fleet:
        await put_group(fleet, name)
        started = await serve(fleet, name, command=["python3", "group.py"])
        assert (await get(f"{started.url}/v1"))[:2] == (200, b"hello")
        init = next(host["init_pid"] for host in emulator.hosts(name) if host["worker"] == 1)
        ranks = [p["outer"] for p in process_tree(init) if p["cmdline"][1:2] == ["group.py"]]
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        lost = await until(fleet, name, started.id, lambda server: server.restarts == 1)
        assert lost.state in ("restarting", "starting")
        assert lost.cause.startswith("Host 1: The job was ended by signal 9")
        await until(fleet, name, started.id, lambda server: server.state == "healthy")
        assert (await get(f"{started.url}/v1"))[:2] == (200, b"hello")
        await fleet.serving.stop(name, started.id)


async def test_what_is_not_one_server_is_refused(server, tpu):
    async with server as fleet:
        for wrong in (StartModelServer(), request(ray="app:app"), request(port=None)):
            with raises(Reason.INVALID, "(Say what to serve|The port of the server is missing)"):
                await fleet.serving.start(name_of(tpu), wrong)
