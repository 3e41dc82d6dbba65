"""What `compile_for` reports is what JAX's own compiling says for the same TPU.

Over meshes with automatic and explicit axes, memory kinds, donated and static arguments, loops,
recomputation and Pallas kernels, with the installed pair of jax and libtpu. The programs are in
programs_for_tpus.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.jaxkit.compile.export import export_program
from jupyter_tpu.jaxkit.topology import topology

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")

jax.config.update("jax_platforms", "cpu")

PROGRAMS = Path(__file__).with_name("programs_for_tpus.py")
V5E = topology("v5litepod-8")


def compared(count: int, seed: int) -> Iterator[dict[str, Any]]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "TPU_"))}
    run = subprocess.run(
        [sys.executable, str(PROGRAMS), str(count), str(seed)],
        env=clean,
        capture_output=True,
        text=True,
        timeout=60 + 60 * count,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(rows) == count
    yield from rows


@pytest.mark.parametrize(
    ("count", "seed"),
    [(3, 1), pytest.param(40, 2, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_memory_is_what_jax_says_for_the_same_topology(count: int, seed: int) -> None:
    for row in compared(count, seed):
        assert row["ours"] == row["jax"], row["case"]
        if row["total"] is None:
            assert row["needed"] >= row["ours"]["argument"] + row["ours"]["code"]
        else:
            assert row["needed"] == row["total"] + row["ours"]["code"]


def test_what_jax_jit_was_told_is_kept() -> None:
    mesh = AbstractMesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, P("data"))
    told = jax.jit(
        lambda x, kernel, power: (x**power @ kernel).sum(),
        in_shardings=(rows, rows),
        static_argnums=2,
        donate_argnums=1,
        compiler_options={"xla_tpu_scoped_vmem_limit_kib": "32768"},
    )
    # The mesh is that of the shardings, the third argument is no array.
    exported = export_program(told, [(64, 128), (128, 8), 2], topology=V5E)
    assert exported.mesh == {"data": 8}
    assert exported.names == ["argument 0", "argument 1"]
    assert exported.donated == [1]
    assert exported.compiler_options == {"xla_tpu_scoped_vmem_limit_kib": "32768"}
    program = jax.export.deserialize(bytearray(exported.blob))
    assert [s.spec for s in program.in_shardings_jax(mesh)] == [P("data"), P("data")]
    # A static argument that looks like a shape is handed on as it is.
    crop = jax.jit(lambda x, size: x[: size[0], : size[1]], static_argnums=1)
    exported = export_program(crop, [(64, 128), (8, 16)], topology=V5E)
    assert jax.export.deserialize(bytearray(exported.blob)).out_avals[0].shape == (8, 16)


def test_arrays_in_the_memory_of_the_host_take_no_hbm() -> None:
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,))
    on_host = NamedSharding(mesh, P(), memory_kind="pinned_host")
    layers = jax.ShapeDtypeStruct((6144, 1024, 1024), "float32", sharding=on_host)
    first = jax.device_put(jnp.ones((8, 1024)), jax.memory.Space.Host)

    def step(layers: Any, first: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return jnp.tanh(x @ jax.device_put(w, jax.memory.Space.Device)), None

        return jax.lax.scan(layer, jax.device_put(first, jax.memory.Space.Device), layers)[0]

    report = jaxkit.compile_for("v5litepod-1", step, layers, first)
    assert report.fits
    assert report.needed_bytes is not None
    assert report.needed_bytes < 8 << 20
    assert report.host_bytes == (24 << 30) + 8 * 1024 * 4
    assert "in the memory of the host, not in HBM" in str(report)
    placed = jaxkit.placement({"d": 1}, {"layers": layers, "x": (8, 128)})
    assert placed.bytes_per_device == 8 * 128 * 4
    assert placed.host_bytes_per_device == 24 << 30
    assert placed.types[0].fits
    assert "on the host" in str(placed)


def test_what_a_wrapper_was_told_and_does_not_give_is_refused_by_name() -> None:
    nnx = pytest.importorskip("flax.nnx")
    told = nnx.jit(lambda x: x, in_shardings=P("data"))
    with pytest.raises(InvalidInput, match="can't take the in_shardings of JitWrapped"):
        export_program(told, [(8,)], topology=V5E, mesh={"data": 8})


def test_what_is_no_array_in_a_model_is_a_constant() -> None:
    @partial(jax.tree_util.register_dataclass, data_fields=["weight", "activation"], meta_fields=[])
    @dataclass
    class Layer:  # as modules of Equinox are
        weight: Any
        activation: Any

    def step(layer: Layer, x: Any) -> Layer:
        return Layer(layer.weight - layer.activation(x @ layer.weight), layer.activation)

    layer = Layer(jnp.ones((64, 64)), jnp.tanh)
    exported = export_program(step, [layer, (64, 64)], topology=V5E, donate_argnums=0)
    assert exported.names == ["argument 0/weight", "argument 1"]
    assert exported.donated == [0]


def test_what_is_no_array_for_equinox_is_a_constant() -> None:
    equinox = pytest.importorskip("equinox")
    jitted = equinox.filter_jit(lambda x, n, flag: x * n if flag else x, donate="all")
    exported = export_program(jitted, [(8,), 3, True], topology=V5E)
    assert (exported.names, exported.donated) == (["argument 0"], [0])
