"""One table of what DESIGN.md compares: each figure beside its peer's in the same run, as a ratio.

    python benchmarks/_table.py [--quick] [--keep] [--show]

Runs the benchmarks of the table (`--quick`: with sizes that take ten minutes together; then all
that are not in it are left out), and prints the ratios with their spread, the goals, and what they
were in the newest release whose figures are kept in benchmarks/history. `--keep` keeps these there,
under the version of this package. `--show` prints the table of the figures in benchmarks/out.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from _results import HERE, OUT
from packaging.version import Version

from jupyter_tpu import __version__

HISTORY = HERE / "history"
#: Smaller sizes, and fewer rounds, of the benchmarks that the table needs.
QUICK = {
    "tunnel": "--size 128 --rounds 3",
    "busy_tunnel": "--rounds 3",
    "run": "--hosts 32 --rounds 3",
    "copy_files": "--types v5litepod-1 --size 1 --rounds 5",
    "kernel": "--rounds 2 --no-outages",
    "server_kernels": "--rounds 2 --kernels 5",
    "pod_kernel": "--rounds 1",
    "session": "--size 400 --rounds 3",
    "startup": "--rounds 5",
}
#: Figures of other releases are compared if they differ by more than this, in times.
WORSE = 1.25
#: Percent of the processors that other programs may use while something is measured.
QUIET = 15.0


@dataclass(frozen=True)
class Row:
    """A figure and its peer's: where the file of a benchmark has them, and the goal."""

    title: str
    benchmark: str
    ours: tuple[str, ...]
    peer: tuple[str, ...]
    goal: float
    #: None: *goal* is a ratio. A unit: it says how much more ours may be, and may be `factor`
    #: times what the file has.
    unit: str | None = None
    factor: float = 1.0


def beside(
    title: str, benchmark: str, what: str, peer: str, goal: float, ours: str = "jupyter-tpu"
) -> Row:
    """The same figure of two ways."""
    return Row(title, benchmark, ("results", ours, what), ("results", peer, what), goal)


tunnel = partial(beside, benchmark="tunnel", peer="ssh -L (gcm)")
in_server = partial(beside, benchmark="server_kernels", peer="local")
pod = partial(beside, benchmark="pod_kernel", ours="pod kernel")
session = partial(beside, benchmark="session", peer="Orbax")


def run(state: str, goal: float) -> Row:
    ours, peer = (
        ("results", "32", f"{way}, {state}", "s") for way in ("jupyter tpu run", "fabric")
    )
    return Row(f"a command on 32 hosts, {state}, beside Fabric", "run", ours, peer, goal)


def copied(title: str, what: str, goal: float) -> Row:
    ours, peer = (("results", f"quick, {way}", what) for way in ("jupyter tpu copy", "scp"))
    return Row(title, "copy_files", ours, peer, goal)


def kernel(title: str, what: str, goal: float, peer: str | None = None, **unit: Any) -> Row:
    at = "at", "0 ms", "figures"
    ours, local = (*at, "jupyter-tpu", what), (*at, "local", peer or what)
    return Row(title, "kernel", ours, local, goal, **unit)


ROWS = (
    tunnel("tunnel, CPU of the client, get", what="get CPU-s/GB", goal=1.1),
    tunnel("tunnel, CPU of the client, put", what="put CPU-s/GB", goal=1.2),
    tunnel("tunnel, CPU of a small request", what="small request CPU µs", goal=1.5),
    Row(
        "1+1 while 100 MB/s flow",
        "busy_tunnel",
        ("results", "jupyter-tpu", "ms"),
        ("results", "ssh -L (gcm)", "ms"),
        0.5,
        "ms",
    ),
    run("connected", 1.3),
    run("cold", 1.2),
    copied("20 MB to a known host beside scp", "s", 1.1),
    copied("20 MB to a known host, CPU", "cpu_s", 2.0),
    kernel("50 MB display by jupyter_client", "50 MB display", 1.3),
    kernel("1+1 by jupyter_client, p50", "execute p50", 1.0, unit="ms", factor=1e3),
    kernel("kernel start until it answers", "start", 1.1),
    kernel("kernel start, warm", "start, warm", 0.35, "start"),
    in_server("200 MB display in the server", what="200 MB display, ms", goal=1.3),
    in_server("an idle kernel's fds in the server", what="each idle kernel: fds", goal=1.1),
    pod(
        "pod kernel: start beside jupyter-distributed",
        what="start",
        peer="jupyter-distributed",
        goal=0.7,
    ),
    pod("pod kernel: a cell beside ipyparallel", what="cell", peer="ipyparallel", goal=1.2),
    session("session: first save beside Orbax", what="first save s", goal=1.15),
    Row(
        "session: 1 array of 200 changed, beside the first save",
        "session",
        ("results", "jupyter-tpu", "1 array changed s"),
        ("results", "jupyter-tpu", "first save s"),
        0.05,
    ),
    session("session: restore beside Orbax", what="restore s", goal=1.15),
    Row(
        "CPU that the extension adds to a server's start",
        "startup",
        ("results", "server", "jupyter_tpu"),
        ("results", "server", "no extension"),
        30.0,
        "ms",
        1e3,
    ),
    Row(
        "jupyter tpu --help beside python -c pass",
        "startup",
        ("results", "--help", "jupyter tpu"),
        ("results", "--help", "python -c pass"),
        90.0,
        "ms",
        1e3,
    ),
)


