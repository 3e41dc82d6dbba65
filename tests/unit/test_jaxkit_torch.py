"""Between torch and JAX. Where torch is not installed, none of this was tried."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxkit_here import mesh_of

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError

#: What both have.
DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16"]
DTYPES += ["float32", "complex64", "float8_e4m3fn", "float8_e5m2"]
torch: Any


@pytest.fixture(scope="module", autouse=True)
def import_torch() -> None:
    """By the process that runs these tests only: all collect them, and torch takes seconds."""
    global torch
    reason = "SKIPPED FOR WANT OF torch: pip install torch to run these tests"
    torch = pytest.importorskip("torch", reason=reason)


def test_torch_tensors_are_writable_copies_both_ways() -> None:
    tree = {
        "w": jnp.arange(6.0).reshape(2, 3),
        "h": jnp.ones(3, jnp.bfloat16),
        "m": jnp.ones(2, bool),
    }
    tensors = jaxkit.to_torch(tree)
    assert tensors["h"].dtype == torch.bfloat16
    tensors["w"][0, 0] = 7
    assert float(tree["w"][0, 0]) == 0.0
    back = jaxkit.from_torch(tensors)
    tensors["w"][0, 0] = 8
    assert float(back["w"][0, 0]) == 7.0
    assert back["h"].dtype == jnp.bfloat16
    layer = torch.nn.Linear(3, 5)
    dense = jaxkit.from_torch(jaxkit.linear_from_torch(layer.state_dict()))
    x = torch.ones(2, 3)
    assert np.allclose(
        np.ones((2, 3)) @ dense["kernel"] + dense["bias"], layer(x).detach(), atol=1e-6
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_is_the_same_both_ways(dtype: str) -> None:
    numbers = np.array([[0, 1, 2], [3, 0, 1]]).astype(jnp.dtype(dtype))
    for source in (numbers, jnp.asarray(numbers)):
        tensor = jaxkit.to_torch(source)
        assert tensor.dtype == getattr(torch, dtype)
        assert tensor.to(torch.complex64).tolist() == numbers.astype("complex64").tolist()
        tensor.zero_()
        assert (np.asarray(source) == numbers).all()
    back = jaxkit.from_torch(jaxkit.to_torch(numbers))
    assert back.dtype == jnp.dtype(dtype)
    assert (np.asarray(back) == numbers).all()


@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (4, 0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_single_numbers_and_empty_arrays_keep_their_shape(
    shape: tuple[int, ...], dtype: str
) -> None:
    for source in (jnp.ones(shape, dtype), np.ones(shape, jnp.dtype(dtype))):
        tensor = jaxkit.to_torch(source)
        assert tuple(tensor.shape) == shape
        back = jaxkit.from_torch(tensor)
        assert (back.shape, back.dtype) == (shape, jnp.dtype(dtype))


def test_arrays_of_any_making_become_tensors_without_a_warning() -> None:
    read_only = np.arange(4.0)
    read_only.flags.writeable = False
    tree = {
        "read-only": read_only,
        "backwards": np.arange(4)[::-1],
        "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "swapped": np.arange(3, dtype=">f4"),
        "spread": jaxkit.shard_batch(np.arange(8, dtype=np.float32), mesh_of(data=8)),
        "key": jax.random.key(5),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensors = jaxkit.to_torch(tree)
    for name, array in tree.items():
        expected = jax.random.key_data(array) if name == "key" else array
        assert tensors[name].tolist() == np.asarray(expected).tolist()
        tensors[name].zero_()
    assert read_only.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "array",
    [
        np.ones(2, jnp.dtype("int4")),
        jnp.ones(2, "int4"),
        jnp.ones(2, "float8_e4m3"),
        "str",
        "object",
    ],
)
def test_what_torch_can_not_hold_is_named(array: Any) -> None:
    array = np.array(["a"], array) if isinstance(array, str) else array
    with pytest.raises(TPUError, match=r"layer/w is of .*, which torch can't hold"):
        jaxkit.to_torch({"layer": {"w": array}})


def test_an_array_that_was_given_away_is_reported_as_such() -> None:
    array = jnp.ones(3)
    array.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jaxkit.to_torch(array)


def test_arrays_land_where_those_from_numpy_do() -> None:
    """Bound to the CPU they could not be computed with beside a TPU's."""
    second = jax.devices()[1]
    with jax.default_device(second):
        for dtype in ("float32", "bfloat16"):
            array = jaxkit.from_torch(torch.ones(3, dtype=getattr(torch, dtype)))
            assert array.devices() == {second}
            assert not array.committed
    mesh = mesh_of(data=8)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    assert jaxkit.from_torch({"x": torch.ones(8)}, sharding)["x"].sharding == sharding


