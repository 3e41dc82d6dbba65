"""Servers of models on a host without SSH in between: the real agent, keeper and servers."""

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from local_host import LocalHost
from ports import free_port
from waiting import eventually

from jupyter_tpu.on_host.agent.protocol import requests

#: A server whose program can be told to answer badly, or not at all, by a file beside it.
SERVER = """
import http.server, os, sys, time
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global count
        mode = open("mode").read().strip() if os.path.exists("mode") else ""
        if mode == "exit" and self.path != "/health":
            os._exit(3)
        if mode == "silent":
            time.sleep(3600)
        status = 503 if mode == "ill" else 200
        if self.path == "/metrics":
            text = "# TYPE vllm:request_success_total counter\\n"
            text += 'vllm:request_success_total{model_name="m"} %d\\n' % count
            text += "vllm:num_requests_waiting 2\\n" if mode == "queue" else ""
        else:
            count += self.path == "/v1"
            text = "hello"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_): pass
print("loading", flush=True)
class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256
Server((sys.argv[1], int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Below /tmp itself: the paths of sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture
async def host(home: Path) -> AsyncIterator[LocalHost]:
    local = LocalHost(home)
    (home / "server.py").write_text(SERVER)
    (home / "mode").unlink(missing_ok=True)
    yield local
    local.mend()
    await (await local.agent()).request(requests.PrepareDeleteRequest())
    await local.close()
    await eventually(lambda: not local.processes())


async def serve(host: LocalHost, job: str, *argv: str, port: int, **serving: Any) -> dict[str, Any]:
    command = list(argv) or [sys.executable, "server.py", "127.0.0.1"]
    order = requests.StartJobRequest(
        id=job,
        argv=command,
        serving={"port": port, "health": "/health", "metrics": "/metrics", **serving},
    )
    return await (await host.agent()).request(order)


async def status(host: LocalHost, job: str) -> dict[str, Any]:
    return await (await host.agent()).request(requests.GetJobRequest(id=job))


async def until_state(host: LocalHost, job: str, state: str, seconds: float = 60) -> dict[str, Any]:
    async def is_so() -> bool:
        return (await status(host, job))["serving"]["state"] == state

    await eventually(is_so, seconds)
    return await status(host, job)


async def ended(host: LocalHost, job: str) -> dict[str, Any]:
    async def is_over() -> bool:
        return (await status(host, job))["state"] == "ended"

    await eventually(is_over, 60)
    return await status(host, job)


def get(port: int, path: str) -> bytes:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return bytes(answer.read())


async def test_a_server_is_healthy_when_its_health_path_answers(host):
    port = free_port()
    started = await serve(host, "healthy-1", port=port)
    assert started["serving"]["state"] == "starting"
    healthy = await until_state(host, "healthy-1", "healthy")
    assert (healthy["serving"]["problem"], healthy["serving"]["exposed"]) == ("", "")
    assert get(port, "/v1") == b"hello"


async def test_a_server_that_exits_is_started_again_and_says_why(host, home):
    port = free_port()
    await serve(host, "exits-1", port=port)
    first = await until_state(host, "exits-1", "healthy")
    os.kill(first["pid"], 9)
    restarting = await until_state(host, "exits-1", "restarting")
    assert "SIGKILL" in restarting["serving"]["problem"]
    again = await until_state(host, "exits-1", "healthy")
    assert again["serving"]["restarts"] == 1
    assert again["pid"] != first["pid"]
    log = await (await host.agent()).request(requests.ReadJobLogRequest(id="exits-1"))
    texts = [line[3] for line in log["lines"]]
    assert texts.count("loading") == 2
    assert any(text.startswith("[jupyter-tpu] The job was ended by signal 9") for text in texts)


async def test_a_server_that_fails_at_its_start_ends_with_its_own_words(host):
    code = "import sys; sys.exit('RESOURCE_EXHAUSTED: Out of memory in memory space hbm')"
    await serve(host, "oom-1", sys.executable, "-c", code, port=free_port())
    failed = await ended(host, "oom-1")
    assert failed["code"] == 1
    assert failed["tail"] == ["RESOURCE_EXHAUSTED: Out of memory in memory space hbm"]


@pytest.mark.long  # the pauses between two checks are the host's
async def test_a_server_that_answers_nothing_is_killed_and_started_again(host, home):
    port = free_port()
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER
    (home / "stubborn.py").write_text(stubborn)
    await serve(
        host, "hangs-1", sys.executable, "stubborn.py", "127.0.0.1", port=port, patience=1.0
    )
    first = await until_state(host, "hangs-1", "healthy")
    (home / "mode").write_text("silent")
    ill = await until_state(host, "hangs-1", "unhealthy", 90)
    assert "/health: it does not answer" in ill["serving"]["problem"]
    (home / "mode").unlink()

    async def is_again() -> bool:
        now = await status(host, "hangs-1")
        return now["serving"]["restarts"] == 1 and now["serving"]["state"] == "healthy"

    await eventually(is_again, 60)
    assert (await status(host, "hangs-1"))["pid"] != first["pid"]


async def test_a_port_of_another_program_is_named_before_the_server_starts(host):
    other = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    port = other.server_address[1]
    await serve(host, "taken-1", port=port)
    failed = await ended(host, "taken-1")
    other.shutdown()
    other.server_close()
    assert failed["cause"].startswith(f"Port {port} is used by another program (process ")


async def test_a_server_that_others_can_reach_is_said_to_be_exposed(host):
    port = free_port()
    await serve(host, "open-1", sys.executable, "server.py", "", port=port)
    assert (await until_state(host, "open-1", "healthy"))["serving"]["exposed"] == "0.0.0.0"


async def test_requests_are_work_and_health_checks_are_not(host, home):
    port = free_port()
    await serve(host, "counts-1", port=port)
    healthy = await until_state(host, "counts-1", "healthy")

    async def is_counted() -> bool:
        return (await status(host, "counts-1"))["serving"]["requests"] is not None

    await eventually(is_counted, 60)
    idle = (await status(host, "counts-1"))["serving"]
    assert (idle["requests"], idle["worked"]) == (0.0, healthy["serving"]["worked"])
    get(port, "/v1")

    async def has_worked() -> bool:
        return (await status(host, "counts-1"))["serving"]["worked"] > idle["worked"]

    await eventually(has_worked, 60)
    assert (await status(host, "counts-1"))["serving"]["requests"] > 0


async def test_a_stop_ends_a_server_that_waits_for_its_restart(host):
    port = free_port()
    await serve(host, "stopped-1", port=port)
    os.kill((await until_state(host, "stopped-1", "healthy"))["pid"], 9)
    await until_state(host, "stopped-1", "restarting")
    await (await host.agent()).request(requests.StopJobRequest(id="stopped-1", patience=1.0))
    assert (await ended(host, "stopped-1"))["state"] == "ended"
