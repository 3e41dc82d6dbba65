"""The collectives of compiled programs are those that the programs were written with.

Each program is a `shard_map` over axes of a mesh, in a loop or not, so that the number of its
collectives and the bytes that a device sends are known. The forms in which the partitioner writes
its own are in unit/test_jaxkit_hlo.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jupyter_tpu import jaxkit

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")

jax.config.update("jax_platforms", "cpu")

ROWS, COLUMNS = 1024, 512
MESHES = {"v5litepod-16": {"a": 4, "b": 4}, "v4-16": {"a": 2, "b": 4}, "v6e-16": {"a": 2, "b": 8}}


#: The compiler makes an all-reduce of it if it joins all devices.
PARTLY = ("reduce-scatter",)


class Kind(NamedTuple):
    """A collective as JAX writes it, and what a device sends in a ring for n devices and 1 byte."""

    name: str
    call: Callable[[Any, Any], Any]
    result: Callable[[int], float]
    sent: Callable[[int], float]


KINDS = (
    Kind("all-reduce", jax.lax.psum, lambda n: 1, lambda n: 2 * (n - 1) / n),
    Kind(
        "all-gather",
        lambda x, axes: jax.lax.all_gather(x, axes, tiled=True),
        lambda n: n,
        lambda n: n - 1,
    ),
    Kind(
        "reduce-scatter",
        lambda x, axes: jax.lax.psum_scatter(x, axes, tiled=True),
        lambda n: 1 / n,
        lambda n: (n - 1) / n,
    ),
    Kind(
        "all-to-all",
        lambda x, axes: jax.lax.all_to_all(x, axes, 0, 1, tiled=True),
        lambda n: 1,
        lambda n: (n - 1) / n,
    ),
)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 14))]
)
def test_collectives_are_those_that_the_program_has(seed: int) -> None:
    random = Random(seed)
    type = random.choice(list(MESHES))
    sizes = MESHES[type]
    mesh = AbstractMesh(
        tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes)
    )
    turns = random.choice((1, 5))
    chosen = [
        (kind, random.choice([("a",), ("b",), ("a", "b")][: 2 if kind.name in PARTLY else 3]))
        for kind in KINDS
    ]

    def local(x: Any) -> Any:
        def turn(carry: Any, number: Any) -> Any:
            total = carry
            for place, (kind, axes) in enumerate(chosen):
                total = total + jnp.max(kind.call(jnp.sin(carry + number + place), axes))
            return total, None

        return jax.lax.scan(turn, x, jnp.arange(turns, dtype=jnp.float32))[0]

    spread = P(("a", "b"))
    whole = jax.ShapeDtypeStruct(
        (ROWS * prod(sizes.values()), COLUMNS), "float32", sharding=NamedSharding(mesh, spread)
    )
    step = jax.shard_map(local, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)
    report = jaxkit.compile_for(type, step, whole)
    found = {row.kind: row for row in report.collectives}
    assert found.keys() == {kind.name for kind, _ in chosen}
    size = ROWS * COLUMNS * 4
    for kind, axes in chosen:
        group = prod(sizes[axis] for axis in axes)
        row = found[kind.name]
        assert row.count == turns, (kind.name, axes)
        assert row.bytes == pytest.approx(turns * size * kind.result(group), rel=1e-6)
        assert row.sent_bytes == pytest.approx(turns * size * kind.sent(group), rel=1e-6)
        assert row.sent_by_all == (row.sent_bytes if len(axes) == 2 else 0)
