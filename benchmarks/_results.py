"""What all benchmarks do with their figures: the spread, and a file in benchmarks/out."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BENCHMARKS_OUT") or HERE / "out")


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


def write(name: str, **figures: Any) -> None:
    """Writes them to benchmarks/out/NAME.json, with the commit and the load of this machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
    )
    result = {"benchmark": name, "commit": commit.stdout.strip(), "load": os.getloadavg()[0]}
    OUT.mkdir(exist_ok=True)
    text = json.dumps(result | figures, indent=1) + "\n"
    (OUT / f"{name}.json").write_text(text, encoding="utf-8")
