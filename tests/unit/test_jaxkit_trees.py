"""Trees of parameters: looked at, frozen, converted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from jaxkit_here import mesh_of

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError

PARAMS = {
    "a": {"x1": jnp.ones((3, 5)), "x2": jnp.ones(5)},
    "b": {"x1": jnp.ones((2, 2), jnp.bfloat16), "x2": jnp.arange(3)},
}


def test_freezing_by_pattern_labels_every_parameter() -> None:
    labels = jaxkit.freeze_mask(PARAMS, ["a/x1"])
    assert labels == {
        "a": {"x1": "freeze", "x2": "train"},
        "b": {"x1": "train", "x2": "train"},
    }
    assert jaxkit.freeze_mask(PARAMS, "a")["a"] == {"x1": "freeze", "x2": "freeze"}
    assert jaxkit.freeze_mask(PARAMS, "*/x1")["b"] == {"x1": "freeze", "x2": "train"}
    bools = jaxkit.freeze_mask(
        PARAMS, lambda path, leaf: leaf.ndim == 1, frozen_label=True, other_label=False
    )
    assert bools == {"a": {"x1": False, "x2": True}, "b": {"x1": False, "x2": True}}


def test_a_pattern_that_matches_nothing_is_a_mistake() -> None:
    with pytest.raises(TPUError, match=r"matches 'c/\*'.*a/x1, a/x2, b/x1, b/x2"):
        jaxkit.freeze_mask(PARAMS, ["a/x1", "c/*"])


def test_frozen_parameters_do_not_move_under_optax() -> None:
    optax = pytest.importorskip("optax")
    labels = jaxkit.freeze_mask(PARAMS, "a/x1")
    optimizer = optax.multi_transform(
        {"train": optax.sgd(0.1), "freeze": optax.set_to_zero()}, labels
    )
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), PARAMS)
    updates, _ = optimizer.update(jax.tree.map(jnp.ones_like, params), optimizer.init(params))
    after = optax.apply_updates(params, updates)
    assert (after["a"]["x1"] == params["a"]["x1"]).all()
    assert (after["a"]["x2"] != params["a"]["x2"]).all()


def test_a_summary_has_totals() -> None:
    summary = jaxkit.tree_summary({**PARAMS, "key": jax.random.key(0), "numpy": np.ones(2)})
    assert summary.elements == 15 + 5 + 4 + 3 + 1 + 2
    assert summary.bytes == 60 + 20 + 8 + 12 + 8 + 16
    text = repr(summary)
    assert str(summary) == text
    assert "b/x1" in text
    assert "bfloat16" in text
    assert text.splitlines()[-1].startswith("6 arrays")
    assert summary._repr_html_().count("<tr>") == 8


def test_a_summary_counts_the_words_of_every_kind_of_key() -> None:
    for kind in ("threefry2x32", "rbg", "unsafe_rbg"):
        keys = jax.random.split(jax.random.key(0, impl=kind), 3)
        for tree in (keys, jax.eval_shape(lambda keys=keys: keys)):
            assert jaxkit.tree_summary(tree).bytes == jax.random.key_data(keys).nbytes


def test_a_summary_says_where_arrays_are_without_computing_them() -> None:
    mesh = mesh_of(data=8)
    tree = {
        "r": jax.device_put(jnp.ones(8), NamedSharding(mesh, PartitionSpec())),
        "s": jaxkit.shard_batch(jnp.ones(8), mesh),
        "e": jax.eval_shape(lambda: jnp.ones((1 << 20, 1 << 20))),
    }
    where = {row[0]: row[5] for row in jaxkit.tree_summary(tree).rows}
    assert where["r"] == "8 devices, copies"
    assert "8 devices" in where["s"]
    assert "data" in where["s"]


# ---- conversion -------------------------------------------------------------------------------


def test_linear_weights_are_turned_on_the_way_to_flax_and_back() -> None:
    layer = {"weight": np.arange(15.0).reshape(5, 3), "bias": np.ones(5)}
    dense = jaxkit.linear_from_torch(layer)
    assert dense["kernel"].shape == (3, 5)
    x = np.random.default_rng(0).normal(size=(2, 3))
    assert np.allclose(x @ dense["kernel"] + dense["bias"], x @ layer["weight"].T + layer["bias"])
    back = jaxkit.linear_to_torch(dense)
    assert (back["weight"] == layer["weight"]).all()
    assert set(jaxkit.linear_from_torch({"weight": np.ones((2, 3))})) == {"kernel"}


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ({"kernel": np.ones((2, 2))}, "'weight'"),
        ({"weight": np.ones((2, 2)), "scale": 1}, "scale"),
        ({"weight": np.ones(2)}, "2 dimensions, not 1"),
        ({}, "not nothing"),
    ],
)
def test_what_is_no_linear_layer_is_refused(layer, says: str) -> None:
    with pytest.raises(TPUError, match=says):
        jaxkit.linear_from_torch(layer)


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match="pip install torch"):
        jaxkit.to_torch({"x": jnp.ones(2)})


def test_importing_jaxkit_does_not_load_jax() -> None:
    import subprocess
    import sys

    code = (
        "import sys, jupyter_tpu.jaxkit as kit; assert 'jax' not in sys.modules; "
        "kit.padded_bytes((3, 4)); assert 'jax' not in sys.modules; "
        "import jupyter_tpu.jaxkit.rest.models; import jupyter_tpu.jaxkit.compile.models; "
        "assert 'numpy' not in sys.modules; "
        "assert sorted(dir(kit)) == sorted(kit.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_public_name_is_there() -> None:
    for name in jaxkit.__all__:
        assert getattr(jaxkit, name) is not None
    with pytest.raises(AttributeError, match="nothing_such"):
        jaxkit.nothing_such  # noqa: B018
