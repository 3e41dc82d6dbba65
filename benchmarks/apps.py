"""Web applications of a host through our proxy beside jupyter-server-proxy over our tunnel.

One sshd on loopback, 40 ms away where that is said, and behind it one web server that keeps its
connections and one that closes after each answer, as TensorBoard's does. Both proxies run in
processes of their own; memory is what they grew by. What a proxy can't do is shown as "fails".

    python benchmarks/apps.py [--size MB] [--requests N] [--rounds N]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _results import spread, summary, write
from _slow_line import slow_line
from tunnel import BLOCK, Sshd, ours, used, wait_for

ROUND_TRIP = 0.040  # seconds
PEER = "jupyter-server-proxy"
#: DESIGN.md, section 7: a GET takes the round trip and 4 ms; memory stays flat.
GOALS = {"GET at 40 ms, ms": ROUND_TRIP * 1e3 + 4, "get: memory, MB": 20, "put: memory, MB": 20}

APPS = """
import asyncio, json, sys
from pathlib import Path
from jupyter_tpu.apps import AppServer, Upstream
from jupyter_tpu.ssh import HostAddress, connect

async def main():
    config = json.loads(sys.argv[1])
    host = HostAddress(
        address="127.0.0.1", port=config["port"], user=config["user"], alias="bench",
        host_keys=(config["host_key"],), identity_file=Path(config["key"]),
        loopbacks=("127.0.0.1",),
    )
    connection = await connect(host)
    server = AppServer()
    site = await server.add(Upstream(connection.open_port, config["target"]), "bench", "bench")
    print(site.visit("/", ""), flush=True)
    await connection.wait_lost()

