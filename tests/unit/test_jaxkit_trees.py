"""Trees of parameters: looked at, frozen, converted, written and read back."""

from __future__ import annotations

import stat
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxkit_here  # noqa: F401
import numpy as np
import pytest

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


def test_shapes_and_a_summary_with_totals() -> None:
    assert jaxkit.tree_shapes(PARAMS)["a"] == {"x1": (3, 5), "x2": (5,)}
    summary = jaxkit.tree_summary({**PARAMS, "key": jax.random.key(0), "numpy": np.ones(2)})
    assert summary.elements == 15 + 5 + 4 + 3 + 1 + 2
    assert summary.bytes == 60 + 20 + 8 + 12 + 8 + 16
    text = str(summary)
    assert "b/x1" in text
    assert "bfloat16" in text
    assert text.splitlines()[-1].startswith("6 arrays")
    assert summary._repr_html_().count("<tr>") == 8


def test_a_summary_says_where_arrays_are_without_computing_them() -> None:
    mesh = jaxkit.make_mesh("data")
    tree = {
        "r": jaxkit.replicate(jnp.ones(8), mesh),
        "s": jaxkit.shard_batch(jnp.ones(8), mesh),
        "e": jax.eval_shape(lambda: jnp.ones((1 << 20, 1 << 20))),
    }
    where = {row[0]: row[5] for row in jaxkit.tree_summary(tree).rows}
    assert where["r"] == "8 devices, copies"
    assert "8 devices" in where["s"]
    assert "data" in where["s"]


# ---- conversion -------------------------------------------------------------------------------


def test_numpy_copies_are_writable_and_their_own() -> None:
    for array in (
        jnp.arange(4.0),
        jnp.ones(3, jnp.bfloat16),
        jaxkit.shard_batch(np.arange(8), jaxkit.make_mesh("data")),
    ):
        copy = jaxkit.to_numpy(array)
        assert copy.flags.writeable
        assert copy.dtype == array.dtype
        before = np.array(array)
        copy[0] = 7
        assert (np.array(array) == before).all()


def test_arrays_from_numpy_do_not_change_with_it() -> None:
    source = np.arange(4, dtype=np.float32)
    array = jaxkit.from_numpy({"x": source})["x"]
    source[0] = 9
    assert float(array[0]) == 0.0


def test_keys_become_their_numbers() -> None:
    assert jaxkit.to_numpy({"key": jax.random.key(5), "n": 3}) == {
        "key": pytest.approx([0, 5]),
        "n": 3,
    }


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


def test_torch_tensors_are_writable_copies_both_ways() -> None:
    torch = pytest.importorskip("torch")
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


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match="pip install torch"):
        jaxkit.to_torch({"x": jnp.ones(2)})


# ---- files ------------------------------------------------------------------------------------


def test_weights_come_back_as_they_were(tmp_path: Path) -> None:
    tree = {
        **PARAMS,
        "key": jax.random.key(3),
        "list": [jnp.zeros(()), jnp.ones((0, 4))],
        "turned": np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
    }
    path = jaxkit.save_weights(tmp_path / "w.safetensors", tree)
    loaded = jaxkit.load_weights(path, like=tree)
    assert jax.tree.structure(loaded) == jax.tree.structure(tree)
    assert loaded["b"]["x1"].dtype == jnp.bfloat16
    assert loaded["list"][1].shape == (0, 4)
    assert (jax.random.bits(loaded["key"], (3,)) == jax.random.bits(tree["key"], (3,))).all()
    for name in ("a", "b"):
        for part in ("x1", "x2"):
            assert (loaded[name][part] == PARAMS[name][part]).all()
    assert (np.asarray(loaded["turned"]) == tree["turned"]).all()
    assert set(jaxkit.load_weights(path)["a"]) == {"x1", "x2"}


def test_weights_load_straight_onto_the_devices(tmp_path: Path) -> None:
    mesh = jaxkit.make_mesh("data")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    path = jaxkit.save_weights(tmp_path / "w.safetensors", {"x": np.arange(16.0).reshape(8, 2)})
    loaded = jaxkit.load_weights(path, sharding=sharding)["x"]
    assert {shard.data.shape for shard in loaded.addressable_shards} == {(1, 2)}


def test_saving_again_replaces_the_file_whole_or_not_at_all(tmp_path: Path) -> None:
    path = jaxkit.save_weights(tmp_path / "w.safetensors", {"x": jnp.ones(3)})
    before = path.read_bytes()
    with pytest.raises(TPUError, match="is no array"):
        jaxkit.save_weights(path, {"x": jnp.ones(3), "name": "adam"})
    assert path.read_bytes() == before
    jaxkit.save_weights(path, {"x": jnp.zeros(3)})
    assert not jaxkit.load_weights(path)["x"].any()
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


def test_old_msgpack_files_of_flax_are_read_without_flax(tmp_path: Path) -> None:
    serialization = pytest.importorskip("flax.serialization")
    tree = {
        "dense": {"kernel": np.arange(6.0).reshape(2, 3), "bias": jnp.ones(3, jnp.bfloat16)},
        "step": np.int32(7),
        "z": 1 + 2j,
    }
    path = tmp_path / "old.msgpack"
    path.write_bytes(serialization.msgpack_serialize(tree))
    loaded = jaxkit.load_weights(path)
    assert (np.asarray(loaded["dense"]["kernel"]) == tree["dense"]["kernel"]).all()
    assert loaded["dense"]["bias"].dtype == jnp.bfloat16
    assert int(loaded["step"]) == 7


def test_files_that_are_something_else_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"not at all")
    (tmp_path / "a.msgpack").write_bytes(b"\xc1")
    for name in ("a.safetensors", "a.msgpack"):
        with pytest.raises(TPUError, match="is not a"):
            jaxkit.load_weights(tmp_path / name)
    with pytest.raises(TPUError, match=r"ends with \.safetensors"):
        jaxkit.save_weights(tmp_path / "a.npz", {})
    with pytest.raises(FileNotFoundError):
        jaxkit.load_weights(tmp_path / "none.safetensors")
    path = jaxkit.save_weights(tmp_path / "w.safetensors", {"x": jnp.ones(3)})
    for like, says in (
        ({"y": jnp.ones(3)}, "has no 'y'"),
        ({}, "also has 'x'"),
        ({"x": jnp.ones(4)}, r"float32\[4\] is wanted"),
        ({"x": jnp.ones(3, jnp.int32)}, r"int32\[3\] is wanted"),
    ):
        with pytest.raises(TPUError, match=says):
            jaxkit.load_weights(path, like=like)
    with pytest.raises(TPUError, match="separator"):
        jaxkit.save_weights(path, {"a/b": jnp.ones(1)})


def test_importing_jaxkit_does_not_load_jax() -> None:
    import subprocess
    import sys

    code = (
        "import sys, jupyter_tpu.jaxkit as kit; assert 'jax' not in sys.modules; "
        "kit.padded_bytes((3, 4)); assert 'jax' not in sys.modules; "
        "import jupyter_tpu.jaxkit.models; assert 'numpy' not in sys.modules; "
        "assert sorted(dir(kit)) == sorted(kit.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_public_name_is_there() -> None:
    for name in jaxkit.__all__:
        assert getattr(jaxkit, name) is not None
    with pytest.raises(AttributeError, match="nothing_such"):
        jaxkit.nothing_such  # noqa: B018
