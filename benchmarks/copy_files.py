"""`jupyter tpu copy` of a file to the hosts of a pod beside `scp` to each of them at once, in turn.

The hosts are emulated: they share the processors of this machine, which encrypt for all of them. So
the figures say less of a network than of the work.

    python benchmarks/copy_files.py [--size MB] [--rounds N] [--types TYPE…]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import EmulatorProcess
from tunnel import OUT, _spread

TPU = [sys.executable, "-m", "jupyter_tpu.cli"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100, help="MB")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--types", nargs="+", default=["v5litepod-4", "v5litepod-16"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JUPYTER_TPU_DATA_DIR"] = f"{folder}/tpu"
        emulator = EmulatorProcess(Path(folder, "emulator"))
        os.environ |= emulator.environment
        try:
            found = {
                kind: measure(emulator, kind, Path(folder), chosen.size, chosen.rounds)
                for kind in chosen.types
            }
        finally:
            emulator.stop()
    report(found, chosen)


def measure(
    emulator: EmulatorProcess, kind: str, folder: Path, size: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each round."""
    seconds: dict[str, list[float]] = {"jupyter tpu copy": [], "scp": []}
    with emulator.tpu("bench", kind) as node:
        name = node["name"].rpartition("/")[2]
        hosts = len(node["networkEndpoints"])
        config = folder / "config"
        config.write_bytes(run([*TPU, "ssh-config"]))
        names = [name, *(f"{name}-{host}" for host in range(1, hosts))]
        for _ in range(rounds):
            file = folder / "data"
            file.write_bytes(os.urandom(size * 1_000_000))
            copy = [*TPU, "copy", str(file), f"{name}:ours", "--worker", "all", "--overwrite"]
            seconds["jupyter tpu copy"].append(timed(partial(run, copy)))
            seconds["scp"].append(timed(partial(scp, config, file, names)))
    return seconds


def scp(config: Path, file: Path, names: Sequence[str]) -> None:
    copies = [
        subprocess.Popen(["scp", "-q", "-F", str(config), str(file), f"{name}:theirs"])
        for name in names
    ]
    for copy in copies:
        assert copy.wait() == 0


def run(argv: Sequence[str]) -> bytes:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def report(found: dict[str, dict[str, list[float]]], chosen: argparse.Namespace) -> None:
    for kind, ways in found.items():
        for way, values in ways.items():
            print(f"{kind:16}{way:20}{statistics.median(values):8.2f} s ±{_spread(values):.2f}")
    OUT.mkdir(exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    result = {
        "benchmark": "copy_files",
        "commit": commit.stdout.strip(),
        "n": chosen.rounds,
        "size_mb": chosen.size,
        "results": {
            kind: {
                way: {"median": statistics.median(values), "spread": _spread(values)}
                for way, values in ways.items()
            }
            for kind, ways in found.items()
        },
    }
    (OUT / "copy_files.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
