"""Batches: even splits, uneven ones refused with the nearest sizes, nothing lost."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec
from jaxkit_here import mesh_of

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError


@settings(max_examples=30)
@given(rows=st.integers(1, 40), uneven=st.sampled_from(["error", "drop", "pad"]))
def test_every_row_of_a_batch_is_where_it_should_be_or_reported_missing(rows, uneven) -> None:
    mesh = mesh_of(data=4, model=2)
    batch = {"x": np.arange(rows * 3, dtype=np.float32).reshape(rows, 3), "y": np.arange(rows)}
    if uneven == "error" and rows % 4:
        lower = rows // 4 * 4
        with pytest.raises(TPUError) as caught:
            jaxkit.shard_batch(batch, mesh)
        assert str(lower + 4) in caught.value.hint
        assert not lower or str(lower) in caught.value.hint
        return
    if uneven == "drop" and rows < 4:
        with pytest.raises(TPUError, match="would leave no rows"):
            jaxkit.shard_batch(batch, mesh, uneven="drop")
        return
    placed = jaxkit.shard_batch(batch, mesh, uneven=uneven)
    if uneven == "pad":
        placed, mask = placed
        assert np.asarray(mask).sum() == rows
        assert np.asarray(mask)[:rows].all()
        kept = rows
        assert not np.asarray(placed["x"])[rows:].any()
    else:
        kept = rows - rows % 4
    assert placed["x"].shape[0] % 4 == 0
    assert placed["x"].sharding.spec == PartitionSpec(("data",))
    assert (np.asarray(placed["x"])[:kept] == batch["x"][:kept]).all()
    assert (np.asarray(placed["y"])[:kept] == batch["y"][:kept]).all()


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_a_batch_may_have_a_random_key_in_each_row(implementation: str) -> None:
    keys = jax.random.split(jax.random.key(0, impl=implementation), 6)
    batch = {"x": np.arange(6.0), "dropout": keys}
    mesh = mesh_of(data=4, model=2)
    placed, mask = jaxkit.shard_batch(batch, mesh, uneven="pad")
    assert placed["dropout"].shape == mask.shape == (8,)
    assert jax.random.key_impl(placed["dropout"]) == implementation
    assert {shard.data.shape for shard in placed["dropout"].addressable_shards} == {(2,)}
    data = np.asarray(jax.random.key_data(placed["dropout"]))
    assert (data[:6] == np.asarray(jax.random.key_data(keys))).all()
    assert not data[6:].any()
    kept = jaxkit.shard_batch(batch, mesh, uneven="drop")["dropout"]
    for whole in (kept, jaxkit.join_hosts(kept, mesh)):
        assert (jax.random.key_data(whole) == jax.random.key_data(keys[:4])).all()


def test_a_batch_goes_over_one_axis_or_several() -> None:
    mesh = mesh_of(data=4, model=2)
    both = jaxkit.shard_batch(np.ones((8, 2)), mesh, ("data", "model"))
    assert {shard.data.shape for shard in both.addressable_shards} == {(1, 2)}
    one = jaxkit.shard_batch(np.ones((8, 2)), mesh, "model")
    assert {shard.data.shape for shard in one.addressable_shards} == {(4, 2)}


@pytest.mark.parametrize(
    ("batch", "axis", "says"),
    [
        ({"x": np.ones((8, 2)), "y": np.ones(7)}, None, "x has 8, y has 7"),
        ({"x": np.float32(3)}, None, "x has no rows"),
        ({}, None, "no arrays"),
        (np.ones(8), "rows", "no axis 'rows'. Its axes are data, model"),
        (np.ones(8), (), "axis is empty"),
    ],
)
def test_batches_without_rows_and_unknown_axes_are_refused(batch, axis, says: str) -> None:
    with pytest.raises(TPUError) as caught:
        jaxkit.shard_batch(batch, mesh_of(data=4, model=2), axis)
    assert says in str(caught.value)


def test_prefetching_keeps_the_order_and_runs_ahead_by_so_many() -> None:
    mesh = mesh_of(data=8)
    taken: list[int] = []

    def source():
        for number in range(5):
            taken.append(number)
            yield np.full((8, 2), number)

    batches = jaxkit.prefetch(source(), mesh, ahead=2)
    first = next(batches)
    assert taken == [0, 1]
    assert len(first.devices()) == 8
    rest = [int(batch[0, 0]) for batch in batches]
    assert [int(first[0, 0]), *rest] == [0, 1, 2, 3, 4]


def test_an_iterator_that_fails_fails_at_its_place() -> None:
    def source():
        yield np.ones(8)
        yield np.ones(8)
        raise OSError("the disk is gone")

    batches = jaxkit.prefetch(source(), mesh_of(data=8), ahead=3)
    assert next(batches).shape == (8,)
    assert next(batches).shape == (8,)
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)


def test_prefetching_places_as_it_is_told() -> None:
    device = jax.devices()[5]
    (batch,) = jaxkit.prefetch([np.ones(3)], jax.sharding.SingleDeviceSharding(device))
    assert batch.devices() == {device}
    (batch,) = jaxkit.prefetch([np.ones(3)], device)
    assert batch.devices() == {device}
    (batch,) = jaxkit.prefetch([np.ones(3)], lambda batch: jax.device_put(2 * batch, device))
    assert batch.devices() == {device}
    assert float(batch[0]) == 2.0
    with pytest.raises(TPUError, match="at least 1"):
        jaxkit.prefetch([], mesh_of(data=8), ahead=0)
    for where in (device, lambda batch: batch):
        with pytest.raises(TPUError, match="axis is only for a mesh"):
            jaxkit.prefetch([np.ones(8)], where, "data")


@given(processes=st.integers(1, 64), share=st.integers(0, 100))
def test_the_hosts_shares_make_up_the_batch(processes: int, share: int) -> None:
    rows = processes * share
    slices = [jaxkit.host_slice(rows, process, processes) for process in range(processes)]
    assert [row for part in slices for row in range(rows)[part]] == list(range(rows))


def test_shares_that_do_not_divide_and_hosts_that_are_not_there_are_refused() -> None:
    with pytest.raises(TPUError, match="The nearest sizes are 8 and 12"):
        jaxkit.host_slice(10, 0, 4)
    with pytest.raises(TPUError, match="no process 4 of 4"):
        jaxkit.host_slice(8, 4, 4)


def test_joining_the_hosts_of_one_process_is_sharding_its_batch() -> None:
    joined = jaxkit.join_hosts({"x": np.arange(16).reshape(8, 2)}, mesh_of(data=8))
    assert joined["x"].shape == (8, 2)
    assert {shard.data.shape for shard in joined["x"].addressable_shards} == {(1, 2)}
    with pytest.raises(TPUError, match="multiple of 8"):
        jaxkit.join_hosts(np.ones(9), mesh_of(data=8))


def test_a_mean_with_the_padding_masked_is_the_mean_without() -> None:
    rows = np.arange(10, dtype=np.float32)
    placed, mask = jaxkit.shard_batch(rows, mesh_of(data=8), uneven="pad")
    mean = jax.jit(lambda x, m: jnp.where(m, x, 0).sum() / m.sum())(placed, mask)
    assert float(mean) == pytest.approx(rows.mean())
