"""`%tpu push` and `%tpu pull` of an array beside `scp` of a file of the same size, in turn.

Both go to one sshd on loopback, near and 40 ms away. scp uses the cipher that ours uses. The kernel
is a process of this machine; its messages go straight to it, as they are the small part.

    python benchmarks/variables.py [--size MB] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _results import spread, summaries, write
from _slow_line import slow_line
from tunnel import ROUND_TRIP, Sshd

from jupyter_tpu.links import core_thread
from jupyter_tpu.magics import stream
from jupyter_tpu.magics.remote import RemoteKernel
from jupyter_tpu.ssh import HostAddress, connect

OURS, PEER = "jupyter-tpu", "scp (gcm)"


def ours(sshd: Sshd, port: int, kernel: RemoteKernel, array: Any) -> dict[str, Callable[[], Any]]:
    """Pushing and pulling over a connection of its own."""
    address = HostAddress(
        address="127.0.0.1",
        port=port,
        user=sshd.user,
        alias="bench",
        host_keys=(sshd.host_key,),
        identity_file=sshd.folder / "user",
        loopbacks=("127.0.0.1",),
    )
    connection = core_thread().wait(connect(address))
    kernel.host = lambda _=0: connection  # type: ignore[method-assign, assignment, return-value]

    def silent(done: int, total: int) -> None:
        pass

    return {
        "push": lambda: stream.push(kernel, {"array": array}, silent),
        "pull": lambda: stream.pull(kernel, ["array"], silent, unpickle=False),
        "close": lambda: core_thread().wait(connection.close()),
    }


def scp(sshd: Sshd, port: int, file: Path) -> dict[str, Callable[[], Any]]:
    def copy(source: str, target: str) -> None:
        subprocess.run(
            [
                *("scp", "-O", "-q", "-F", "/dev/null", "-P", str(port)),
                *("-c", "aes128-gcm@openssh.com", "-i", str(sshd.folder / "user")),
                *("-o", "HostKeyAlias=bench", "-o", f"UserKnownHostsFile={sshd.folder / 'known'}"),
                *(source, target),
            ],
            check=True,
        )

    there = f"{sshd.user}@127.0.0.1:{file}.there"
    return {
        "push": lambda: copy(str(file), there),
        "pull": lambda: copy(there, f"{file}.here"),
        "close": lambda: None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100, help="MB per transfer")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    size = args.size * 1_000_000
    array = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    results: dict[str, dict[str, list[float]]] = {OURS: {}, PEER: {}}
    kernel = RemoteKernel("python3", "bench", "default", "bench")
    kernel.start()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "array")
        file.write_bytes(array.tobytes())
        sshd = Sshd(Path(folder))
        try:
            with slow_line("127.0.0.1", sshd.port, ROUND_TRIP) as far:
                for _ in range(args.rounds):
                    for where, port in (("", sshd.port), (" at 40 ms", far)):
                        for name, ways in (
                            (OURS, ours(sshd, port, kernel, array)),
                            (PEER, scp(sshd, port, file)),
                        ):
                            for what in ("push", "pull"):
                                begin = time.perf_counter()
                                ways[what]()
                                speed = size / 1e6 / (time.perf_counter() - begin)
                                results[name].setdefault(f"{what}{where} MB/s", []).append(speed)
                            ways["close"]()
        finally:
            kernel.end()
            sshd.process.terminate()
            sshd.process.wait()
    report(results, args)


def report(results: dict[str, dict[str, list[float]]], args: argparse.Namespace) -> None:
    print(f"{'median of ' + str(args.rounds):24}" + "".join(f"{name:>20}" for name in results))
    for what in results[OURS]:
        cells = [
            f"{statistics.median(of[what]):.3g} ±{spread(of[what]):.2g}" for of in results.values()
        ]
        print(f"{what:24}" + "".join(f"{cell:>20}" for cell in cells))
    write("variables", n=args.rounds, size_mb=args.size, results=summaries(results))


if __name__ == "__main__":
    main()
