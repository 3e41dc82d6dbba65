"""`%tpu session` beside Orbax: arrays on 8 simulated devices, to this machine's disk, in turn.

First save, a save after a cell that changed 1 of the arrays, one after a cell that changed nothing,
and restore. Orbax saves all arrays each time.

    python benchmarks/session.py [--size MB] [--arrays N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec

sys.path.insert(0, str(Path(__file__).parent))
from _results import spread, summaries, write

from jupyter_tpu.on_host.agent.session.session import KernelSession
from jupyter_tpu.on_host.agent.session.storage import Storage

OURS, PEER = "jupyter-tpu", "Orbax"


def variables(size: int, count: int) -> dict[str, Any]:
    """Arrays of float32 and bfloat16 on a mesh, and 100 small values."""
    mesh = jax.make_mesh((4, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data", "model"))
    values: dict[str, Any] = {}
    for number in range(count):
        dtype = jnp.dtype(jnp.bfloat16 if number % 2 else jnp.float32)
        rows = max(8, size // count // dtype.itemsize // 1024)
        key = jax.random.key(number)
        values[f"w{number}"] = jax.device_put(
            jax.random.normal(key, (rows - rows % 8, 1024), dtype), sharding
        )
    jax.block_until_ready(values)
    return values | {f"small{number}": [number, str(number)] for number in range(100)}


def kernel(folder: Path, values: dict[str, Any]) -> tuple[KernelSession, Storage]:
    history = SimpleNamespace(input_hist_parsed=[""], input_hist_raw=[""], output_hist={})
    shell = SimpleNamespace(
        user_ns=values, user_ns_hidden={}, history_manager=history, execution_count=1
    )
    return KernelSession(shell, {}), Storage(str(folder), b"key")


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def ours(folder: Path, values: dict[str, Any]) -> dict[str, float]:
    session, storage = kernel(folder, values)
    figures = {"first save": timed(lambda: session.save(storage, "s"))}
    values["w0"] = jax.block_until_ready(values["w0"] + 1)
    figures["1 array changed"] = timed(lambda: session.save(storage, "s"))
    figures["nothing changed"] = timed(lambda: session.save(storage, "s"))
    restored: dict[str, Any] = {}
    other, _ = kernel(folder, restored)

    def restore() -> None:
        other.restore(storage, "s")
        jax.block_until_ready([value for name, value in restored.items() if name[0] == "w"])

    return {**figures, "restore": timed(restore)}


def orbax(folder: Path, values: dict[str, Any]) -> dict[str, float]:
    arrays = {name: value for name, value in values.items() if name[0] == "w"}
    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:

        def save(step: int) -> None:
            checkpointer.save(folder / str(step), args=ocp.args.PyTreeSave(arrays))
            checkpointer.wait_until_finished()

        figures = {"first save": timed(lambda: save(0))}
        arrays["w0"] = jax.block_until_ready(arrays["w0"] + 1)
        figures["1 array changed"] = timed(lambda: save(1))
        figures["nothing changed"] = timed(lambda: save(2))
        how = ocp.checkpoint_utils.construct_restore_args(arrays)

        def restore() -> None:
            args = ocp.args.PyTreeRestore(restore_args=how)
            jax.block_until_ready(checkpointer.restore(folder / "2", args=args))

        return {**figures, "restore": timed(restore)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1000, help="MB of all arrays")
    parser.add_argument("--arrays", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where it is written (default: of temporary files)")
    args = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {OURS: {}, PEER: {}}
    for _ in range(args.rounds):
        for way, run in ((OURS, ours), (PEER, orbax)):
            folder = Path(tempfile.mkdtemp(dir=args.folder))
            try:
                values = variables(args.size * 1_000_000, args.arrays)
                for what, seconds in run(folder, values).items():
                    results[way].setdefault(f"{what} s", []).append(seconds)
            finally:
                shutil.rmtree(folder)
    report(results, args)


def report(results: dict[str, dict[str, list[float]]], args: argparse.Namespace) -> None:
    print(f"{'median of ' + str(args.rounds):24}{OURS:>20}{PEER:>20}{'ratio':>10}")
    for what in results[OURS]:
        cells = [
            f"{statistics.median(of[what]):.3g} ±{spread(of[what]):.2g}" for of in results.values()
        ]
        ratio = statistics.median(results[OURS][what]) / statistics.median(results[PEER][what])
        print(f"{what:24}" + "".join(f"{cell:>20}" for cell in cells) + f"{ratio:10.2f}")
    write("session", n=args.rounds, size_mb=args.size, results=summaries(results))


if __name__ == "__main__":
    main()