asyncio.run(main())
"""


class Pages(BaseHTTPRequestHandler):
    """/N gives N bytes; what is posted is counted."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        size = int(self.path.rpartition("/")[2] or 200)
        self.head(size)
        block = bytes(min(size, BLOCK))
        for _ in range(size // len(block)):
            self.wfile.write(block)

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read1(min(left, BLOCK)))
        self.head(1)
        self.wfile.write(b".")

    def head(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Closing(Pages):
    protocol_version = "HTTP/1.0"


@contextlib.contextmanager
def serving(handler: type[Pages]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a proxy that gives up
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class PageRoute:
    """How the pages are reached: a connection here, a prefix and headers; and who carries them."""

    def __init__(self, port: int, prefix: str, headers: dict[str, str], pid: int) -> None:
        self.port, self.prefix, self.headers = port, prefix, headers
        self.process = psutil.Process(pid)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def get(self, connection: http.client.HTTPConnection, size: int = 200) -> float:
        """Seconds."""
        begin = time.perf_counter()
        connection.request("GET", f"{self.prefix}/{size}", headers=self.headers)
        answer = connection.getresponse()
        got = 0
        while piece := answer.read(BLOCK):
            got += len(piece)
        if answer.status != 200 or got != size:
            raise ConnectionError(f"{answer.status}, {got} bytes")
        return time.perf_counter() - begin

    def put(self, connection: http.client.HTTPConnection, size: int) -> float:
        begin = time.perf_counter()
        block = bytes(BLOCK)
        headers = {**self.headers, "Content-Length": str(size)}
        connection.request(
            "POST", f"{self.prefix}/1", (block for _ in range(size // BLOCK)), headers
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise ConnectionError(f"{answer.status}")
        answer.read()
        return time.perf_counter() - begin


@contextlib.contextmanager
def app(sshd: Sshd, port: int, target: int) -> Iterator[PageRoute]:
    config = {"port": port, "user": sshd.user, "host_key": sshd.host_key, "target": target}
    config["key"] = str(sshd.folder / "user")
    command = [sys.executable, "-c", APPS, json.dumps(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = urlsplit(process.stdout.readline().strip())
        headers = {"Host": url.netloc, "Sec-Fetch-Site": "none"}
        assert url.port is not None
        enter = http.client.HTTPConnection("127.0.0.1", url.port)
        enter.request("GET", f"{url.path}?{url.query}", headers=headers)
        cookie = enter.getresponse().headers["Set-Cookie"].partition(";")[0]
        enter.close()
        yield PageRoute(url.port, "", {**headers, "Cookie": cookie}, process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def peer(sshd: Sshd, port: int, target: int) -> Iterator[PageRoute]:
    with ours(sshd, port, target) as (local, _), tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            here = probe.getsockname()[1]
        token = secrets.token_hex(16)
        command = [sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser"]
        command += [f"--ServerApp.port={here}", "--ServerApp.port_retries=0"]
        command += [f"--ServerApp.root_dir={folder}", "--ServerApp.max_body_size=10000000000"]
        command += ["--ServerApp.jpserver_extensions={'jupyter_server_proxy': True}"]
        variables = dict.fromkeys(("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"), folder)
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables, "JUPYTER_TOKEN": token},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(here, 60)
            headers = {"Authorization": f"token {token}"}
            yield PageRoute(here, f"/proxy/{local}", headers, process.pid)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def growth(process: psutil.Process) -> Iterator[list[float]]:
    """The most that a process has grown meanwhile, MB."""
    largest = [0.0]
    before, over = process.memory_info().rss, threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            with contextlib.suppress(psutil.Error):
                largest[0] = max(largest[0], (process.memory_info().rss - before) / 1e6)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield largest
    finally:
        over.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="MB of a big body")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    ways = {"jupyter-tpu": app}
    if find_spec("jupyter_server_proxy"):
        ways[PEER] = peer
    else:
        print(f"{PEER} IS NOT INSTALLED: measured without it (`make bench` installs it)")
    results: dict[str, dict[str, list[float]]] = {name: {} for name in ways}

    def note(name: str, what: str, value: float) -> None:
        results[name].setdefault(what, []).append(value)

    with tempfile.TemporaryDirectory() as folder, serving(Pages) as keeps, serving(
        Closing
    ) as closes:  # fmt: skip
        sshd = Sshd(Path(folder))
        try:
            with slow_line("127.0.0.1", sshd.port, ROUND_TRIP) as far:
                for _ in range(args.rounds):
                    for name, way in ways.items():
                        near_and_big(name, way, sshd, keeps, args, note)
                        for target, what in ((keeps, "GET"), (closes, "GET, server closes")):
                            with way(sshd, far, target) as reached:
                                note(name, f"{what} at 40 ms, ms", latency(reached, 25))
        finally:
            sshd.process.terminate()
            sshd.process.wait()
    report(results, args)


def near_and_big(
    name: str, way: Any, sshd: Sshd, target: int, args: argparse.Namespace, note: Any
) -> None:
    size = args.size * BLOCK
    with way(sshd, sshd.port, target) as reached:
        latency(reached, 10)  # warm
        before = used(reached.process)
        note(name, "GET, ms", latency(reached, args.requests))
        spent = used(reached.process) - before
        note(name, "small request CPU µs", spent / args.requests * 1e6)
        for what, work in (("get", reached.get), ("put", reached.put)):
            with contextlib.closing(reached.connect()) as connection:
                with growth(reached.process) as grown:
                    try:
                        seconds = work(connection, size)
                        note(name, f"{what} MB/s", size / 1e6 / seconds)
                    except (OSError, http.client.HTTPException):
                        note(name, f"{what} MB/s", float("nan"))
                note(name, f"{what}: memory, MB", grown[0])


def latency(way: PageRoute, count: int) -> float:
    """The median of *count* requests on one connection, ms."""
    with contextlib.closing(way.connect()) as connection:
        way.get(connection)
        return statistics.median(way.get(connection) for _ in range(count)) * 1e3


def report(by_way: dict[str, dict[str, list[float]]], args: argparse.Namespace) -> None:
    names = list(by_way)
    print(f"{'median of ' + str(args.rounds):32}" + "".join(f"{name:>24}" for name in names))
    for what in by_way[names[0]]:
        cells = []
        for name in names:
            value = statistics.median(by_way[name][what])
            shown = f"{value:.3g} ±{spread(by_way[name][what]):.2g}"
            cells.append("fails" if value != value else shown)
        goal = f"   goal {GOALS[what]:g}" if what in GOALS else ""
        print(f"{what:32}" + "".join(f"{cell:>24}" for cell in cells) + goal)
    results = {
        name: {
            what: None  # it can't do that
            if any(value != value for value in values)
            else summary(values)
            for what, values in of.items()
        }
        for name, of in by_way.items()
    }
    write("apps", n=args.rounds, size_mb=args.size, goals=GOALS, results=results)


if __name__ == "__main__":
    main()