def test_tensors_of_any_making_become_arrays() -> None:
    numbers = torch.arange(6.0).reshape(2, 3)
    turning = torch.full((3,), 1 + 2j)
    for tensor, expected in (
        (numbers.T, [[0, 3], [1, 4], [2, 5]]),
        (numbers[:, ::2], [[0, 2], [3, 5]]),
        (torch.ones(1, 2).expand(3, 2), [[1, 1]] * 3),
        (torch.ones(2, requires_grad=True), [1, 1]),
        (torch.ones(2, requires_grad=True) * 2, [2, 2]),
        (torch.nn.Parameter(torch.zeros(1)), [0]),
        (turning.conj(), [1 - 2j] * 3),
        (turning.conj().imag, [-2] * 3),
        (torch.tensor([3, -4]), [3, -4]),
        (torch.tensor([1.5], dtype=torch.float64), [1.5]),
    ):
        assert np.asarray(jaxkit.from_torch({"x": tensor})["x"]).tolist() == expected


def test_numbers_of_64_bits_keep_their_value_or_are_refused() -> None:
    assert jaxkit.from_torch(torch.tensor([7])).dtype == jnp.int32
    with pytest.raises(TPUError, match="step has integers that need 64 bits"):
        jaxkit.from_torch({"step": torch.tensor(2**40)})
    with jax.enable_x64(True):
        array = jaxkit.from_torch(torch.tensor([2**40]))
        assert (array.dtype, int(array[0])) == (jnp.int64, 2**40)
        assert jaxkit.to_torch(array).tolist() == [2**40]
        assert jaxkit.to_torch(jnp.ones(1, "float64")).dtype == torch.float64


def test_what_is_no_plain_tensor_is_refused_in_words() -> None:
    for tensor, says in (
        (torch.ones(2, device="meta"), "w has no data"),
        (torch.eye(2).to_sparse(), r"w is not a dense tensor .*to_dense"),
    ):
        with pytest.raises(TPUError, match=says):
            jaxkit.from_torch({"w": tensor})
    with pytest.raises(TPUError, match="state_dict"):
        jaxkit.from_torch(torch.nn.Linear(2, 2))
    with pytest.raises(TPUError, match="state_dict"):
        jaxkit.linear_from_torch(torch.nn.Linear(2, 2))


def test_a_linear_layer_computes_the_same_on_the_other_side() -> None:
    flax = pytest.importorskip("flax.linen")
    dense = flax.Dense(5)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    params = dense.init(jax.random.key(0), x)["params"]
    layer = torch.nn.Linear(3, 5)
    layer.load_state_dict(jaxkit.to_torch(jaxkit.linear_to_torch(params)))
    with torch.no_grad():
        there = layer(torch.from_numpy(x)).numpy()
    assert np.allclose(dense.apply({"params": params}, x), there, atol=1e-5)
    back = jaxkit.from_torch(jaxkit.linear_from_torch(layer.state_dict()))
    with torch.no_grad():
        layer.weight.zero_()
    assert (np.asarray(back["kernel"]) == np.asarray(params["kernel"])).all()
    bare = torch.nn.Linear(3, 5, bias=False)
    assert set(jaxkit.from_torch(jaxkit.linear_from_torch(bare.state_dict()))) == {"kernel"}


def test_a_files_arrays_are_no_tensors(tmp_path) -> None:
    with pytest.raises(TPUError, match=r"w is not an array: Tensor.*from_torch"):
        jaxkit.save_weights(tmp_path / "w.safetensors", {"w": torch.ones(2)})
