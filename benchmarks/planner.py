"""The planner beside MaxText's published training runs: TFLOP/s a chip, predicted and measured.

    python benchmarks/planner.py [--only 16B:v5e,32B:v5p-128] [--timeout 900] [--from-cache]

Rebuilds the published configurations (see _maxtext.py), compiles each with libtpu for the published
topology, without a TPU, and prints what `jaxkit.plan` predicts beside what MaxText's README files
say. Then the order of all pairs of two generations, by the time and by the price of the same work.
The figures are also written to benchmarks/out/planner.json, and the compiler's reports to
planner-compiled/NAME.json beside it: `--from-cache` judges those, in seconds, when the roofline has
changed.
"""

from __future__ import annotations

import argparse
import itertools
import os
from importlib.util import find_spec
from typing import Any

import msgspec
from _maxtext import CONFIGS, Config, step_of
from _results import OUT, write
from msgspec import Struct, structs, to_builtins

from jupyter_tpu.catalog import accelerator_type, usd_per_hour
from jupyter_tpu.errors import TPUError
from jupyter_tpu.jaxkit.compile.compiler import compile_for
from jupyter_tpu.jaxkit.compile.models import CompileLimits, CompileReport
from jupyter_tpu.jaxkit.compile.planner import row_of
from jupyter_tpu.jaxkit.topology import topology

os.environ.setdefault("JAX_PLATFORMS", "cpu")

WITHIN = 0.25
_COMPILED = OUT / "planner-compiled"


class Compiled(Struct, kw_only=True):
    """A rebuilt step as its compiler describes it, without its buffers."""

    #: Sequences a device.
    batch: int
    report: CompileReport


class Result(Struct, kw_only=True):
    """One rebuilt run."""

    name: str
    type: str
    published: float  # TFLOP/s a chip
    predicted: float | None = None
    #: At the longest and the shortest time.
    least: float | None = None
    most: float | None = None
    bound: str = ""
    #: FLOPs of the compiled program, for one of the model.
    executed: float | None = None
    ms: dict[str, float] = {}
    needed_gib: float | None = None
    usd_per_chip_hour: float | None = None
    reason: str = ""

    @property
    def error(self) -> float | None:
        """The error of the prediction, as a share of what was published."""
        return None if self.predicted is None else self.predicted / self.published - 1


def compiled(config: Config, seconds: float) -> Compiled:
    """Compiles a published run, and keeps the report. Raises `TPUError`.

    Plain attention needs more memory than the flash attention of the published run: where that does
    not fit, fewer sequences a device are tried.
    """
    devices = topology(config.type).devices
    limits = CompileLimits(seconds=min(seconds, 3600.0))
    batch = config.batch
    while True:
        step, args, options = step_of(structs.replace(config, batch=batch), devices)
        report = compile_for(config.type, step, *args, limits=limits, **options)
        report.buffers = []
        if report.fits or batch == 1:
            break
        batch = _smaller(batch, report)
    made = Compiled(batch=batch, report=report)
    _COMPILED.mkdir(parents=True, exist_ok=True)
    _file(config).write_bytes(msgspec.json.encode(made))
    return made


def _smaller(batch: int, report: CompileReport) -> int:
    """The batch to try next, since this one does not fit: what it needs beside the arguments grows
    with the batch.
    """
    fixed = report.argument_bytes or 0
    free, used = report.hbm_bytes - fixed, (report.needed_bytes or 0) - fixed
    return max(1, min(batch - 1, int(batch * free / used) if used > 0 else 1))


def cached(config: Config) -> Compiled | None:
    """What `compiled` has kept."""
    try:
        return msgspec.json.decode(_file(config).read_bytes(), type=Compiled)
    except FileNotFoundError:
        return None


def _file(config: Config) -> Any:
    return _COMPILED / f"{config.name}-{config.type}.json"


