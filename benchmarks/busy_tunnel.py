"""`1+1` in a kernel on an emulated TPU: alone, and while 100 MB/s come from its host, in turn.

They come through `ssh -L`, which shows what the machine itself is slowed down by, and through a
tunnel of the kernel's own process, which shares its thread. Sender and reader are
processes of their own.

    python benchmarks/busy_tunnel.py [--rounds N] [--line MB]

With --line, all of it goes over a line of so many MB/s, of which the download takes what it gets.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from _kernel_ways import TPU, ZONE, Emulator, make_ours
from _results import summaries, write
from kernel import Kernel
from tunnel import free_port, wait_for

if TYPE_CHECKING:
    from jupyter_tpu.links import Link

HERE = Path(__file__).resolve().parent
PEER, OURS = "ssh -L (gcm)", "jupyter-tpu"
RATE = 100e6  # bytes per second
EXECUTES = 100
GOAL = 5.0  # milliseconds that `1+1` may take longer

SENDER = """
import os, socket, sys, threading, time
server, rate = socket.create_server((sys.argv[1], 0)), float(sys.argv[2])
block = os.urandom(1 << 18)

def send(connection):
    begin, sent = time.perf_counter(), 0
    while True:
        connection.sendall(block)
        sent += len(block)
        time.sleep(max(0, begin + sent / rate - time.perf_counter()))

print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=send, args=server.accept()[:1], daemon=True).start()
"""
#: Says once a second how many MB came in it.
READER = """
import socket, sys, time
connection, buffer = socket.create_connection(("127.0.0.1", int(sys.argv[1]))), bytearray(1 << 20)
begin, taken = time.perf_counter(), 0
while count := connection.recv_into(buffer):
    taken += count
    if time.perf_counter() - begin > 1:
        print(taken / 1e6 / (time.perf_counter() - begin), flush=True)
        begin, taken = time.perf_counter(), 0
"""


@contextlib.contextmanager
def running(script: str, *words: str) -> Iterator[IO[str]]:
    """A process of its own; gives what it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        process.wait()


def median(kernel: Kernel) -> float:
    """The median time of `1+1`, in milliseconds."""
    taken = []
    for _ in range(EXECUTES):
        begin = time.perf_counter()
        kernel.run("1+1")
        taken.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(taken)


@contextlib.contextmanager
def ssh_tunnel(link: Link, folder: Path, address: str, port: int) -> Iterator[int]:
    """The local port of an `ssh -L`."""
    from jupyter_tpu.ssh import ensure_key, user_name

    local, host = free_port(), link.host_address
    options = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder / 'known'}"]
    process = subprocess.Popen(
        [
            *("ssh", "-N", "-F", "/dev/null", "-q", "-c", "aes128-gcm@openssh.com", *options),
            *("-i", str(ensure_key()), "-L", f"127.0.0.1:{local}:{address}:{port}"),
            *("-p", str(host.port), f"{user_name()}@{host.address}"),
        ]
    )
    try:
        wait_for(local)
        yield local
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def our_tunnel(link: Link, port: int) -> Iterator[int]:
    """The same, of this process."""
    from jupyter_tpu.links import core_thread
    from jupyter_tpu.ssh import Forwarder

    async def open() -> tuple[Forwarder, int]:
        forwarder = Forwarder(link.open_bulk, port, lambda: None)
        return forwarder, await forwarder.listen(0)

    forwarder, local = core_thread().wait(open())
    try:
        yield local
    finally:
        core_thread().wait(forwarder.close())


def measure(folder: Path, rounds: int, megabytes: float) -> dict[str, dict[str, list[float]]]:
    """Milliseconds and MB/s, by way. megabytes: per second, of the line; 0: no limit."""
    from jupyter_tpu.cloud import CloudTPU, NodeName, Target
    from jupyter_tpu.links import HostName, core_thread, default_links

    results: dict[str, dict[str, list[float]]] = {
        way: {"ms": [], "MB/s": []} for way in ("alone", PEER, OURS)
    }
    emulator = Emulator(folder / "emulator")
    try:
        name, line = core_thread().wait(make_ours(emulator))
        target = Target(emulator=emulator.state_file)
        node = NodeName(CloudTPU(target).project, ZONE, TPU)
        link = default_links(target).get(HostName(node, 0))
        path = f"/v2/projects/{node.project}/locations/{ZONE}/nodes/{TPU}"
        address = emulator.call("GET", path)["networkEndpoints"][0]["ipAddress"]

        async def direct() -> None:
            """Without the line that can be made slow, which could not carry the flow."""
            emulator.call("DELETE", "/emulator/v1/faults")
            line.close()
            link.retry()
            await link.wait_up()

        if megabytes:
            line(f"rate {megabytes * 1e6}")
        else:
            core_thread().wait(direct())
        rate = 1e9 if megabytes else RATE
        kernel = Kernel(name)
        kernel.start()
        median(kernel)  # warm
        for _ in range(rounds):
            results["alone"]["ms"].append(median(kernel))
            for way in (PEER, OURS):
                with contextlib.ExitStack() as stack:
                    sender = stack.enter_context(running(SENDER, address, str(rate)))
                    port = int(sender.readline())
                    local = stack.enter_context(
                        our_tunnel(link, port)
                        if way == OURS
                        else ssh_tunnel(link, folder, address, port)
                    )
                    reader = stack.enter_context(running(READER, str(local)))
                    reader.readline()  # it flows
                    results[way]["ms"].append(median(kernel))
                    results[way]["MB/s"].append(float(reader.readline()))
        kernel.close()
    finally:
        emulator.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--line", type=float, default=0.0, metavar="MB")
    args = parser.parse_args()
    rounds = args.rounds
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for name in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[name] = str(Path(folder, name.lower()))
            Path(os.environ[name]).mkdir()
        os.environ["IPYTHONDIR"] = str(Path(folder, "ipython"))
        results = measure(Path(folder), rounds, args.line)
    for way, figures in results.items():
        print(f"{way:14}" + "".join(
            f"{statistics.median(values):8.1f} {unit} ({min(values):.1f}–{max(values):.1f})"
            for unit, values in figures.items() if values
        ))  # fmt: skip
    took = {way: statistics.median(figures["ms"]) for way, figures in results.items()}
    longer = took[OURS] - took["alone"]
    goal = "" if args.line else f"   {'≤' if longer <= GOAL else 'not ≤'} {GOAL:g}"
    print(f"longer by {longer:.1f} ms{goal}")
    name = f"busy_tunnel_{args.line:g}" if args.line else "busy_tunnel"
    flowed = {
        way: {what: values for what, values in figures.items() if values}
        for way, figures in results.items()
    }
    write(name, n=rounds, unit="ms", goal=GOAL, results=summaries(flowed))


if __name__ == "__main__":
    main()
