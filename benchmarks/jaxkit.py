"""jaxkit: requests over REST beside the bare call, and the time to compile for a TPU.

    python benchmarks/jaxkit.py [--rounds N]

Prints the median of N (200) small requests of each kind with the spread between the 10th and 90th
percentile: over HTTP from a real Jupyter server (one connection, a request after the other), asked
of the worker process as the server asks, and called in this process; what the server takes to
answer at all (`api`) stands beside them. Then how long the TPU's own compiler takes for the
programs of the examples and two larger ones, process start included, beside compiling the same for
this CPU, and one of them as an operation over REST (all that needs libtpu). And `compile_for`
beside JAX's own `lower().compile()` for the same topology, as ratios: the first time, and when the
report has been kept. The figures are also written to benchmarks/out/jaxkit.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from _results import write

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


class Rest:
    """One connection to a Jupyter server that knows no project."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self._headers = {"Authorization": f"token {token}"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        try:
            self._connection.request(method, path, body, self._headers)
            answer = self._connection.getresponse()
        except OSError:
            self._connection.close()  # the next one connects again
            raise
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status}: {content[:300]!r}")
        return content

    def jax(self, name: str, body: bytes) -> bytes:
        return self.ask("POST", f"/jupyter-tpu/v1/jax/{name}", body)


@contextlib.contextmanager
def server() -> Iterator[Rest]:
    """A server of its own folders, which ends with this."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port, token = probe.getsockname()[1], secrets.token_hex(16)
        probe.close()
        names = ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_server", f"--ServerApp.port={port}"),
                *("--ServerApp.ip=127.0.0.1", "--ServerApp.open_browser=False", "--allow-root"),
                f"--ServerApp.root_dir={folder}",
                "--ServerApp.jpserver_extensions={'jupyter_tpu': True}",
            ],
            env={
                **os.environ,
                **dict.fromkeys(names, folder),
                "JUPYTER_TPU_DATA_DIR": folder,
                "JUPYTER_TOKEN": token,
            },
            stderr=subprocess.DEVNULL,
        )
        try:
            rest = Rest(port, token)
            for _ in range(600):
                with contextlib.suppress(OSError):
                    rest.ask("GET", "/api")
                    break
                time.sleep(0.1)
            yield rest
        finally:
            process.terminate()
            process.wait(60)


def over_rest(ask: Callable[[], bytes], count: int) -> dict[str, float]:
    ask()
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        ask()
        times.append(time.perf_counter() - begun)
    return figures(times)


async def through_the_worker(name: str, body: bytes, count: int) -> dict[str, float]:
    from jupyter_tpu.jaxkit.rest.pool import JaxWorker

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
    from jupyter_tpu.jaxkit.rest.answers import answer

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


def examples() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """What the notebooks in examples/ compute, taken from their cells."""
    rows = {"mesh": {"data": -1}, "in_shardings": "data"}
    tour, ode, wave = (cells(name) for name in ("jax-tour", "lorenz-ode", "wave-equation"))
    sizes = [1, 64, 64, 1]
    params = [{"w": (n, m), "b": (m,)} for n, m in pairwise(sizes)]
    pond = (256, 256)
    return {
        "jax-tour's step, v5litepod-8": (
            tour["step"],
            (params, params, (512, 1), (512, 1)),
            {"mesh": {"data": -1}, "in_shardings": (None, None, "data", "data")},
        ),
        "lorenz-ode's runs, v5litepod-8": (tour["jax"].vmap(ode["trajectory"]), ((128, 3),), rows),
        "wave-equation's pond, v5litepod-8": (
            lambda u, v: wave["run"](u, v, 6, 40),
            (pond, pond),
            rows,
        ),
    }


def cells(name: str) -> dict[str, Any]:
    """The functions that a notebook defines; nothing else of it is run."""
    import ast

    notebook = json.loads((HERE.parent / "examples" / f"{name}.ipynb").read_text("utf-8"))
    code = "\n".join(
        "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"
    )
    tree = ast.parse(code)
    kept = (ast.FunctionDef, ast.Import, ast.ImportFrom)
    tree.body = [part for part in tree.body if isinstance(part, kept)]
    names: dict[str, Any] = {}
    exec(compile(tree, name, "exec"), names)
    return names


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
        **examples(),
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
    results = {}
    for name, (function, shapes, options) in programs().items():
        begun = time.perf_counter()
        report = jaxkit.compile_for(name.rsplit(", ", 1)[1], function, *shapes, **options)
        whole = time.perf_counter() - begun
        results[name] = {
            "seconds": round(whole, 2),
            "cpu_seconds": round(compiled_here(function, shapes), 2),
            "fits": report.fits,
            "needed_bytes": report.needed_bytes,
            "libtpu": report.libtpu_version,
        }
    return results


_BESIDE_JAX = """
import json, sys, time
sys.path.insert(0, sys.argv[2])
import jax
from jaxkit import programs
from jupyter_tpu.jaxkit import compile_for

