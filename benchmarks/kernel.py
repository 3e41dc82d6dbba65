"""A kernel on an emulated TPU's host beside a local one and beside sshpyk, in one run.

    python benchmarks/kernel.py [--rounds N] [--no-outages]

At 0 and at 40 ms of added round trip: the time to a kernel's first answer, `1+1` (EXECUTES per
round), an interrupt, 100,000 printed lines, a display of 50 MB, a restart, and the start of a
kernel that the host has kept warm. Then a cell prints 300 lines, 0.1 s apart, and after 5 s its
line breaks, for both remote ones at the same time: *cut* (connections are reset, and refused for
1 s), *silent* (20 s, then TCP goes on), *dead* (20 s of silence, and the old connections never
come back). Told are the lines that never arrived, and the seconds from the line's being good again
to the next printed line; meanwhile each is asked every 3 s whether it is alive, as Jupyter Server
does. Links are up before a kernel is started, ours as well as sshpyk's.

All three run the same ipykernel; the two remote ones on one host, through the same sshd, each
through a line of its own (tests/fault_proxy.py). Written to benchmarks/out/kernel.json, too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from _kernel_ways import KernelRoute, Line, ways  # noqa: E402
from _results import write  # noqa: E402
from jupyter_core.utils import run_sync  # noqa: E402

#: Seconds of added round trip.
ROUND_TRIPS = (0.0, 0.040)
EXECUTES = 30
LINES, EVERY, BREAK_AFTER = 300, 0.1, 5.0
#: How long each lasts, seconds, and what the line is told at its begin.
OUTAGES = {"cut": (1.0, ["cut"]), "silent": (20.0, ["hole"]), "dead": (20.0, ["dead", "hole"])}
#: Seconds between two questions whether the kernel is alive, and for an answer.
POLL, POLL_LIMIT = 3.0, 15.0
#: Seconds without a line, after an outage, after which no more is expected.
PATIENCE = 45.0

#: DESIGN.md section 7; "round trip" is the added one.
GOALS: dict[str, Callable[[dict[str, float], float], float]] = {
    "start": lambda local, trip: local["start"] + 3 * trip + 0.3,
    "execute p50": lambda local, trip: local["execute p50"] + trip + 0.004,
    "restart": lambda local, trip: 1.5,
    "start, warm": lambda local, trip: 0.5 * local["start"],
}


class Kernel:
    """A kernel, started, and its one client; each measurement in seconds."""

    def __init__(self, name: str) -> None:
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager(kernel_name=name)
        self.client: Any = None

    def start(self) -> None:
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.kernel_info(reply=True, timeout=60)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def poll(self) -> None:
        """Asks whether it is alive, as Jupyter Server does; only then sshpyk reconnects."""

        async def ask() -> None:
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(POLL_LIMIT):
                    await self.manager._async_is_alive()

        run_sync(ask)()

    def run(self, code: str, on_message: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Runs a cell to its end, reply and idle."""
        reply = self.client.execute_interactive(
            code, timeout=120, allow_stdin=False, output_hook=on_message or (lambda _: None)
        )
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"a cell ended with {reply['content']}")

    def interrupt(self) -> float:
        request = self.client.execute("import time\nprint('begun')\ntime.sleep(60)")
        while "begun" not in str(self.client.get_iopub_msg(timeout=60)["content"].get("text")):
            pass
        begun = time.perf_counter()
        self.manager.interrupt_kernel()
        while self.client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] != request:
            pass
        took = time.perf_counter() - begun
        # What is asked before the kernel has recovered from the error is not run at all.
        for _ in range(100):
            if self.client.execute("pass", reply=True, timeout=60)["content"]["status"] == "ok":
                return took
            time.sleep(0.1)
        raise RuntimeError("no cell runs after an interrupt")

    def restart(self) -> None:
        self.manager.restart_kernel()
        self.client.kernel_info(reply=True, timeout=60)


def timed(what: Callable[..., Any], *arguments: Any) -> float:
    """Seconds that *what* takes."""
    begun = time.perf_counter()
    what(*arguments)
    return time.perf_counter() - begun


def measure(way: KernelRoute) -> dict[str, list[float]]:
    """One kernel's figures, in seconds."""
    kernel = Kernel(way.kernelspec)
    figures = {"start": [timed(kernel.start)]}
    try:
        kernel.client.wait_for_ready(timeout=60)
        kernel.run("pass")
        execute = [
            timed(lambda: kernel.client.execute("1+1", reply=True, timeout=60))
            for _ in range(EXECUTES)
        ]
        figures["execute"] = execute
        figures["interrupt"] = [kernel.interrupt()]
        figures["100k lines"] = [timed(kernel.run, "for i in range(100_000): print(i)")]
        big = "display({'text/plain': '0123456789' * 5_000_000}, raw=True)"
        figures["50 MB display"] = [timed(kernel.run, big)]
        figures["restart"] = [timed(kernel.restart)]
    finally:
        kernel.close()
    if way.warm is not None:
        way.warm(True)
        kernel = Kernel(way.kernelspec)
        figures["start, warm"] = [timed(kernel.start)]
        kernel.close()
        way.warm(False)
    return figures


