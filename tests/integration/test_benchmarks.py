"""Benchmarks run: each with its smallest size. Their figures say nothing here."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALLEST = {
    "apps": "--size 1 --requests 2 --rounds 1",
    "busy_tunnel": "--rounds 1",
    "copy_files": "--size 1 --rounds 1 --types v5litepod-1",
    "first_cell": "--rounds 1",
    "idle": "--hosts 1 --seconds 2",
    "jaxkit": "--rounds 2",
    "journal": "--rounds 1 --messages 100",
    "kernel": "--rounds 1 --no-outages",
    "memory": "--tpus 1 --hosts 1",
    "panel": "--events 2",
    "planner": "--only 16B:v5e",
    "pod_kernel": "--rounds 1 --no-peers",
    "polls": "--clients 1 --seconds 5",
    "restart": "--rounds 1",
    "run": "--hosts 1 --rounds 1",
    "server_kernels": "--rounds 1 --kernels 1",
    "session": "--size 10 --arrays 10 --rounds 1",
    "startup": "--rounds 1",
    "tunnel": "--size 1 --rounds 1",
    "variables": "--size 1 --rounds 1",
    "vscode": "--rounds 1 --reloads 1",
}
#: What some compare with: the extra `bench`.
PEERS = ("fabric", "ipyparallel", "jupyter_server_proxy", "pssh")


def test_each_benchmark_is_run_by_a_test():
    assert {file.stem for file in BENCHMARKS.glob("[a-z]*.py")} == SMALLEST.keys()


@pytest.mark.long
@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs_with_its_smallest_size_and_writes_its_figures(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import _table as table

    if missing := [peer for peer in PEERS if find_spec(peer) is None]:
        pytest.skip(f"SKIPPED FOR WANT OF {', '.join(missing)}: make .venv/bench")
    if name == "vscode" and not (BENCHMARKS.parent / ".code-server").exists():
        pytest.skip("SKIPPED FOR WANT OF code-server: make test-vscode")
    done = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", *SMALLEST[name].split()],
        env={**os.environ, "BENCHMARKS_OUT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["benchmark"] == name
    missing = [
        row.title
        for row in table.ROWS
        if row.benchmark == name and table.Figure.read(written, row.ours) is None
    ]
    assert name == "run" or not missing  # its row is one of 32 hosts
