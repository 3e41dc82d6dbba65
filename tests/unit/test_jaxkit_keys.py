"""Random keys: never the same key twice by accident."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType
from jaxkit_here import mesh_of

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError
from jupyter_tpu.jaxkit.rest.answers import describe_key

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


def data(keys: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(keys))


def as_set(keys: jax.Array) -> set[tuple[int, ...]]:
    words = data(keys)
    return {tuple(row) for row in words.reshape(-1, words.shape[-1]).tolist()}


@settings(max_examples=12)
@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    implementation=st.sampled_from(IMPLEMENTATIONS),
    process=st.integers(0, 2**32 - 1),
    step=st.integers(0, 2**32 - 1),
)
def test_folded_keys_are_never_split_keys(
    seed: int, implementation: str, process: int, step: int
) -> None:
    key = jax.random.key(seed, impl=implementation)
    split = as_set(jax.random.split(key, 256))
    processes = [jaxkit.process_key(key, index) for index in {0, 1, 7, process}]
    folded = [jaxkit.fold_key(key, domain, step) for domain in ("dropout", "shuffle", "process")]
    own = [as_set(one) for one in (*processes, *folded)] + [as_set(jaxkit.device_keys(key, 16))]
    together: set[tuple[int, ...]] = set(split) | as_set(key)
    count = len(together)
    for keys in own:
        together |= keys
        count += len(keys)
    assert len(together) == count


def test_the_pitfall_that_folding_by_domain_avoids_is_real() -> None:
    key = jax.random.key(7)
    assert (data(jax.random.fold_in(key, 3)) == data(jax.random.split(key, 5))[3]).all()
    assert as_set(jaxkit.process_key(key, 3)).isdisjoint(as_set(jax.random.split(key, 5)))


@settings(max_examples=50)
@given(st.lists(st.text(min_size=1), min_size=2, max_size=8, unique=True))
def test_different_domains_have_different_numbers_with_the_highest_bit(names: list[str]) -> None:
    from jupyter_tpu.jaxkit.keys import domain_number

    numbers = [domain_number(name) for name in names]
    assert len(set(numbers)) == len(numbers)
    assert all(2**31 <= number < 2**32 for number in numbers)


def test_a_domain_with_more_numbers_is_another_domain() -> None:
    key = jax.random.key(0)
    keys = [jaxkit.fold_key(key, "layer", *rest) for rest in ((), (0,), (0, 0), (0, 0, 0))]
    assert len(set().union(*(as_set(one) for one in keys))) == 4


def test_a_folded_key_is_the_same_in_every_process_unless_asked_for_one_of_each() -> None:
    key = jax.random.key(0)
    shared = jaxkit.fold_key(key, "dropout", 3)
    assert as_set(shared) == as_set(jaxkit.fold_key(key, "dropout", 3, process=False))
    own = [jaxkit.fold_key(key, "dropout", 3, process=index) for index in range(3)]
    assert as_set(own[0]) == as_set(jaxkit.fold_key(key, "dropout", 3, process=True))
    assert len(set().union(*(as_set(one) for one in (shared, *own)))) == 4


def test_folding_inside_jit_gives_the_same_keys() -> None:
    key = jax.random.key(0)
    traced = jax.jit(lambda step: jax.random.key_data(jaxkit.fold_key(key, "dropout", step)))(3)
    assert (np.asarray(traced) == data(jaxkit.fold_key(key, "dropout", 3))).all()


def test_each_device_of_a_mesh_holds_its_own_key() -> None:
    mesh = mesh_of(data=4, model=2)
    keys = jaxkit.device_keys(jax.random.key(1), mesh)
    assert keys.shape == (8,)
    assert len(as_set(keys)) == 8
    assert {shard.data.shape for shard in keys.addressable_shards} == {(1,)}
    old = jaxkit.device_keys(jax.random.PRNGKey(1), mesh)
    assert {shard.data.shape for shard in old.addressable_shards} == {(1, 2)}
    assert (np.asarray(old) == data(keys)).all()


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_each_device_gets_its_key_inside_jit_too(kind: AxisType) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind, kind))
    placed = jaxkit.device_keys(jax.random.key(1), mesh)
    traced = jax.jit(lambda key: jaxkit.device_keys(key, mesh))(jax.random.key(1))
    assert traced.sharding.is_equivalent_to(placed.sharding, 1)
    assert (data(traced) == data(placed)).all()


def test_a_key_is_described_with_all_that_decides_its_numbers() -> None:
    described = describe_key(jax.random.key(5, impl="rbg"))
    assert described.implementation == "rbg"
    assert described.threefry_partitionable is True
    assert described.jax_version == jax.__version__
    assert len(described.data) == 4
    assert described.typed
    assert not describe_key(jax.random.PRNGKey(0)).typed


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: jaxkit.fold_key(jax.random.split(jax.random.key(0), 3), "x"), "array of keys"),
        (lambda: jaxkit.process_key(3), "not a random key"),
        (lambda: jaxkit.process_key(np.zeros(2, np.float32)), "not a random key (float32"),
        (lambda: jaxkit.fold_key(jax.random.key(0), "x", -1), "from 0 to 2**32 - 1"),
        (lambda: jaxkit.fold_key(jax.random.key(0), "x", 2**32), "from 0 to 2**32 - 1"),
        (lambda: jaxkit.fold_key(jax.random.key(0), "x", 1.5), "whole number"),
        (lambda: jaxkit.fold_key(jax.random.key(0), "x", jax.numpy.ones(2)), "whole numbers"),
        (lambda: jaxkit.fold_key(jax.random.key(0), ""), "domain"),
        (lambda: jaxkit.fold_key(jax.random.key(0), 3), "domain"),
        (lambda: jaxkit.process_key(jax.random.key(0), -1), "from 0"),
        (lambda: jaxkit.device_keys(jax.random.key(0), 0), "1 to"),
        (lambda: jaxkit.device_keys(jax.random.key(0), 10**9), "1 to"),
    ],
)
def test_what_is_no_key_or_no_number_is_refused_in_words(call, says: str) -> None:
    with pytest.raises(TPUError) as caught:
        call()
    assert says in str(caught.value)
