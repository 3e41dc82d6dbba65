"""Placement is arithmetic: it must agree with jax's own shardings, and say what does not fit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec
from jaxkit_here import mesh_of

from jupyter_tpu import catalog, jaxkit
from jupyter_tpu.errors import TPUError
from jupyter_tpu.jaxkit.arrays import ArrayRequest
from jupyter_tpu.jaxkit.sharding.models import PlacementRequest
from jupyter_tpu.jaxkit.sharding.placement import place
from jupyter_tpu.jaxkit.topology import topology, usable_hbm

MESHES = [{"data": 8}, {"data": 4, "model": 2}, {"a": 2, "b": 2, "c": 2}, {"data": 1, "model": 8}]


@st.composite
def placed(draw):
    mesh = draw(st.sampled_from(MESHES))
    rank = draw(st.integers(0, 4))
    free = list(draw(st.permutations(list(mesh))))
    spec: list = []
    shape = []
    for _ in range(rank):
        count = draw(st.integers(0, min(2, len(free))))
        axes = [free.pop() for _ in range(count)]
        spec.append(None if not axes else axes[0] if len(axes) == 1 else axes)
        parts = prod(mesh[axis] for axis in axes)
        shape.append(parts * draw(st.integers(1, 3)))
    return mesh, shape, spec


@settings(max_examples=40)
@given(placed())
def test_shards_are_those_that_jax_makes(case) -> None:
    mesh, shape, spec = case
    answer = jaxkit.placement(mesh, {"x": tuple(shape)}, spec_of(spec))
    (row,) = answer.arrays
    real = jax.make_mesh(tuple(mesh.values()), tuple(mesh))
    array = jax.device_put(np.zeros(shape, np.float32), NamedSharding(real, spec_of(spec)))
    assert tuple(row.shard_shape) == array.addressable_shards[0].data.shape
    indices = array.sharding.devices_indices_map(array.shape).values()
    assert row.shards == len({str(index) for index in indices})
    assert row.shards * row.copies == 8
    assert row.bytes_per_device == array.addressable_shards[0].data.nbytes
    assert row.padded_bytes_per_device == jaxkit.padded_bytes(row.shard_shape, "float32", "v5e")
    assert row.replicated == array.sharding.is_fully_replicated


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_random_keys_of_a_tree_are_placed_like_its_other_arrays(implementation: str) -> None:
    mesh = mesh_of(data=4, model=2)
    keys = jax.random.split(jax.random.key(0, impl=implementation), 8)
    tree = {
        "x": np.ones(8),
        "rng": jax.device_put(keys, NamedSharding(mesh, PartitionSpec("data"))),
    }
    for specs in (
        None,
        PartitionSpec("data"),
        {"x": PartitionSpec(), "rng": PartitionSpec("data")},
    ):
        row = jaxkit.placement(mesh, tree, specs, types=["v5e-8"]).arrays[1]
        data = jax.random.key_data(keys)
        assert (row.name, row.dtype, row.shape) == ("rng", str(keys.dtype), [8])
        assert (row.shard_shape, row.copies) == ([2], 2)
        assert (row.bytes, row.bytes_per_device) == (data.nbytes, data.nbytes // 4)
    with pytest.raises(TPUError, match="has 2 entries, but its shape has 1"):
        jaxkit.placement(mesh, tree, {"x": PartitionSpec(), "rng": PartitionSpec("data", "model")})


def spec_of(parts: list) -> PartitionSpec:
    return PartitionSpec(*(tuple(part) if isinstance(part, list) else part for part in parts))


def test_a_tree_with_a_tree_of_specs() -> None:
    answer = jaxkit.placement(
        {"data": 4, "model": 2},
        {"w": ((4096, 1024), "bfloat16"), "b": (1024,), "x": [(800, 1024), (800,)]},
        {"w": (None, "model"), "b": None, "x": PartitionSpec("data")},
    )
    assert [row.name for row in answer.arrays] == ["w", "b", "x/0", "x/1"]
    assert answer.arrays[0].shard_shape == [4096, 512]
    assert answer.arrays[2].shard_shape == [200, 1024]
    assert answer.replicated == ["b"]
    assert answer.replicated_bytes_per_device == 4096
    assert answer.devices == 8


def test_arrays_that_are_placed_already_need_no_specs() -> None:
    mesh = mesh_of(data=4, model=2)
    tree = {
        "w": jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, PartitionSpec("data", "model"))),
        "b": jnp.ones(4),
    }
    answer = jaxkit.placement(mesh, tree)
    assert {row.name: row.shard_shape for row in answer.arrays} == {"w": [2, 2], "b": [4]}


def test_every_type_of_the_catalog_is_judged_by_its_own_memory_and_padding() -> None:
    # 12 GiB a device: more than v2 has, less than v3 and v5e; too few devices on small types.
    answer = jaxkit.placement({"data": 8}, {"x": (8 * 3 * (1 << 10), 1 << 20)}, "data")
    fits = {fit.type: fit for fit in answer.types}
    assert set(fits) == {kind.name for kind in catalog.types()}
    assert not fits["v2-8"].fits
    assert "missing" in fits["v2-8"].why
    assert fits["v3-8"].fits
    assert fits["v5litepod-8"].fits
    assert not fits["v5litepod-4"].fits
    assert "too few devices" in fits["v5litepod-4"].why
    assert [fit.fits for fit in answer.types] == sorted(
        (f.fits for f in answer.types), reverse=True
    )


def test_only_the_types_asked_for_are_judged_in_their_order() -> None:
    answer = jaxkit.placement({"d": 1}, {"x": (8,)}, types=["v6e-8", "v5litepod-1"])
    assert [fit.type for fit in answer.types] == ["v6e-8", "v5litepod-1"]


def test_padding_decides_where_bytes_alone_would_not() -> None:
    # One float in each row of 128: 4 bytes become 512, on v3 as on v5e.
    answer = jaxkit.placement({"d": 1}, {"x": (1 << 25, 3, 1)}, types=["v5litepod-1"])
    assert answer.bytes_per_device < usable_hbm("v5e")
    assert answer.arrays[0].padded_bytes_per_device == jaxkit.padded_bytes((1 << 25, 3, 1))


def test_every_type_has_a_topology_with_its_devices() -> None:
    for kind in catalog.types():
        described = topology(kind.name)
        assert described.devices == kind.devices
        assert described.hosts == kind.hosts
        assert described.hbm_bytes * kind.devices <= kind.hbm_gib * 2**30 * 1.01
    assert topology("v5litepod-8").name == "v5e:2x4"
    assert topology("v5litepod-8").options == {"chips_per_host_bounds": (2, 4, 1)}
    assert topology("v4-8").options == {"chip_config_name": "megacore"}
    assert topology("tpu7x-2x2x1").devices == 8


@pytest.mark.parametrize(
    ("mesh", "shape", "spec", "says"),
    [
        ({"d": 4}, (10,), ["d"], "The nearest sizes are 8 and 12"),
        ({"d": 4}, (3,), ["d"], "The nearest size is 4"),
        ({"d": 4}, (4,), ["e"], "names the axis 'e'"),
        ({"d": 4}, (4, 4), ["d", "d"], "uses the axis 'd' twice"),
        ({"d": 4}, (4,), [None, "d"], "has 2 entries, but its shape has 1"),
        ({"d": 0}, (4,), [], "positive whole number"),
        ({"d": -2}, (4,), [], "positive whole number"),
        ({"d": -1}, (4,), [], "must be a number here"),
        ({}, (4,), [], "names with sizes"),
        ({"": 4}, (4,), [], "names with sizes"),
        ({"d": 1 << 20}, (1 << 20,), ["d"], "larger than any TPU"),
        ({"d": 2}, (-4,), [], "not -4"),
        ({"d": 2}, (1 << 60,), [], "2**53"),
        ({"d": 2}, [2] * 33, [], "at most 32 dimensions"),
    ],
)
def test_what_does_not_go_together_is_reported_in_words(mesh, shape, spec, says: str) -> None:
    request = PlacementRequest(mesh=mesh, arrays={"x": ArrayRequest(shape=list(shape), spec=spec)})
    with pytest.raises(TPUError) as caught:
        place(request)
    assert says in str(caught.value)


def test_unknown_types_and_pictures_are_refused_with_near_names() -> None:
    with pytest.raises(TPUError, match="v5litepod-8"):
        jaxkit.placement({"d": 1}, {"x": (8,)}, types=["v5e-7"])
    with pytest.raises(TPUError, match="no array 'y'"):
        jaxkit.placement({"d": 1}, {"x": (8,)}, picture="y")
    with pytest.raises(TPUError, match="does not match the tree"):
        jaxkit.placement({"d": 1}, {"x": (8,)}, {"y": None})


# ---- the picture ------------------------------------------------------------------------------


def drawn(svg: str) -> tuple[list[ET.Element], list[str]]:
    root = ET.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    return root.findall(f".//{space}rect"), [text.text or "" for text in root.iter(f"{space}text")]


def test_one_axis_is_drawn_as_blocks_with_their_devices() -> None:
    blocks, texts = drawn(jaxkit.draw_sharding({"data": 4}, (8, 100), ("data",), name="x"))
    assert len(blocks) == 4
    assert {"0", "1", "2", "3"} <= set(texts)
    assert "split by data=4" in texts
    assert "each of 4 devices holds 2 × 100" in texts


def test_two_axes_are_drawn_as_a_grid_and_copies_are_named() -> None:
    blocks, texts = drawn(jaxkit.draw_sharding({"a": 2, "b": 2, "c": 2}, (4, 4), ("a", "b")))
    assert len(blocks) == 4
    assert {"0, 1", "2, 3", "4, 5", "6, 7"} <= set(texts)
    assert "each of 8 devices holds 2 × 2, 2 copies of each block" in texts


def test_the_numbers_drawn_are_the_devices_that_jax_would_use() -> None:
    mesh = {"data": 4, "model": 2}
    _, texts = drawn(jaxkit.draw_sharding(mesh, (8, 8), (("model", "data"), None)))
    real = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    sharding = NamedSharding(real, PartitionSpec(("model", "data"), None))
    rows = sorted(
        (index[0].start, device.id)
        for device, index in sharding.devices_indices_map((8, 8)).items()
    )
    expected = [str(device) for _, device in rows]
    assert [text for text in texts if text.isdigit()] == expected


def test_large_meshes_and_odd_arrays_are_drawn_without_filling_the_page() -> None:
    blocks, texts = drawn(jaxkit.draw_sharding({"data": 256}, (1024,), ("data",)))
    assert len(blocks) == 16
    assert any("240 more blocks" in text for text in texts)
    for shape in ((), (5,), (1, 2, 3, 4, 5), (0, 4)):
        assert len(drawn(jaxkit.draw_sharding({"d": 1}, shape))[0]) == 1


@pytest.mark.parametrize(
    ("mesh", "shape", "spec", "name"),
    [
        ({"data": 4, "model": 2}, (4096, 1024), (None, "model"), "w"),
        ({"data": 4, "a-long-axis-name": 2}, (512, 64), (("data", "a-long-axis-name"),), "w"),
        ({"data": 32, "model": 32}, (4096, 4096), ("data", "model"), "w"),
        ({"data": 8}, (8,), ("data",), "params/" + "layers/" * 40 + "kernel"),
    ],
)
def test_no_line_of_a_picture_runs_out_of_it(mesh, shape, spec, name) -> None:
    svg = ET.fromstring(jaxkit.draw_sharding(mesh, shape, spec, name=name))
    width = float(svg.attrib["width"])
    assert width < 1200
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        # The letters of the usual fonts are about half as wide as their 13 pixels of height.
        reach = 6.7 * len(text.text or "")
        x = float(text.attrib["x"])
        assert x - reach >= 0 if text.attrib.get("text-anchor") == "end" else x <= width
        if text.attrib.get("text-anchor") is None or text.attrib["text-anchor"] == "start":
            assert x + reach <= width, text.text


def test_names_are_escaped_and_themes_are_known() -> None:
    svg = jaxkit.draw_sharding({"d": 1}, (4, 4), name="<b>&")
    assert "<b>" not in svg
    assert "prefers-color-scheme" in jaxkit.draw_sharding({"d": 1}, (4,), theme="auto")
    with pytest.raises(TPUError, match="Unknown theme 'pink'"):
        jaxkit.draw_sharding({"d": 1}, (4,), theme="pink")


def test_the_answer_prints_as_text_and_as_html() -> None:
    answer = jaxkit.placement({"d": 8}, {"x": (8, 128)}, "d", picture="x")
    assert "Mesh d=8 (8 devices)" in str(answer)
    assert answer._repr_html_().startswith("<svg")