def judge(config: Config, made: Compiled) -> Result:
    """What the planner says about a published run."""
    hourly = usd_per_hour(accelerator_type(config.type))
    row = row_of(made.report, hourly, None)
    tried = structs.replace(config, batch=made.batch)
    result = Result(name=config.name, type=config.type, published=config.tflops)
    smaller = f"batch {tried.batch} instead of {config.batch}" if tried != config else ""
    result.reason = "; ".join(filter(None, (smaller, row.reason, *row.notes)))
    if row.needed_bytes is not None:
        result.needed_gib = round(row.needed_bytes / 2**30, 2)
    if hourly is not None:
        result.usd_per_chip_hour = round(hourly / row.devices, 3)
    if row.time is None or row.flops is None:
        return result

    def tflops(ms: float | None) -> float | None:
        return None if ms is None else round(tried.model_flops / ms / 1e9, 1)

    result.predicted = tflops(row.time.ms)
    result.least, result.most = tflops(row.time.longest_ms), tflops(row.time.shortest_ms)
    result.bound = row.time.bound
    result.executed = round(row.flops / tried.model_flops, 3)
    result.ms = {
        "compute": round(row.time.compute_ms),
        "HBM": round(row.time.hbm_ms),
        "ICI": round(row.time.ici_ms),
    }
    return result


def pairs(results: list[Result]) -> tuple[int, int, int]:
    """Pairs of two generations; how many have the published order by time, and by price."""
    known = [result for result in results if result.predicted and result.usd_per_chip_hour]
    count = by_time = by_price = 0
    for one, other in itertools.combinations(known, 2):
        if one.type.split("-")[0] == other.type.split("-")[0]:
            continue
        count += 1
        by_time += _faster(one.predicted, other.predicted) == _faster(
            one.published, other.published
        )
        by_price += _cheaper(one, other, "predicted") == _cheaper(one, other, "published")
    return count, by_time, by_price


def _faster(one: Any, other: Any) -> bool:
    return bool(one > other)


def _cheaper(one: Result, other: Result, figure: str) -> bool:
    prices = [item.usd_per_chip_hour / getattr(item, figure) for item in (one, other)]
    return bool(prices[0] < prices[1])


def line(result: Result) -> str:
    """A row of the table in docs/notebooks/jaxkit.md."""
    head = f"| {result.name} | {result.type} | {result.published:g} |"
    if result.predicted is None or result.error is None:
        return f"{head} – | | | | | {result.reason} |"
    least = "not known" if result.least is None else f"{result.least:.0f}"
    return (
        f"{head} {result.predicted:.0f} | {result.error:+.0%} | {least} to {result.most:.0f} | "
        f"{result.bound} | {result.executed:.2f} | {result.reason} |"
    )


def _key(config: Config) -> str:
    return f"{config.name}:{config.type.replace('litepod', 'e')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAMES", help="runs, such as 16B:v5e,32B:v5p-128")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for each of them")
    parser.add_argument(
        "--from-cache", action="store_true", help="compile nothing: judge what was compiled before"
    )
    options = parser.parse_args()
    if not options.from_cache and find_spec("libtpu") is None:
        print("Needs libtpu: pip install 'jupyter-tpu[compile]'.")
        return
    keys = options.only.split(",") if options.only else [""]
    chosen = [config for key in keys for config in CONFIGS if _key(config).startswith(key)]
    print("| model | type | published | predicted | error | range | bound | executed | |")
    print("|---|---|---|---|---|---|---|---|---|")
    results = []
    for config in chosen:
        try:
            made = cached(config) if options.from_cache else compiled(config, options.timeout)
        except TPUError as error:
            print(f"| {config.name} | {config.type} | {config.tflops:g} | – | {error.message} |")
            continue
        if made is None:
            continue
        result = judge(config, made)
        results.append(result)
        print(line(result), flush=True)
        write("planner", results=[to_builtins(done) for done in results])
    known = [result for result in results if result.error is not None]
    near = [result for result in known if abs(result.error or 0.0) <= WITHIN]
    count, by_time, by_price = pairs(results)
    print(f"Within ±{WITHIN:.0%}: {len(near)} of {len(known)} that could be rebuilt.")
    print(f"Pairs in the published order: {by_time} of {count} by time, {by_price} by price.")


if __name__ == "__main__":
    main()
