"""A file to one host that is known, and to all hosts of a pod over a thin line: `jupyter tpu copy`,
and `scp`, to each host at once.

The line is shared by all connections from here; between the hosts there is none, as inside Google's
network. The hosts are emulated and share this machine's processors, which encrypt for all of them:
with many hosts that is a part of what is measured. CPU-seconds are those of the command alone.

    python benchmarks/copy_files.py [--size MB] [--rate MB/s] [--rounds N] [--types TYPE…] [--alone]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from _results import spread, summaries, write
from conftest import EmulatorProcess
from fault_proxy import FaultProxy

TPU = [sys.executable, "-m", "jupyter_tpu.cli"]
OURS, PEER = "jupyter tpu copy", "scp"
#: DESIGN.md, section 7: so many times as long as a copy to one host.
GOAL, GOAL_HOSTS = 3.0, 32
#: MB of the copy to one host without the thin line; it may take so many times as long as scp.
QUICK_SIZE, QUICK_GOAL = 20, 1.5
#: Seconds, and CPU-seconds.
Times = tuple[float, float]


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
    emulator: EmulatorProcess, kind: str, folder: Path, args: argparse.Namespace
) -> tuple[int, dict[str, list[Times]], dict[str, list[Times]]]:
    """How many hosts, and each round over the line; for one host those without it, too."""
    ways: dict[str, list[Times]] = {OURS: []} if args.alone else {OURS: [], PEER: []}
    quick: dict[str, list[Times]] = {OURS: [], PEER: []}
    with emulator.tpu("bench", kind) as node:
        name = node["name"].rpartition("/")[2]
        hosts = len(node["networkEndpoints"])
        names = [name, *(f"{name}-{host}" for host in range(1, hosts))]
        config, file = folder / "config", folder / "data"
        config.write_text(run([*TPU, "ssh-config"]))
        for host in names:  # our ProxyCommand writes the host's key
            run(["ssh", "-F", str(config), host, "true"])
        # Agents, and keys between the hosts, are there from now on.
        run([*TPU, "run", name, "--", "true"])
        entries = config.read_text()

        def copy_in_rounds(size: int, by_way: dict[str, list[Times]]) -> None:
            copy = [*TPU, "copy", str(file), f"{name}:ours", "--worker", "all", "--overwrite"]
            calls: dict[str, Callable[[], object]] = {
                OURS: partial(run, copy),
                PEER: partial(scp, config, file, names),
            }
            for _ in range(args.rounds):
                file.write_bytes(os.urandom(size * 1_000_000))
                for way, times in by_way.items():
                    times.append(timed(calls[way]))

        if hosts == 1:
            config.write_text(direct(names, emulator.hosts(name)) + entries)
            copy_in_rounds(QUICK_SIZE, quick)
        with thin_line(emulator, name, args.rate * 1e6) as lines:
            config.write_text(direct(names, [vars(line) for line in lines]) + entries)
            copy_in_rounds(args.size, ways)
    return hosts, ways, quick


def direct(names: Sequence[str], addresses: Sequence[Mapping[str, Any]]) -> str:
    """Entries for ssh without our ProxyCommand."""
    return "".join(
        f"Host {name}\n HostName {host['address']}\n Port {host['port']}\n ProxyCommand none\n"
        for name, host in zip(names, addresses, strict=True)
    )


def scp(config: Path, file: Path, names: Sequence[str]) -> None:
    copies = [
        subprocess.Popen(["scp", "-q", "-F", str(config), str(file), f"{name}:theirs"])
        for name in names
    ]
    for copy in copies:
        assert copy.wait() == 0


def run(argv: Sequence[str]) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def timed(call: Callable[[], object]) -> Times:
    begin, used = time.perf_counter(), cpu()
    call()
    return time.perf_counter() - begin, cpu() - used


def cpu() -> float:
    """CPU-seconds of all programs that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split("\n\n")[0].split()))
    parser.add_argument("--size", type=int, default=10, help="MB")
    parser.add_argument("--rate", type=float, default=2.5, help="of the line, MB/s")
    parser.add_argument("--rounds", type=int, default=3)
    types = ["v5litepod-4", "v5litepod-32", "v5litepod-128"]
    parser.add_argument("--types", nargs="+", default=types)
    parser.add_argument("--alone", action="store_true", help="Over the line without scp")
    args = parser.parse_args()
    results: dict[str, dict[str, list[Times]]] = {}
    with tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as folder:
        os.environ["JUPYTER_TPU_DATA_DIR"] = f"{folder}/tpu"
        emulator = EmulatorProcess(Path(folder, "emulator"))
        os.environ |= emulator.environment
        try:
            for kind in args.types:
                hosts, ways, quick = measure(emulator, kind, Path(folder), args)
                results[str(hosts)] = ways
                if hosts == 1:
                    results["quick"] = quick
        finally:
            emulator.stop()
    report(results, args)


def report(results: dict[str, dict[str, list[Times]]], args: argparse.Namespace) -> None:
    print(f"load {os.getloadavg()[0]:.1f}, n = {args.rounds}")
    quick = results.pop("quick", None)
    if quick is not None:
        print(f"{QUICK_SIZE} MB to a host that is known, without the line")
        show("", quick, seconds(quick[PEER]), f"scp   goal {QUICK_GOAL:g}")
    print(f"{args.size} MB at {args.rate:g} MB/s")
    first = min(results, key=int)
    for hosts, ways in results.items():
        goal = f"   goal {GOAL:g}" if int(hosts) == GOAL_HOSTS else ""
        show(f"{hosts:>4} hosts  ", ways, seconds(results[first][OURS]), f"ours to {first}{goal}")
    figures = {
        f"{what}, {way}": {
            "s": [entry[0] for entry in times],
            "cpu_s": [entry[1] for entry in times],
        }
        for what, ways in [*results.items(), ("quick", quick or {})]
        for way, times in ways.items()
    }
    write(
        "copy_files",
        n=args.rounds,
        size_mb=args.size,
        rate_mb_per_s=args.rate,
        quick_size_mb=QUICK_SIZE,
        goals={"hosts": GOAL, "quick": QUICK_GOAL},
        results=summaries(figures),
    )


def show(what: str, ways: dict[str, list[Times]], one: float, of_what: str) -> None:
    for way, times in ways.items():
        every = [entry[0] for entry in times]
        used = statistics.median(entry[1] for entry in times)
        print(
            f"{what}{way:20}{seconds(times):8.2f} s ±{spread(every):.2f}{used:7.2f} CPU-s"
            f"   {seconds(times) / one:.1f} × {of_what}"
        )


def seconds(times: Sequence[Times]) -> float:
    return statistics.median(entry[0] for entry in times)


if __name__ == "__main__":
    main()
