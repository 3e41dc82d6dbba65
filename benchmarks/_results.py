"""What all benchmarks do with their figures: the spread, and a file in benchmarks/out."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BENCHMARKS_OUT") or HERE / "out")
#: Percent of all processors that other programs used in a second before anything was measured.
BUSY = psutil.cpu_percent(interval=1.0)


def spread(values: Sequence[float]) -> float:
    """Half of the distance between the quartiles."""
    if len(values) < 2:
        return 0.0
    quartiles = statistics.quantiles(values, n=4)
    return (quartiles[2] - quartiles[0]) / 2


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median and spread."""
    return {"median": statistics.median(values), "spread": spread(values)}


def summaries(by_way: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Median and spread of each figure of each way."""
    return {
        way: {what: summary(values) for what, values in figures.items()}
        for way, figures in by_way.items()
    }


def machine() -> dict[str, Any]:
    """Its processor, cores, and memory in GB."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    memory = round(psutil.virtual_memory().total / 1e9)
    return {"processor": processor, "cores": os.cpu_count(), "memory_gb": memory}


def write(name: str, **figures: Any) -> None:
    """Writes them to benchmarks/out/NAME.json, with the commit and the machine, and says on which
    machine it was and how quiet that was before.
    """
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
    )
    here = machine()
    result = {"benchmark": name, "commit": commit.stdout.strip(), "machine": here, "busy": BUSY}
    print(f"{here['processor']}, {here['cores']} cores, busy before: {BUSY:.0f} %")
    OUT.mkdir(exist_ok=True)
    text = json.dumps(result | figures, indent=1) + "\n"
    (OUT / f"{name}.json").write_text(text, encoding="utf-8")
