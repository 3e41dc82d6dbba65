"""jaxkit: requests to the worker process beside the bare call, and the time to compile for a TPU.

    python benchmarks/jaxkit.py [N]

Prints the median of N (200) small requests of each kind with the spread between the 10th and 90th
percentile: asked of the worker process as REST asks, and called in this process. Then how long the
TPU's own compiler takes for two programs, process start included, beside compiling the same for
this CPU (needs libtpu). The figures are also written to benchmarks/out/jaxkit.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = Path(__file__).resolve().parent
REQUESTS: dict[str, dict[str, Any]] = {
    "prng/sample": {"key": {"seed": 42}, "distribution": "normal", "shape": [3]},
    "prng/split": {"key": {"seed": 42}, "num": 4},
    "placement": {
        "mesh": {"data": 4, "model": 2},
        "arrays": {"w": {"shape": [4096, 1024], "dtype": "bfloat16", "spec": ["data", "model"]}},
        "types": ["v5litepod-8"],
    },
    "tiling": {"arrays": {"w": {"shape": [1000, 100], "dtype": "bfloat16"}}},
}


def figures(seconds: list[float]) -> dict[str, float]:
    """Median and spread in milliseconds."""
    deciles = statistics.quantiles(seconds, n=10)
    return {
        "n": len(seconds),
        "median_ms": round(statistics.median(seconds) * 1e3, 3),
        "p10_ms": round(deciles[0] * 1e3, 3),
        "p90_ms": round(deciles[-1] * 1e3, 3),
    }


async def through_the_worker(name: str, body: bytes, count: int) -> dict[str, float]:
    from jupyter_tpu.jaxkit import JaxWorker

    worker = JaxWorker(processes=1, seconds=120)
    times = []
    try:
        await worker.request(name, body)
        for _ in range(count):
            begun = time.perf_counter()
            await worker.request(name, body)
            times.append(time.perf_counter() - begun)
    finally:
        await worker.close()
    return figures(times)


def called_here(name: str, body: bytes, count: int) -> dict[str, float]:
    from jupyter_tpu.jaxkit.answering import answer

    answer(name, body)
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        answer(name, body)
        times.append(time.perf_counter() - begun)
    return figures(times)


def jax_alone(count: int) -> dict[str, float]:
    """What jax itself takes for the key and the sample: the floor."""
    import jax
    import numpy as np

    np.asarray(jax.random.normal(jax.random.key(42), (3,)))
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        np.asarray(jax.random.normal(jax.random.key(42), (3,)))
        times.append(time.perf_counter() - begun)
    return figures(times)


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"]) ** 2)

        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

    def deep(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            def layer(hidden: Any, pair: Any) -> tuple[Any, None]:
                up, down = pair
                return hidden + jax.nn.gelu(hidden @ up) @ down, None

            return jnp.mean(jax.lax.scan(jax.checkpoint(layer), x, weights)[0] ** 2)

        return jax.tree.map(lambda p, g: p - 0.1 * g, weights, jax.grad(loss)(weights))

    small = {"up": (512, 2048), "down": (2048, 512)}
    large = (((24, 1024, 4096), "bfloat16"), ((24, 4096, 1024), "bfloat16"))
    split = {"mesh": {"data": -1}, "donate_argnums": 0}
    rows = P("data")
    wide = {"in_shardings": (None, rows), **split}
    return {
        "two layers, v5litepod-8": (step, (small, (1024, 512)), wide),
        "24 layers, 200M parameters, v6e-8": (
            deep,
            (large, ((4096, 1024), "bfloat16")),
            {"in_shardings": (P(None, "data"), rows), **split},
        ),
    }  # fmt: skip


def compile_times() -> dict[str, dict[str, Any]]:
    from jupyter_tpu import jaxkit

    if find_spec("libtpu") is None:
        print("libtpu is not installed: nothing compiled for a TPU")
        return {}
    found = {}
    for name, (function, shapes, options) in programs().items():
        begun = time.perf_counter()
        report = jaxkit.compile_for(name.rsplit(", ", 1)[1], function, *shapes, **options)
        whole = time.perf_counter() - begun
        found[name] = {
            "seconds": round(whole, 2),
            "cpu_seconds": round(compiled_here(function, shapes), 2),
            "fits": report.fits,
            "needed_bytes": report.needed_bytes,
            "libtpu": report.libtpu_version,
        }
    return found


def compiled_here(function: Callable[..., Any], shapes: tuple[Any, ...]) -> float:
    import jax

    from jupyter_tpu.jaxkit.exporting import shape_specs

    begun = time.perf_counter()
    jax.jit(function).lower(*(shape_specs(shape) for shape in shapes)).compile()
    return time.perf_counter() - begun


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    requests = {}
    print(f"{'request':14}  {'through the worker':>24}  {'called in process':>24}")
    for name, request in REQUESTS.items():
        body = json.dumps(request).encode()
        there = asyncio.run(through_the_worker(name, body, count))
        here = called_here(name, body, count)
        requests[name] = {"worker": there, "in_process": here}
        print(f"{name:14}  {shown(there):>24}  {shown(here):>24}")
    floor = jax_alone(count)
    print(f"{'jax alone':14}  {'':>24}  {shown(floor):>24}")
    compiled = compile_times()
    for name, row in compiled.items():
        print(
            f"{name}: compiled in {row['seconds']} s (for this CPU: {row['cpu_seconds']} s), "
            f"needs {row['needed_bytes'] / 2**30:.2f} GiB a device, "
            f"{'fits' if row['fits'] else 'does not fit'}"
        )
    out = HERE / "out" / "jaxkit.json"
    out.parent.mkdir(exist_ok=True)
    result = {
        "commit": commit(),
        "requests": requests,
        "jax_alone": floor,
        "compile": compiled,
    }
    out.write_text(json.dumps(result, indent=1) + "\n")


def shown(row: dict[str, float]) -> str:
    return f"{row['median_ms']:.2f} ms ({row['p10_ms']:.2f}–{row['p90_ms']:.2f})"


def commit() -> str:
    run = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
    )
    return run.stdout.strip()


if __name__ == "__main__":
    main()
