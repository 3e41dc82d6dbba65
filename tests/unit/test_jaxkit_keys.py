"""Random keys: what jax gives, bit for bit, and never the same key twice by accident."""

from __future__ import annotations

import jax
import jaxkit_here  # noqa: F401
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


def data(keys: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(keys))


def as_set(keys: jax.Array) -> set[tuple[int, ...]]:
    words = data(keys)
    return {tuple(row) for row in words.reshape(-1, words.shape[-1]).tolist()}


def test_splitting_gives_jaxs_own_keys_as_an_array() -> None:
    key, subkeys = jaxkit.split_key(jax.random.key(42), 2)
    assert data(key).tolist() == [1832780943, 270669613]
    assert data(subkeys).tolist() == [[64467757, 2916123636], [2465931498, 255383827]]
    assert subkeys.shape == (2,)


def test_old_keys_stay_old_and_typed_ones_typed() -> None:
    key, subkeys = jaxkit.split_key(jax.random.PRNGKey(42), 2)
    assert key.dtype == np.uint32
    assert key.tolist() == [1832780943, 270669613]
    assert subkeys.shape == (2, 2)
    assert not jaxkit.describe_key(key).typed
    assert jaxkit.describe_key(jax.random.key(0)).typed


def test_one_subkey_is_still_an_array() -> None:
    _, subkeys = jaxkit.split_key(jax.random.key(0))
    assert subkeys.shape == (1,)


@settings(max_examples=12, deadline=None)
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
    first, rest = jaxkit.split_key(key, 255)
    split = as_set(first) | as_set(rest)
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


@settings(max_examples=50, deadline=None)
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


def test_folding_inside_jit_gives_the_same_keys() -> None:
    key = jax.random.key(0)
    traced = jax.jit(lambda step: jax.random.key_data(jaxkit.fold_key(key, "dropout", step)))(3)
    assert (np.asarray(traced) == data(jaxkit.fold_key(key, "dropout", 3))).all()


def test_each_device_of_a_mesh_holds_its_own_key() -> None:
    mesh = jaxkit.make_mesh({"data": 4, "model": 2})
    keys = jaxkit.device_keys(jax.random.key(1), mesh)
    assert keys.shape == (8,)
    assert len(as_set(keys)) == 8
    assert {shard.data.shape for shard in keys.addressable_shards} == {(1,)}
    old = jaxkit.device_keys(jax.random.PRNGKey(1), mesh)
    assert {shard.data.shape for shard in old.addressable_shards} == {(1, 2)}
    assert (np.asarray(old) == data(keys)).all()


def test_a_key_is_described_with_all_that_decides_its_numbers() -> None:
    described = jaxkit.describe_key(jax.random.key(5, impl="rbg"))
    assert described.implementation == "rbg"
    assert described.threefry_partitionable is True
    assert described.jax_version == jax.__version__
    assert len(described.data) == 4


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: jaxkit.split_key(jax.random.split(jax.random.key(0), 3)), "array of keys"),
        (lambda: jaxkit.split_key(3), "not a random key"),
        (lambda: jaxkit.split_key(np.zeros(2, np.float32)), "not a random key (float32"),
        (lambda: jaxkit.split_key(jax.random.key(0), 0), "it is 0"),
        (lambda: jaxkit.split_key(jax.random.key(0), 2**31), "it is 2147483648"),
        (lambda: jaxkit.split_key(jax.random.key(0), 1.5), "whole number"),
        (lambda: jaxkit.split_key(jax.random.key(0), True), "whole number"),
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
