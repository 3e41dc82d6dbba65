"""A file to all hosts of a pod over a thin line: `jupyter tpu copy`, and `scp` to each at once.

The line is shared by all connections from here; between the hosts there is none, as inside Google's
network. The hosts are emulated and share this machine's processors, which encrypt for all of them:
with many hosts that is a part of what is measured.

    python benchmarks/copy_files.py [--size MB] [--rate MB/s] [--rounds N] [--types TYPE…]
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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from _results import spread, summaries, write
from conftest import EmulatorProcess
from fault_proxy import FaultProxy

TPU = [sys.executable, "-m", "jupyter_tpu.cli"]
OURS, PEER = "jupyter tpu copy", "scp"
#: DESIGN.md, section 7: so many times as long as a copy to one host.
GOAL, GOAL_HOSTS = 3.0, 32


@contextlib.contextmanager
def thin_line(emulator: EmulatorProcess, name: str, rate: float) -> Iterator[list[FaultProxy]]:
    """Lines to all hosts, which share *rate* bytes per second; ours takes the one to host 0."""
    with contextlib.ExitStack() as stack:
        lines: list[FaultProxy] = []
        for host in emulator.hosts(name):
            beside, address = lines[0] if lines else None, host["address"]
            line = FaultProxy(address, host["port"], address=address, rate=rate, beside=beside)
            lines.append(stack.enter_context(line))
        fault = {"kind": "line", "node": name, "port": lines[0].port}
        emulator.request("POST", "/emulator/v1/faults", fault)
        yield lines


def measure(
    emulator: EmulatorProcess, kind: str, folder: Path, size: int, rate: float, rounds: int
) -> tuple[int, dict[str, list[float]]]:
    """How many hosts, and the seconds of each round."""
    seconds: dict[str, list[float]] = {OURS: [], PEER: []}
    with emulator.tpu("bench", kind) as node:
        name = node["name"].rpartition("/")[2]
        hosts = len(node["networkEndpoints"])
        names = [name, *(f"{name}-{host}" for host in range(1, hosts))]
        with thin_line(emulator, name, rate) as lines:
            config = folder / "config"
            direct = "".join(
                f"Host {each}\n HostName {line.address}\n Port {line.port}\n ProxyCommand none\n"
                for each, line in zip(names, lines, strict=True)
            )
            config.write_text(run([*TPU, "ssh-config"]))
            for each in names:  # our ProxyCommand writes the host's key
                run(["ssh", "-F", str(config), each, "true"])
            config.write_text(direct + config.read_text())
            # Agents, and keys between the hosts, are there from now on.
            run([*TPU, "run", name, "--", "true"])
            for _ in range(rounds):
                file = folder / "data"
                file.write_bytes(os.urandom(size * 1_000_000))
                copy = [*TPU, "copy", str(file), f"{name}:ours", "--worker", "all", "--overwrite"]
                seconds[OURS].append(timed(partial(run, copy)))
                seconds[PEER].append(timed(partial(scp, config, file, names)))
    return hosts, seconds


def scp(config: Path, file: Path, names: Sequence[str]) -> None:
    copies = [
        subprocess.Popen(["scp", "-q", "-F", str(config), str(file), f"{name}:theirs"])
        for name in names
    ]
    for copy in copies:
        assert copy.wait() == 0


def run(argv: Sequence[str]) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=10, help="MB")
    parser.add_argument("--rate", type=float, default=2.5, help="of the line, MB/s")
    parser.add_argument("--rounds", type=int, default=3)
    types = ["v5litepod-4", "v5litepod-32", "v5litepod-128"]
    parser.add_argument("--types", nargs="+", default=types)
    chosen = parser.parse_args()
    found: dict[int, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as folder:
        os.environ["JUPYTER_TPU_DATA_DIR"] = f"{folder}/tpu"
        emulator = EmulatorProcess(Path(folder, "emulator"))
        os.environ |= emulator.environment
        try:
            for kind in chosen.types:
                hosts, seconds = measure(
                    emulator, kind, Path(folder), chosen.size, chosen.rate * 1e6, chosen.rounds
                )
                found[hosts] = seconds
        finally:
            emulator.stop()
    report(found, chosen)


def report(found: dict[int, dict[str, list[float]]], chosen: argparse.Namespace) -> None:
    print(f"{chosen.size} MB at {chosen.rate:g} MB/s, load {os.getloadavg()[0]:.1f}")
    one = statistics.median(found[min(found)][OURS])
    for hosts, ways in found.items():
        for way, values in ways.items():
            middle = statistics.median(values)
            goal = f"   goal {GOAL:g}" if hosts == GOAL_HOSTS and way == OURS else ""
            print(
                f"{hosts:4} hosts  {way:20}{middle:8.2f} s ±{spread(values):.2f}"
                f"   {middle / one:.1f} × ours to {min(found)}{goal}"
            )
    write(
        "copy_files",
        n=chosen.rounds,
        size_mb=chosen.size,
        rate_mb_per_s=chosen.rate,
        unit="s",
        goal=GOAL,
        results=summaries({str(hosts): ways for hosts, ways in found.items()}),
    )


if __name__ == "__main__":
    main()