@dataclass(frozen=True)
class Figure:
    """A median, and half of the distance between the quartiles."""

    median: float
    spread: float

    @classmethod
    def read(cls, file: Any, path: tuple[str, ...]) -> Figure | None:
        """None where the benchmark has no such figure: a peer is not installed, or failed."""
        for key in path:
            if not isinstance(file, dict) or key not in file:
                return None
            file = file[key]
        spread = file["spread"]
        if isinstance(spread, list):
            spread = (spread[1] - spread[0]) / 2
        return cls(file["median"], spread)


@dataclass(frozen=True)
class Compared:
    row: Row
    ours: Figure
    peer: Figure

    @property
    def value(self) -> float:
        """The ratio, or the difference in the row's unit."""
        if self.row.unit is None:
            return self.ours.median / self.peer.median
        return (self.ours.median - self.peer.median) * self.row.factor

    @property
    def spread(self) -> float:
        if self.row.unit is None:
            parts = self.ours.spread / self.ours.median, self.peer.spread / self.peer.median
            return self.value * math.hypot(*parts)
        return math.hypot(self.ours.spread, self.peer.spread) * self.row.factor

    def shown(self, value: float) -> str:
        return f"{value:.2f}×" if self.row.unit is None else f"{value:+.1f} {self.row.unit}"


def measure(quick: bool) -> list[str]:
    """Runs the benchmarks, those of the table or all; the names of those that failed."""
    names = QUICK if quick else sorted(file.stem for file in HERE.glob("[a-z]*.py"))
    failed = []
    for name in names:
        arguments = QUICK[name].split() if quick else []
        begun = time.monotonic()
        print(f"{name} {' '.join(arguments)}", flush=True)
        done = subprocess.run(
            [sys.executable, HERE / f"{name}.py", *arguments],
            stdout=subprocess.PIPE if quick else None,
            stderr=subprocess.STDOUT if quick else None,
            text=True,
        )
        print(f"  {time.monotonic() - begun:.0f} s", flush=True)
        if done.returncode:
            print(done.stdout or "", flush=True)
            failed.append(name)
    return failed


def compared() -> tuple[list[Compared], dict[str, Any]]:
    """All rows whose figures are in benchmarks/out, and what is in the files."""
    files: dict[str, Any] = {}
    for name in sorted({row.benchmark for row in ROWS}):
        path = OUT / f"{name}.json"
        files[name] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    rows = []
    for row in ROWS:
        ours, peer = (Figure.read(files[row.benchmark], path) for path in (row.ours, row.peer))
        if ours and peer and ours.median and peer.median:
            rows.append(Compared(row, ours, peer))
    return rows, files


def newest_release() -> tuple[str, dict[str, float]]:
    """The newest one in the history, and its values by title."""
    kept = sorted(HISTORY.glob("*.json"), key=lambda path: Version(path.stem))
    if not kept:
        return "", {}
    history = json.loads(kept[-1].read_text(encoding="utf-8"))
    return kept[-1].stem, {title: row["value"] for title, row in history["rows"].items()}


def report(rows: list[Compared], files: dict[str, Any]) -> None:
    release, before = newest_release()
    width = max(len(row.title) for row in ROWS) + 2
    machine: dict[str, Any] = next(
        (file["machine"] for file in files.values() if "machine" in file), {}
    )
    print(f"\n{machine.get('processor', '?')}, {machine.get('cores', '?')} cores")
    print(f"{'':{width}}{'ours beside the peer':>24}{'goal':>10}{release:>12}")
    for entry in rows:
        row = entry.row
        missed = "" if entry.value <= row.goal else "  missed"
        if row.title in before and row.unit is None and entry.value > WORSE * before[row.title]:
            missed += f"  worse than in {release}"
        cell = f"{entry.shown(entry.value)} ±{entry.spread:.2g}"
        was = entry.shown(before[row.title]) if row.title in before else ""
        print(f"{row.title:{width}}{cell:>24}{entry.shown(row.goal):>10}{was:>12}{missed}")
    known = {entry.row.title for entry in rows}
    for row in ROWS:
        if row.title not in known:
            print(f"{row.title:{width}}{'not measured':>24}{'':>10}")
    loud = [name for name, file in files.items() if file.get("busy", 0.0) > QUIET]
    if loud:
        print(f"Other programs used this machine before these began: {', '.join(loud)}.")


def keep(rows: list[Compared], files: dict[str, Any]) -> None:
    """Writes the values to benchmarks/history/VERSION.json."""
    first = next(file for file in files.values() if file)
    kept = {
        "commit": first["commit"],
        "machine": first["machine"],
        "rows": {
            entry.row.title: {"value": round(entry.value, 3), "spread": round(entry.spread, 3)}
            for entry in rows
        },
    }
    HISTORY.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (HISTORY / f"{__version__}.json").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, ten minutes together")
    parser.add_argument("--keep", action="store_true", help="keep the values as this version's")
    parser.add_argument("--show", action="store_true", help="only print what was measured before")
    options = parser.parse_args()
    failed = [] if options.show else measure(options.quick)
    rows, files = compared()
    report(rows, files)
    if options.keep and rows:
        keep(rows, files)
    if failed:
        raise SystemExit(f"These benchmarks failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
