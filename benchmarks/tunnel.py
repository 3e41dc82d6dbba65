"""A tunnel of ours beside `ssh -L`, with OpenSSH's default cipher and with aes128-gcm.

One sshd on loopback, one server behind it, and the three ways to it in turn, in one run.
CPU-seconds are the client's alone: our forwarder runs in a process of its own, as `ssh` does.
Wall-clock figures share the machine with sshd, server and reader and are noisy; CPU figures, and
those at 40 ms, are less so.

    python benchmarks/tunnel.py [--size MB] [--rounds N]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _results import spread, summaries, write
from _slow_line import slow_line

ROUND_TRIP = 0.040  # seconds
REQUESTS = 2000
BLOCK = 1 << 20

#: Goals of DESIGN.md, section 7: so many times what OpenSSH takes with our cipher, and a speed.
PEER = "ssh -L (gcm)"
TIMES = {"get CPU-s/GB": 1.5, "put CPU-s/GB": 1.5}
SPEED = {"get at 40 ms MB/s": 75.0}

OURS = """
import asyncio, json, sys
from pathlib import Path
from jupyter_tpu.ssh import Forwarder, HostAddress, connect

async def main():
    config = json.loads(sys.argv[1])
    host = HostAddress(
        address="127.0.0.1", port=config["port"], user=config["user"], alias="bench",
        host_keys=(config["host_key"],), identity_file=Path(config["key"]),
        loopbacks=("127.0.0.1",),
    )
    connection = await connect(host)
    forwarder = Forwarder(connection.open_port, config["target"], lambda: None)
    print(await forwarder.listen(0), flush=True)
    await connection.wait_lost()

asyncio.run(main())
"""


class Sshd:
    """OpenSSH's sshd for this user, on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        self.host_key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        self.port = free_port()
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin prohibit-password\nAllowTcpForwarding yes\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        sshd = shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}")
        if sshd is None:
            raise SystemExit("sshd is not installed: nothing to measure")
        self.process = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"],
                                        stderr=(folder / "log").open("w"))  # fmt: skip
        wait_for(self.port)
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        (folder / "known").write_text(f"bench {self.host_key}\n")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def wait_for(port: int, limit: float = 20.0, address: str = "127.0.0.1") -> None:
    end = time.monotonic() + limit
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


class Target:
    """What is behind the tunnel: "g<bytes>\\n" gives that many, "p<bytes>\\n" takes them, "e"
    answers each byte.
    """

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        block = os.urandom(BLOCK)
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            line = stream.readline().decode()
            if line.startswith("g"):
                for _ in range(int(line[1:]) // BLOCK):
                    connection.sendall(block)
            elif line.startswith("p"):
                left = int(line[1:])
                while left:
                    left -= len(stream.read1(min(left, BLOCK)))
                connection.sendall(b".")
            else:
                while stream.read(200):
                    connection.sendall(bytes(1000))


@contextlib.contextmanager
def ssh(sshd: Sshd, port: int, target: int, *options: str) -> Iterator[tuple[int, psutil.Process]]:
    """`ssh -L` to the sshd at *port*; gives its local port and its process."""
    local = free_port()
    process = subprocess.Popen(
        [
            *("ssh", "-N", "-F", "/dev/null", "-p", str(port), "-l", sshd.user, *options),
            *("-i", str(sshd.folder / "user"), "-o", "IdentitiesOnly=yes"),
            *("-o", "HostKeyAlias=bench", "-o", f"UserKnownHostsFile={sshd.folder / 'known'}"),
            *("-o", "StrictHostKeyChecking=yes"),
            *("-L", f"127.0.0.1:{local}:127.0.0.1:{target}", "127.0.0.1"),
        ]
    )
    try:
        wait_for(local)
        yield local, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def ours(sshd: Sshd, port: int, target: int) -> Iterator[tuple[int, psutil.Process]]:
    config = {"port": port, "user": sshd.user, "host_key": sshd.host_key, "target": target}
    config["key"] = str(sshd.folder / "user")
    process = subprocess.Popen([sys.executable, "-c", OURS, json.dumps(config)],
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline()), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


WAYS: dict[str, Callable[..., Any]] = {
    "jupyter-tpu": ours,
    "ssh -L (default)": lambda *a: ssh(*a),
    PEER: lambda *a: ssh(*a, "-c", "aes128-gcm@openssh.com"),
}


def used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def get(port: int, size: int) -> float:
    """Seconds."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begin = time.perf_counter()
        connection.sendall(f"g{size}\n".encode())
        left, buffer = size, bytearray(BLOCK)
        while left:
            count = connection.recv_into(buffer)
            if not count:
                raise SystemExit("the tunnel ended early")
            left -= count
        return time.perf_counter() - begin


def put(port: int, size: int) -> float:
    block = os.urandom(BLOCK)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begin = time.perf_counter()
        connection.sendall(f"p{size}\n".encode())
        for _ in range(size // BLOCK):
            connection.sendall(block)
        assert connection.recv(1) == b"."
        return time.perf_counter() - begin


def ask(port: int) -> float:
    """Small requests on one connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"e\n")
        begin = time.perf_counter()
        for _ in range(REQUESTS):
            connection.sendall(bytes(200))
            left = 1000
            while left:
                left -= len(connection.recv(left))
        return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="MB per transfer")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    size = args.size * BLOCK
    gigabytes = size / 1e9
    results: dict[str, dict[str, list[float]]] = {name: {} for name in WAYS}

    def note(name: str, what: str, value: float) -> None:
        results[name].setdefault(what, []).append(value)

    with tempfile.TemporaryDirectory() as folder:
        sshd, target = Sshd(Path(folder)), Target()
        try:
            with slow_line("127.0.0.1", sshd.port, ROUND_TRIP) as far:
                for _ in range(args.rounds):
                    for name, way in WAYS.items():
                        with way(sshd, sshd.port, target.port) as (port, process):
                            get(port, BLOCK)  # warm
                            for what, work in (("get", get), ("put", put)):
                                before = used(process)
                                seconds = work(port, size)
                                note(name, f"{what} CPU-s/GB", (used(process) - before) / gigabytes)
                                note(name, f"{what} MB/s", size / 1e6 / seconds)
                            before = used(process)
                            seconds = ask(port)
                            spent = used(process) - before
                            note(name, "small request CPU µs", spent / REQUESTS * 1e6)
                            note(name, "small request µs", seconds / REQUESTS * 1e6)
                        with way(sshd, far, target.port) as (port, _):
                            get(port, 8 * BLOCK)
                            part = min(size, 128 * BLOCK)
                            note(name, "get at 40 ms MB/s", part / 1e6 / get(port, part))
        finally:
            sshd.process.terminate()
            sshd.process.wait()
    report(results, args)


def report(results: dict[str, dict[str, list[float]]], args: argparse.Namespace) -> None:
    names = list(results)
    goals = SPEED | {
        what: times * statistics.median(results[PEER][what]) for what, times in TIMES.items()
    }
    print(f"{'median of ' + str(args.rounds):24}" + "".join(f"{name:>20}" for name in names))
    for what in results[names[0]]:
        cells = []
        for name in names:
            values = results[name][what]
            cells.append(f"{statistics.median(values):.3g} ±{spread(values):.2g}")
        goal = f"   goal {goals[what]:.3g}" if what in goals else ""
        print(f"{what:24}" + "".join(f"{cell:>20}" for cell in cells) + goal)
    write("tunnel", n=args.rounds, size_mb=args.size, goals=goals, results=summaries(results))


if __name__ == "__main__":
    main()