function, shapes, options = programs()[sys.argv[3]]
type = sys.argv[3].rsplit(", ", 1)[1]

def earlier(x):
    return x @ x.T

if sys.argv[1] == "next":
    compile_for(type, earlier, (256, 256))
begun = time.perf_counter()
if sys.argv[1].startswith("jax"):
    from jax.experimental import topologies
    from jax.sharding import AxisType, NamedSharding, PartitionSpec
    from jupyter_tpu.jaxkit.compile.export import shape_specs
    from jupyter_tpu.jaxkit.topology import topology

    where = topology(type)
    described = topologies.get_topology_desc(where.name, "tpu", **where.options)
    mesh = jax.make_mesh(
        (where.devices,), ("data",), devices=list(described.devices), axis_types=(AxisType.Auto,)
    )
    given = options["in_shardings"]
    given = given if isinstance(given, tuple) else (given,) * len(shapes)
    specs = [PartitionSpec(*([one] if isinstance(one, str) else one or ())) for one in given]
    arguments = [
        jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(
                leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec)
            ),
            shape_specs(shape),
        )
        for shape, spec in zip(shapes, specs)
    ]
    with jax.set_mesh(mesh):
        if sys.argv[1] == "jax next":
            square = jax.ShapeDtypeStruct(
                (256, 256), "float32", sharding=NamedSharding(mesh, PartitionSpec())
            )
            jax.jit(earlier).lower(square).compile()
            begun = time.perf_counter()
        jax.jit(function).lower(*arguments).compile()
else:
    compile_for(type, function, *shapes, **options)
print(json.dumps(time.perf_counter() - begun), flush=True)
import os
os._exit(0)
"""


def beside_jax(rounds: int = 3) -> dict[str, Any]:
    """compile_for beside ``lower().compile()`` for the same topology, each in a new process: its
    first program, the same program again (a new process that finds the report), and another
    program as the process's second, as when somebody tries variants. Medians, and their ratios.
    """
    from jupyter_tpu.jaxkit.compile.compiler import ENVIRONMENT

    results = {}
    for name in programs():
        if name.startswith("24 layers"):
            continue
        ways = ("jax", "first", "again", "jax next", "next")
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, **ENVIRONMENT, "JUPYTER_TPU_DATA_DIR": folder}
                for who, times in seconds.items():
                    if who == "next":
                        shutil.rmtree(Path(folder, "compiled"), ignore_errors=True)
                    run = subprocess.run(
                        [sys.executable, "-c", _BESIDE_JAX, who, str(HERE), name],
                        env=environment,
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    times.append(float(run.stdout.splitlines()[-1]))
        medians = {who: statistics.median(times) for who, times in seconds.items()}
        results[name] = {
            **{f"{who}_seconds": round(median, 2) for who, median in medians.items()},
            "first_ratio": round(medians["first"] / medians["jax"], 2),
            "again_ratio": round(medians["again"] / medians["jax"], 3),
            "next_ratio": round(medians["next"] / medians["jax next"], 2),
        }
    return results


CODE = """
import jax, jax.numpy as jnp

