"""Tiles: what the TPU's own compiler said of thousands of arrays, and sums that must add up."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError
from jupyter_tpu.jaxkit.shapes import BITS
from jupyter_tpu.jaxkit.topology import GENERATIONS

VECTORS = json.loads(Path(__file__).with_name("jaxkit_layouts.json").read_text())
CASES = [(name, group) for group in VECTORS["layouts"] for name in group["of"]]

shapes = st.lists(
    st.one_of(st.integers(0, 40), st.sampled_from([96, 127, 128, 129, 1000, 4096])), max_size=4
)
dtypes = st.sampled_from(sorted(set(BITS) - {"complex128"}))
generations = st.sampled_from(GENERATIONS)


def test_layouts_and_bytes_are_the_compilers() -> None:
    for name, group in CASES:
        generation, dtype = name.split("/")
        rows = [jaxkit.tiling(shape, dtype, generation) for shape in VECTORS["shapes"]]
        assert [row.layout for row in rows] == group["layouts"], name
        assert sum(row.padded_bytes for row in rows) == group["bytes"], name


def test_the_vectors_cover_every_generation_and_width() -> None:
    names = {name for name, _ in CASES}
    for generation in GENERATIONS:
        for dtype in ("float32", "bfloat16", "int8", "int4", "int2", "bool", "float8_e4m3fn"):
            assert f"{generation}/{dtype}" in names


@given(shape=shapes, dtype=dtypes, generation=generations)
def test_padding_never_loses_and_the_full_shape_wastes_nothing(shape, dtype, generation) -> None:
    row = jaxkit.tiling(shape, dtype, generation)
    assert row.padded_bytes >= row.bytes
    assert row.waste == row.padded_bytes - row.bytes
    assert row.padded_bytes == jaxkit.padded_bytes(shape, dtype, generation)
    assert all(full >= size for full, size in zip(row.full_shape, shape, strict=True))
    unpacked = BITS[dtype] < 8 and generation in ("v2", "v3")  # 4 bits take 8 there, always
    if shape and prod(shape) and not unpacked:
        full = jaxkit.tiling(row.full_shape, dtype, generation)
        assert full.padded_bytes == row.padded_bytes
        assert full.waste == 0


@given(shape=shapes, dtype=dtypes)
def test_the_layout_names_every_dimension_once(shape, dtype) -> None:
    layout = jaxkit.tiling(shape, dtype, "v6e").layout
    order = re.match(r"\{([\d,]*)", layout)[1]
    assert sorted(int(axis) for axis in order.split(",") if axis) == list(range(len(shape)))


def test_a_row_of_three_takes_four_rows_and_a_column_of_one_is_turned() -> None:
    assert jaxkit.tiling((3, 1000), "float32").layout == "{1,0:T(4,128)}"
    assert jaxkit.tiling((1000, 1), "float32").layout == "{0,1:T(1,128)}"
    assert jaxkit.padded_bytes((1000, 1), "float32", "v5e") == 4096
    assert jaxkit.padded_bytes((1000, 1), "float32", "v3") == 8192


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("v5litepod-8", "v5e"),
        ("v5e-8", "v5e"),
        ("v5e-256", "v5e"),
        ("v3-8", "v3"),
        ("v4-8", "v4"),
        ("tpu7x-2x2x1", "tpu7x"),
    ],
)
def test_a_type_stands_for_its_generation(name: str, generation: str) -> None:
    assert jaxkit.padded_bytes((1000, 1), "int8", name) == jaxkit.padded_bytes(
        (1000, 1), "int8", generation
    )
    assert jaxkit.tiling_table({"x": (3,)}, name) == jaxkit.tiling_table({"x": (3,)}, generation)


def test_a_table_prints_readably_in_a_terminal() -> None:
    table = jaxkit.tiling_table({"x": (3,)})
    assert repr(table) == str(table)
    first, heads, row = repr(table).splitlines()
    assert first.startswith("12 B take 512 B in the HBM of a TPU v5e: 98 % padding")
    assert heads.split()[:3] == ["dtype", "shape", "size"]
    assert row.split()[:2] == ["x", "float32"]


def test_a_table_shows_the_worst_first_and_adds_up() -> None:
    table = jaxkit.tiling_table(
        {"small": (3,), "deep": {"w": ((1000, 100), "bfloat16")}, "list": [(8, 128)]}, "v5e"
    )
    assert [row.name for row in table.arrays] == ["deep/w", "small", "list/0"]
    assert table.padded_bytes == sum(row.padded_bytes for row in table.arrays)
    text = str(table)
    assert "deep/w" in text
    assert "1024×104" in text  # turned: the thousand along the lanes
    html = table._repr_html_()
    assert html.count("<tr>") == 4


@pytest.mark.parametrize(
    ("implementation", "words"), [("threefry2x32", 2), ("rbg", 4), ("unsafe_rbg", 4)]
)
def test_random_keys_take_what_their_numbers_take(implementation: str, words: int) -> None:
    keys = jax.eval_shape(
        lambda: jax.random.split(jax.random.key(0, impl=implementation), (100, 3))
    )
    row = jaxkit.tiling_table({"rng": keys}).arrays[0]
    data = jaxkit.tiling((100, 3, words), "uint32")
    assert (row.shape, row.dtype) == ([100, 3], str(keys.dtype))
    assert (row.bytes, row.padded_bytes, row.layout) == (
        data.bytes,
        data.padded_bytes,
        data.layout,
    )
    assert row.full_shape == [128, 3]
    assert jaxkit.padded_bytes((128, 3), keys.dtype) == row.padded_bytes
    assert jaxkit.padded_bytes((128, 3), str(keys.dtype)) == row.padded_bytes
    one = jaxkit.tiling((), keys.dtype)
    assert one.padded_bytes == jaxkit.padded_bytes((words,), "uint32")
    assert one.full_shape == []


def test_names_in_html_are_escaped() -> None:
    assert "<script>" not in jaxkit.tiling_table({"<script>": (3,)})._repr_html_()


@pytest.mark.parametrize(
    ("shape", "dtype", "generation", "says"),
    [
        ((-1,), "float32", "v5e", "not -1"),
        ((1 << 60,), "float32", "v5e", "2**53"),
        ((True,), "float32", "v5e", "whole number"),
        ((1.0,), "float32", "v5e", "whole number"),
        ((3,), "float33", "v5e", "Unknown dtype 'float33'"),
        ((3,), None, "v5e", "Unknown dtype"),
        ((3,), "float32", "v9", "Unknown TPU generation 'v9'"),
        ((3,), "float32", "v5e-7", "The TPU type v5litepod-7 does not exist"),
        ((3,), "float32", "tpu8i", "Google has announced TPU 8i"),
        ((3,), "float32", "tpu8t-8", "libtpu 0.0.50.1 has no such topology"),
        ("3x4", "float32", "v5e", "list of whole numbers"),
    ],
)
def test_bad_shapes_dtypes_and_generations_are_refused(shape, dtype, generation, says) -> None:
    with pytest.raises(TPUError) as caught:
        jaxkit.padded_bytes(shape, dtype, generation)
    assert says in str(caught.value)


def test_a_shape_of_terabytes_is_only_arithmetic() -> None:
    assert jaxkit.padded_bytes((1 << 20, 1 << 20), "float32", "v5p") == 1 << 42


@pytest.mark.parametrize(
    ("generation", "shape", "layout"),
    [
        ("v5e", (12, 300), "{1,0:T(16,128)(16,1)E(2)}"),
        ("v5e", (2, 256, 512), "{2,1,0:T(128,128)(16,1)E(2)}"),
        ("v5e", (9,), "{0:T(2048)(128)(16,1)E(2)}"),
        ("v3", (3, 127), "{1,0:T(16,128)(4,1)}"),
        ("v3", (5000,), "{0:T(2048)(128)(4,1)}"),
        ("v3", (9,), "{0:T(1024)(128)(4,1)}"),
    ],
)
def test_two_bits_have_tiles_of_their_own(
    generation: str, shape: tuple[int, ...], layout: str
) -> None:
    """As libtpu 0.0.50 has them; jax can't export them for the test with the compiler."""
    assert jaxkit.tiling(shape, "int2", generation).layout == layout


def test_a_quantized_array_is_what_it_holds_and_not_what_it_stands_for() -> None:
    @partial(jax.tree_util.register_dataclass, data_fields=["qvalue", "scale"], meta_fields=[])
    @dataclass
    class Quantized:  # as QArray of qwix and QTensor of AQT are
        qvalue: Any
        scale: Any

        @property
        def shape(self) -> Any:
            return self.qvalue.shape

        @property
        def dtype(self) -> Any:
            return self.scale.dtype

    weight = Quantized(jnp.zeros((256, 512), jnp.int8), jnp.zeros((1, 512)))
    table = jaxkit.tiling_table({"w": weight})
    assert {row.name: row.bytes for row in table.arrays} == {"w/qvalue": 131072, "w/scale": 2048}
    placed = jaxkit.placement({"d": 2}, {"w": weight})
    assert placed.bytes_per_device == 131072 + 2048
