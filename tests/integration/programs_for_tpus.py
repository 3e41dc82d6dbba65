"""Programs compiled by jaxkit and by JAX itself for the same TPU: ``programs_for_tpus.py N SEED``.

Prints, for N programs drawn from all combinations, a JSON line with what `compile_for` reports and
what ``jax.jit(…).lower(…).compile()`` says. A process of its own, which has simulated devices and
loads libtpu.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any, NamedTuple

from jupyter_tpu.jaxkit.compile.compiler import ENVIRONMENT

os.environ.update(ENVIRONMENT, JAX_NUM_CPU_DEVICES="8")

import jax
import jax.numpy as jnp
from jax.experimental import pallas, topologies
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jupyter_tpu import jaxkit
from jupyter_tpu.jaxkit.topology import topology

LAYERS, SIZE, ROWS = 4, 512, 1024


class Case(NamedTuple):
    """One program, and how it is said where its arrays lie."""

    type: str
    axes: str  # of the mesh: "Auto", "Explicit"
    body: str
    told: str  # by whom the shardings: "arguments", "option", "jit"
    donated: bool
    on_host: bool  # the weights


CASES = [
    Case(*values)
    for values in product(
        ("v5litepod-8", "v6e-8", "v5p-16"),
        ("Auto", "Explicit"),
        ("loop", "scan", "remat", "kernel"),
        ("arguments", "option", "jit"),
        (True, False),
        (True, False),
    )
    # JAX itself refuses these: explicit types come from arguments.
    if values[1:4] != ("Explicit", "kernel", "jit")
]


def step_of(case: Case) -> Callable[..., Any]:
    """A step of weights, a batch and a static number."""

    def layer(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    def kernel(x: Any) -> Any:
        def double(source: Any, result: Any) -> None:
            result[...] = source[...] * 2

        return pallas.pallas_call(double, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    def forward(w: Any, x: Any, turns: int) -> Any:
        once = jax.checkpoint(layer) if case.body == "remat" else layer
        for _ in range(turns):
            if case.body == "loop":
                for number in range(LAYERS):
                    x = once(x, w[number])
            else:
                x = jax.lax.scan(lambda x, w: (once(x, w), None), x, w)[0]
        if case.body == "kernel":
            x = jax.shard_map(kernel, in_specs=P("data"), out_specs=P("data"), check_vma=False)(x)
        return x

    def step(w: Any, x: Any, turns: int) -> Any:
        here = jax.device_put(w, jax.memory.Space.Device) if case.on_host else w
        if case.axes == "Explicit" or case.body == "kernel":
            here, loss = here * 0.5, forward(here, x, turns)
        else:
            loss, slope = jax.value_and_grad(lambda w: jnp.mean(forward(w, x, turns) ** 2))(here)
            here = here - slope
        return jax.device_put(here, jax.memory.Space.Host) if case.on_host else here, loss

    return step


def shardings_of(case: Case, mesh: Mesh) -> tuple[NamedSharding, NamedSharding]:
    kind = "pinned_host" if case.on_host else None
    return NamedSharding(mesh, P(), memory_kind=kind), NamedSharding(mesh, P("data"))


def jitted(case: Case, mesh: Mesh) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function, its arguments, and the options of `compile_for`, on *mesh*."""
    both = shardings_of(case, mesh)
    options: dict[str, Any] = {"static_argnums": 2, "donate_argnums": 0 if case.donated else ()}
    if case.told == "jit":
        options["in_shardings"] = both
    spread = both if case.told == "arguments" else (None, None)
    arguments = tuple(
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
        for shape, sharding in zip(((LAYERS, SIZE, SIZE), (ROWS, SIZE)), spread, strict=True)
    )
    told = {"in_shardings": (*both, None)} if case.told == "option" else {}
    return jax.jit(step_of(case), **options), (*arguments, 2), told


def figures(case: Case) -> dict[str, Any]:
    """What both say."""
    kinds = (AxisType[case.axes],)
    here = jax.make_mesh((8,), ("data",), axis_types=kinds)
    fn, arguments, told = jitted(case, here)
    if case.told == "option":
        told["mesh"] = here
    with jax.set_mesh(here) if case.told == "jit" else nullcontext():
        report = jaxkit.compile_for(case.type, fn, *arguments, **told)
    where = topology(case.type)
    described = topologies.get_topology_desc(where.name, "tpu", **where.options)
    there = jax.make_mesh((8,), ("data",), axis_types=kinds, devices=list(described.devices))
    # JAX has no option beside those of jit and of the arguments.
    fn, arguments, _ = jitted(
        case._replace(told="jit" if case.told == "jit" else "arguments"), there
    )
    with jax.set_mesh(there):
        compiled = fn.lower(*arguments).compile()
    stats = compiled.memory_analysis()
    return {
        "case": case._asdict(),
        "ours": {
            "argument": report.argument_bytes,
            "output": report.output_bytes,
            "aliased": report.aliased_bytes,
            "temporary": report.jax_temporary_bytes,
            "code": report.code_bytes,
            "peak": report.jax_peak_bytes,
            "host": report.host_bytes,
        },
        "jax": {
            "argument": stats.argument_size_in_bytes,
            "output": stats.output_size_in_bytes,
            "aliased": stats.alias_size_in_bytes,
            "temporary": stats.temp_size_in_bytes,
            "code": stats.generated_code_size_in_bytes,
            "peak": stats.peak_memory_in_bytes,
            "host": stats.host_argument_size_in_bytes
            + stats.host_output_size_in_bytes
            + stats.host_temp_size_in_bytes
            - stats.host_alias_size_in_bytes,
        },
        "needed": report.needed_bytes,
        "total": getattr(stats, "total_allocation_bytes", None),  # of jax 0.12
    }


if __name__ == "__main__":
    for case in random.Random(int(sys.argv[2])).sample(CASES, int(sys.argv[1])):
        print(json.dumps(figures(case)), flush=True)
    os._exit(0)  # libtpu's threads make an orderly end slow