def suffer(way: KernelRoute, line: Line, outage: str) -> dict[str, float | None]:
    """The lines that one outage cost, and the seconds to the next one once it was over."""
    lasts, faults = OUTAGES[outage]
    kernel = Kernel(way.kernelspec)
    kernel.start()
    text, seen = "", 0  # of the lines, those that are whole
    recovered: float | None = None  # never
    try:
        code = f"import time\nfor i in range({LINES}):\n    print('line', i, flush=True)\n"
        kernel.client.execute(code + f"    time.sleep({EVERY})", allow_stdin=False)
        begun = last = polled = time.monotonic()
        broken = mended = 0.0
        while seen < LINES:
            now = time.monotonic()
            if not broken and now > begun + BREAK_AFTER:
                broken = now
                for fault in faults:
                    line(fault)
            if broken and not mended and now > broken + lasts:
                line("mend")
                mended = last = time.monotonic()
            if mended and now > last + PATIENCE:
                break
            if now > polled + POLL:
                kernel.poll()
                polled = time.monotonic()
            new = printed_soon(kernel.client)
            if new:
                text += new
                seen = len(set(re.findall(r"line (\d+)\n", text)))
                last = time.monotonic()
                if mended and recovered is None:
                    recovered = last - mended
    finally:
        line("mend")
        if recovered is None or seen < LINES:
            way.anew()
        kernel.close()
    return {"lost": LINES - seen, "recovered": recovered}


def suffer_all(way: KernelRoute) -> dict[str, dict[str, float | None]]:
    """All outages of one way; one that ends in an error has lost everything."""
    assert way.line is not None
    losses: dict[str, dict[str, float | None]] = {}
    for outage in OUTAGES:
        try:
            losses[outage] = suffer(way, way.line, outage)
        except Exception as error:
            print(f"{way.kernelspec}, {outage}: {error!r}", file=sys.stderr)
            losses[outage] = {"lost": LINES, "recovered": None}
    return losses


def printed_soon(client: Any) -> str:
    """What the next message prints, which may be a part of a line; "" if none comes soon."""
    try:
        message = client.get_iopub_msg(timeout=0.05)
    except Empty:
        return ""
    return str(message["content"]["text"]) if message["msg_type"] == "stream" else ""


# ---- what came of it


def summary(values: list[float]) -> dict[str, Any]:
    values = sorted(values)
    return {
        "n": len(values),
        "median": statistics.median(values),
        "spread": [values[0], values[-1]],
    }


def summaries(figures: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """The summaries of one way at one round trip."""
    summed = {}
    for what, values in figures.items():
        if what == "execute":
            ordered = sorted(values)
            p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
            summed["execute p50"] = summary(values)
            summed["execute p95"] = {**summary(values), "median": p95}
        else:
            summed[what] = summary(values)
    return summed


def table(trip: float, by_way: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Prints what was measured at one round trip."""
    print(f"\nat {trip * 1000:.0f} ms added round trip; median (least to most), ms")
    print(f"{'':14}" + "".join(f"{way:>26}" for way in by_way) + f"{'goal':>10}")
    local = {what: figures["median"] for what, figures in by_way["local"].items()}
    for what in by_way["jupyter-tpu"]:
        row = f"{what:14}"
        for figures in by_way.values():
            if what in figures:
                low, high = figures[what]["spread"]
                shown = f"{figures[what]['median'] * 1000:.1f} ({low * 1000:.1f}–{high * 1000:.1f})"
            else:
                shown = "–" if figures else "failed"
            row += f"{shown:>26}"
        goal = GOALS.get(what)
        reached = by_way["jupyter-tpu"].get(what, {}).get("median", math.inf)
        if goal is not None:
            limit = goal(local, trip)
            row += f"{'≤ ' if reached <= limit else 'not '}{limit * 1000:.0f}".rjust(10)
        print(row)


def outage_table(trip: float, by_way: dict[str, dict[str, dict[str, float | None]]]) -> None:
    print(
        f"\nat {trip * 1000:.0f} ms: of {LINES} lines lost; s from a good line to the next output"
    )
    print(f"{'':14}" + "".join(f"{outage:>18}" for outage in OUTAGES))
    for way, outages in by_way.items():
        cells = ""
        for figures in outages.values():
            again = figures["recovered"]
            shown = "never" if again is None else f"{again:.1f} s"
            cells += f"{figures['lost']:.0f} lost, {shown}".rjust(18)
        print(f"{way:14}{cells}")


def run(folder: Path, rounds: int, outages: bool) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with ways(folder) as known:
        for trip in ROUND_TRIPS:
            for way in known.values():
                if way.line is not None:
                    way.line(f"delay {trip / 2}")
            figures: dict[str, dict[str, list[float]]] = {name: {} for name in known}
            for number in range(rounds + 1):  # the first is to warm up
                for name, way in known.items():
                    try:
                        measured = measure(way)
                    except Exception as error:  # a peer that fails is told, the others go on
                        print(f"{name} failed: {error!r}", file=sys.stderr)
                        continue
                    if number:
                        for what, values in measured.items():
                            figures[name].setdefault(what, []).extend(values)
            by_way = {name: summaries(measured_times) for name, measured_times in figures.items()}
            table(trip, by_way)
            at = results[f"{trip * 1000:.0f} ms"] = {"figures": by_way}
            if outages:
                remote = {name: way for name, way in known.items() if way.line is not None}
                with ThreadPoolExecutor() as at_once:
                    suffered = at_once.map(suffer_all, remote.values())
                    at["outages"] = dict(zip(remote, suffered, strict=True))
                outage_table(trip, at["outages"])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="kernels of each kind (10)")
    parser.add_argument("--no-outages", action="store_true", help="leave the slow half out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for name in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[name] = str(Path(folder, name.lower()))
            Path(os.environ[name]).mkdir()
        os.environ["IPYTHONDIR"] = str(Path(folder, "ipython"))
        # With it the local kernel, but not the host's, would compile its modules at each start.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        logging.disable(logging.WARNING)
        results = run(Path(folder), options.rounds, not options.no_outages)
    write("kernel", unit="s", n=options.rounds, at=results)


if __name__ == "__main__":
    main()
