"""Trees of arrays, written to files and read back."""

from __future__ import annotations

import collections
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from jaxkit_here import mesh_of
from safetensors.numpy import save

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError
from jupyter_tpu.jaxkit.convert import to_numpy

PARAMS = {
    "a": {"x1": jnp.ones((3, 5)), "x2": jnp.ones(5)},
    "b": {"x1": jnp.ones((2, 2), jnp.bfloat16), "x2": jnp.arange(3)},
}
Point = collections.namedtuple("Point", "x y")


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
    mesh = mesh_of(data=8)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    path = jaxkit.save_weights(tmp_path / "w.safetensors", {"x": np.arange(16.0).reshape(8, 2)})
    loaded = jaxkit.load_weights(path, sharding=sharding)["x"]
    assert {shard.data.shape for shard in loaded.addressable_shards} == {(1, 2)}


def test_weights_like_a_tree_get_the_shardings_of_that_tree(tmp_path: Path) -> None:
    mesh = mesh_of(data=4, model=2)
    by_row = NamedSharding(mesh, PartitionSpec("data"))
    device = jax.devices()[5]
    tree = {
        "split": jax.device_put(jnp.ones((8, 2)), by_row),
        "everywhere": jax.device_put(jnp.ones(3), NamedSharding(mesh, PartitionSpec())),
        "one device": jax.device_put(jnp.ones(3), device),
        "key": jax.device_put(jax.random.key(0), NamedSharding(mesh, PartitionSpec())),
        "anywhere": jnp.ones(3),
    }
    path = jaxkit.save_weights(tmp_path / "w.safetensors", tree)
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), tree
    )
    for like in (tree, shapes):
        loaded = jaxkit.load_weights(path, like=like)
        for name, leaf in like.items():
            assert loaded[name].sharding == leaf.sharding, name
    loaded = jaxkit.load_weights(path, like=tree)
    assert loaded["split"].addressable_shards[0].data.shape == (2, 2)
    assert not loaded["anywhere"].committed  # it can go beside any other array
    elsewhere = jaxkit.load_weights(path, like=tree, sharding=jax.devices()[1])
    assert elsewhere["split"].devices() == {jax.devices()[1]}


def test_without_safetensors_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = jaxkit.save_weights(tmp_path / "w.safetensors", PARAMS)
    for name in [name for name in sys.modules if name.split(".")[0] == "safetensors"]:
        monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: jaxkit.save_weights(path, PARAMS), lambda: jaxkit.load_weights(path)):
        with pytest.raises(ModuleNotFoundError) as caught:
            call()
        assert str(caught.value).endswith("need the package safetensors: pip install safetensors.")


def test_saving_again_replaces_the_file_whole_or_not_at_all(tmp_path: Path) -> None:
    path = jaxkit.save_weights(tmp_path / "w.safetensors", {"x": jnp.ones(3)})
    before = path.read_bytes()
    with pytest.raises(TPUError, match="is not an array"):
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
        ({"x": jnp.ones(4)}, r"but float32\[4\] in the given tree"),
        ({"x": jnp.ones(3, jnp.int32)}, r"but int32\[3\] in the given tree"),
    ):
        with pytest.raises(TPUError, match=says):
            jaxkit.load_weights(path, like=like)
    with pytest.raises(TPUError, match="separator"):
        jaxkit.save_weights(path, {"a/b": jnp.ones(1)})


#: Made when they are needed: each process collects these tests, and jax compiles for each array.
ODD: dict[str, Callable[[], Any]] = {
    "no arrays": lambda: {},
    "an empty branch": lambda: {"a": {}, "b": jnp.ones(2), "c": None, "d": []},
    "one array": lambda: jnp.ones(3),
    "numbers": lambda: {"whole": 3, "part": 2.5, "yes": True, "numpy": np.float32(1)},
    "lists and tuples": lambda: (
        jnp.ones(2),
        [jnp.zeros(1), (jnp.ones(1),)],
        Point(jnp.ones(1), 2),
    ),
    "numbers as names": lambda: {0: jnp.ones(1), 1: {"0": jnp.zeros(1)}},
    "dots, blanks and letters": lambda: {"a.b": {"c d": jnp.ones(1)}, "ä": jnp.ones(1)},
    "empty names": lambda: {"": jnp.ones(1), "a": {"": jnp.zeros(1)}},
    "keys": lambda: {
        "several": jax.random.split(jax.random.key(0), 3),
        "another kind": jax.random.key(1, impl="rbg"),
        "old": jax.random.PRNGKey(2),
    },
    "small dtypes": lambda: {
        "b": jnp.ones(3, jnp.bfloat16),
        "f": jnp.arange(3).astype(jnp.float8_e4m3fn),
        "n": np.arange(3).astype(jnp.float8_e5m2),
        "yes": jnp.ones(3, bool),
    },
    "numpy's own": lambda: {"f": np.ones(3), "i": np.arange(3), "c": np.ones(2, "complex64")},
    "another byte order": lambda: {"f": np.arange(3, dtype=">f4")},
}


@pytest.mark.parametrize("what", ODD)
def test_odd_trees_come_back_as_they_were(tmp_path: Path, what: str) -> None:
    tree = ODD[what]()
    path = jaxkit.save_weights(tmp_path / "w.safetensors", tree)
    likes = [tree]
    if what != "another byte order":  # jax itself takes no such thing
        likes.append(jax.eval_shape(lambda: tree))
    for like in likes:
        loaded = jaxkit.load_weights(path, like=like)
        assert jax.tree.structure(loaded) == jax.tree.structure(tree)
        for leaf, expected in zip(jax.tree.leaves(loaded), jax.tree.leaves(tree), strict=True):
            assert isinstance(leaf, jax.Array)
            leaf, expected = to_numpy(leaf), to_numpy(expected)
            assert np.array_equal(leaf, np.asarray(expected))