def step(params, x):
    def loss(params):
        return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"]) ** 2)

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))
"""


def compiled_over_rest(rest: Rest) -> dict[str, Any]:
    """The two layers again, from the request to the end of the operation."""
    shapes = {"up": {"shape": [512, 2048]}, "down": {"shape": [2048, 512]}}
    body = {
        "code": CODE,
        "function": "step",
        "type": "v5litepod-8",
        "mesh": {"data": -1},
        "arguments": [{"tree": shapes}, {"shape": [1024, 512], "spec": ["data"]}],
    }
    begun = time.perf_counter()
    operation = json.loads(rest.jax("compile", json.dumps(body).encode()))
    accepted = time.perf_counter() - begun
    while operation["state"] == "running":
        time.sleep(0.02)
        operation = json.loads(rest.ask("GET", f"/jupyter-tpu/v1/operations/{operation['id']}"))
    if operation["state"] != "done":
        raise RuntimeError(operation["problem"])
    return {
        "accepted_ms": round(accepted * 1e3, 1),
        "seconds": round(time.perf_counter() - begun, 2),
    }


def compiled_here(function: Callable[..., Any], shapes: tuple[Any, ...]) -> float:
    import jax

    from jupyter_tpu.jaxkit.compile.export import shape_specs

    begun = time.perf_counter()
    jax.jit(function).lower(*(shape_specs(shape) for shape in shapes)).compile()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="requests of each kind (200)")
    count = parser.parse_args().rounds
    requests = {}
    print(f"{'request':14}  {'over REST':>22}  {'from the worker':>22}  {'called in process':>22}")
    with server() as rest:
        for name, request in REQUESTS.items():
            body = json.dumps(request).encode()
            wire = over_rest(partial(rest.jax, name, body), count)
            there = asyncio.run(through_the_worker(name, body, count))
            here = called_here(name, body, count)
            requests[name] = {"rest": wire, "worker": there, "in_process": here}
            print(f"{name:14}  {shown(wire):>22}  {shown(there):>22}  {shown(here):>22}")
        bare = over_rest(lambda: rest.ask("GET", "/api"), count)
        floor = jax_alone(count)
        print(f"{'GET /api':14}  {shown(bare):>22}")
        print(f"{'jax alone':14}  {'':>22}  {'':>22}  {shown(floor):>22}")
        compiled = compile_times()
        beside = beside_jax() if compiled else {}
        wire = compiled_over_rest(rest) if compiled else {}
    for name, row in compiled.items():
        print(
            f"{name}: compiled in {row['seconds']} s (for this CPU: {row['cpu_seconds']} s), "
            f"needs {row['needed_bytes'] / 2**20:,.1f} MiB a device, "
            f"{'fits' if row['fits'] else 'does not fit'}"
        )
    for name, row in beside.items():
        print(
            f"{name}: jax alone {row['jax_seconds']} s, compile_for {row['first_ratio']} times "
            f"that, again in another process {row['again_ratio']} times, another program "
            f"in the same process {row['next_ratio']} times what jax takes for it"
        )
    if wire:
        print(
            f"two layers over REST: accepted in {wire['accepted_ms']} ms, "
            f"the operation done in {wire['seconds']} s"
        )
    write(
        "jaxkit",
        requests=requests,
        get_api=bare,
        jax_alone=floor,
        compile=compiled,
        beside_jax=beside,
        compile_over_rest=wire,
    )


def shown(row: dict[str, float]) -> str:
    return f"{row['median_ms']:.2f} ms ({row['p10_ms']:.2f}–{row['p90_ms']:.2f})"


if __name__ == "__main__":
    main()