def test_without_a_tree_to_be_like_there_are_dicts(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    for tree, expected in (
        (jnp.ones(1), {"value": [1]}),
        ([jnp.ones(1), (jnp.zeros(1),)], {"0": [1], "1": {"0": [0]}}),
        ({"a": {}, "b": 2}, {"b": 2}),
    ):
        jaxkit.save_weights(path, tree)
        assert jax.tree.map(lambda leaf: leaf.tolist(), jaxkit.load_weights(path)) == expected


def test_names_with_slashes_need_another_separator(tmp_path: Path) -> None:
    tree = {"mlp/~/linear": {"w": jnp.ones(2)}}
    path = tmp_path / "w.safetensors"
    with pytest.raises(TPUError, match="separator"):
        jaxkit.save_weights(path, tree)
    jaxkit.save_weights(path, tree, separator="|")
    assert list(jaxkit.load_weights(path, separator="|")) == ["mlp/~/linear"]
    assert jaxkit.load_weights(path, like=tree, separator="|")["mlp/~/linear"]["w"].shape == (2,)


@pytest.mark.parametrize(
    ("leaf", "says"),
    [
        (1j, "is not an array: complex"),
        (jax.ShapeDtypeStruct((2,), jnp.float32), "is not an array: ShapeDtypeStruct"),
        (np.array([object()]), "can't hold a/b: .*object"),
        (np.ones(2, complex), "can't hold a/b: .*complex128.*astype"),
        (jnp.ones(2, jnp.int4), "can't hold a/b: .*int4"),
        (2**70, "can't hold a/b"),
    ],
)
def test_what_no_such_file_can_have_is_named(tmp_path: Path, leaf: Any, says: str) -> None:
    with pytest.raises(TPUError, match=says):
        jaxkit.save_weights(tmp_path / "w.safetensors", {"a": {"b": leaf}})
    assert list(tmp_path.iterdir()) == []


def test_whole_numbers_of_64_bits_are_read_or_refused_never_changed(tmp_path: Path) -> None:
    path = jaxkit.save_weights(tmp_path / "w.safetensors", {"n": np.array([2**40])})
    with pytest.raises(TPUError, match="n has integers that need 64 bits"):
        jaxkit.load_weights(path)
    with jax.enable_x64(True):
        assert int(jaxkit.load_weights(path)["n"][0]) == 2**40


def test_files_of_others_that_say_odd_things_are_refused_in_words(tmp_path: Path) -> None:
    one, two = np.ones(1), np.ones(2)
    path = tmp_path / "w.safetensors"
    for content, says in (
        (save({"a": one, "a/b": two}), "an array and a branch whose names clash at 'a/b'"),
        (
            save({"a": one}, {"jaxkit.random_keys": "{no"}),
            "random keys in w.safetensors are damaged",
        ),
        (
            save({"a": one}, {"jaxkit.random_keys": '{"a": "dice"}'}),
            "random keys in w.safetensors are damaged",
        ),
        (
            save({"a": one}, {"jaxkit.random_keys": '{"a": "rbg"}'}),
            "random keys in w.safetensors are damaged",
        ),
        (b"", "is not a safetensors file"),
    ):
        path.write_bytes(content)
        with pytest.raises(TPUError, match=says):
            jaxkit.load_weights(path)
    path.write_bytes(save({"a": one, "a/b": two}))
    assert set(jaxkit.load_weights(path, separator="|")) == {"a", "a/b"}


def test_old_files_keep_their_names_and_are_read_into_any_tree(tmp_path: Path) -> None:
    serialization = pytest.importorskip("flax.serialization")
    path = tmp_path / "old.msgpack"

    def written(tree: Any) -> Path:
        path.write_bytes(serialization.msgpack_serialize(serialization.to_state_dict(tree)))
        return path

    tree = {"mlp/~/linear": {"w": np.ones(2, "f4")}, "empty": {}, "n": 3}
    assert jax.tree.structure(jaxkit.load_weights(written(tree))) == jax.tree.structure(tree)
    assert jaxkit.load_weights(path, like=tree)["mlp/~/linear"]["w"].shape == (2,)
    listed = [np.ones(1, "f4"), (np.zeros(2, "f4"),)]
    loaded = jaxkit.load_weights(written(listed), like=listed)
    assert jax.tree.structure(loaded) == jax.tree.structure(listed)
    assert jaxkit.load_weights(written(np.ones(3, "f4")), like=jnp.ones(3)).shape == (3,)
    written({"a/b": np.ones(1), "a": {"b": np.ones(1)}})
    assert set(jaxkit.load_weights(path)) == {"a/b", "a"}
    with pytest.raises(TPUError, match="two arrays called 'a/b'"):
        jaxkit.load_weights(path, like={"a/b": jnp.ones(1)})
    with pytest.raises(TPUError, match="64 bits"):
        jaxkit.load_weights(written({"n": np.array([2**40])}))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xa1x",  # a text
        b"\x81\xa1a\xa1x",  # a text in a tree
        b"\xd4\x07\x00",  # an extension that flax has not
        b"\xd6\xff\x00\x00\x00\x00",  # a time
        b"\x81\xb9__msgpack_chunked_array__\xc3",
        b"\x91" * 3000 + b"\x01",  # a list in a list in a list …
    ],
)
def test_other_msgpack_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.msgpack"
    path.write_bytes(content)
    with pytest.raises(TPUError, match=r"w\.msgpack is not a msgpack file of flax"):
        jaxkit.load_weights(path)
