"""Trees of arrays in a file: safetensors, and reading flax's older msgpack files.

A safetensors file holds names and arrays and no code, and torch and others read it too. The names
are the paths of the tree, joined by slashes or another separator (torch uses dots).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
from jax.sharding import AbstractMesh

from ..errors import InvalidInput
from ..local_files import write_atomically
from .convert import fitting, to_numpy
from .keys import implementation, put, typed
from .trees import path_name

_KEYS = "jaxkit.random_keys"  # name -> implementation, in the file's metadata
_NUMBERS = (bool, int, float)
_ARRAYS = (jax.Array, np.ndarray, np.generic, *_NUMBERS)
#: What safetensors and JAX call dtypes that numpy lacks.
_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


def save_weights(path: str | os.PathLike[str], tree: Any, *, separator: str = "/") -> Path:
    """Writes *tree* to a ``.safetensors`` file, whole or not at all. Needs safetensors.

    *tree*: dicts, lists and any other tree of arrays and numbers, also bfloat16 and typed random
    keys. Branches without arrays are not saved. Raises `InvalidInput` for leaves that are not
    arrays, dtypes that such a file can't hold, and names that contain the separator.
    """
    library = _safetensors()

    path = Path(path)
    _suffix(path, (".safetensors",))
    arrays: dict[str, np.ndarray] = {}
    keys: dict[str, str] = {}
    for parts, leaf in jax.tree_util.tree_leaves_with_path(tree):
        names = [path_name((part,)) for part in parts]
        name = _name(parts, separator)
        if any(separator in part for part in names) or name in arrays:
            raise InvalidInput(
                f"The name {name!r} is ambiguous: a part of it contains {separator!r}.",
                "Choose another separator.",
            )
        if name == "__metadata__":
            raise InvalidInput(f"{name!r} is a reserved name in a safetensors file.", "Rename it.")
        if not isinstance(leaf, _ARRAYS):
            raise InvalidInput(
                f"{name} is not an array: {type(leaf).__name__}.",
                "Convert tensors with jaxkit.from_torch." if hasattr(leaf, "dtype") else "",
            )
        if typed(leaf):
            keys[name] = implementation(leaf)
        arrays[name] = np.asarray(to_numpy(leaf, name))
    metadata = {_KEYS: msgspec.json.encode(keys).decode()} if keys else None
    try:
        content = library.numpy.save(arrays, metadata)
    except library.SafetensorError as error:
        odd = [name for name, array in arrays.items() if f'"{array.dtype}"' in str(error)]
        raise InvalidInput(
            f"A safetensors file can't hold {odd[0] if odd else 'this tree'}: {error}.",
            "Change the dtype first, for example with x.astype('float32').",
        ) from None
    write_atomically(path, content, durable=True)
    return path


def load_weights(
    path: str | os.PathLike[str],
    *,
    like: Any = None,
    sharding: Any = None,
    separator: str = "/",
) -> Any:
    """The tree in a ``.safetensors`` file, or in a ``.msgpack`` file that flax wrote.

    *like*: a tree of arrays or shapes. The file must have its names, dtypes and shapes, and the
    result has its structure and its shardings. Without it the result is made of dicts, and a
    single array is ``{"value": array}``. *sharding*: where the arrays go instead, one for all or a
    tree of them. 64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is on; integers that
    don't fit raise `InvalidInput`. So does a file of another kind or with another tree.
    """
    path = Path(path)
    if _suffix(path, (".safetensors", ".msgpack")) == ".safetensors":
        flat = _read_safetensors(path)
        tree = _nested(flat, separator, path) if like is None else None
    else:
        tree = _read_msgpack(path)
        flat = _flat(tree, separator, path) if like is not None else {}
    if like is not None:
        tree = _as(flat, like, separator, path)
    for parts, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(leaf, (np.ndarray, np.generic)):
            fitting(_name(parts, separator), leaf)
    if like is not None and sharding is None:
        return jax.tree.map(lambda leaf, where: put(leaf, _sharding(where)), tree, like)
    return put(tree, sharding)


def _sharding(leaf: Any) -> Any:
    """Where *leaf* was put on purpose; None for jax's default device."""
    sharding = getattr(leaf, "sharding", None) if getattr(leaf, "committed", True) else None
    # An abstract mesh has no devices: such a shape comes from jax.eval_shape under one.
    return None if isinstance(getattr(sharding, "mesh", None), AbstractMesh) else sharding


def _read_safetensors(path: Path) -> dict[str, Any]:
    library = _safetensors()
    flat: dict[str, Any] = {}
    others: list[str] = []
    if not path.is_file():
        raise FileNotFoundError(f"The file {path} does not exist.")
    try:
        with library.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                try:
                    flat[name] = file.get_tensor(name)
                except (AttributeError, TypeError):  # numpy itself has no such dtype
                    others.append(name)
        if others:
            flat.update(_read_bytes(path, others))
    except library.SafetensorError as error:
        raise InvalidInput(f"{path.name} is not a safetensors file: {error}.") from None
    try:
        keys = msgspec.json.decode(metadata.get(_KEYS, "{}"), type=dict[str, str])
        for name in keys.keys() & flat.keys():
            flat[name] = jax.random.wrap_key_data(flat[name], impl=keys[name])
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise InvalidInput(f"The random keys in {path.name} are damaged: {error}.") from None
    return flat


def _read_bytes(path: Path, names: list[str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, entry in _safetensors().deserialize(path.read_bytes()):
        if name not in names:
            continue
        kind = entry["dtype"]
        if kind not in _DTYPES:
            raise InvalidInput(f"{name} in {path.name} has the dtype {kind}, which JAX lacks.")
        dtype = np.dtype(getattr(jax.numpy, _DTYPES[kind]))
        flat[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
    return flat


def _read_msgpack(path: Path) -> Any:
    """The tree in the file; an array alone as "value"."""

    def whole(branch: Any, name: str) -> Any:
        if isinstance(branch, dict) and "__msgpack_chunked_array__" in branch:
            shape = [int(size) for size in branch["shape"].values()]
            chunks = [np.ravel(chunk) for chunk in branch["chunks"].values()]
            return np.concatenate(chunks).reshape(shape)
        if isinstance(branch, dict):
            named = {str(key): part for key, part in branch.items() if part is not None}
            return {key: whole(part, f"{name}/{key}") for key, part in named.items()}
        if isinstance(branch, list):
            return [whole(part, f"{name}/{index}") for index, part in enumerate(branch)]
        if not isinstance(branch, (*_ARRAYS, complex)):
            raise ValueError(f"{name[1:] or 'the value'} is not an array: {type(branch).__name__}")
        return branch

    try:
        tree = whole(msgspec.msgpack.decode(path.read_bytes(), ext_hook=_flax_extension), "")
    except (
        msgspec.DecodeError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:
        raise InvalidInput(f"{path.name} is not a msgpack file of flax: {error}.") from None
    return tree if isinstance(tree, dict) else {"value": tree}


def _flax_extension(code: int, data: memoryview) -> Any:
    """The extension types of ``flax.serialization``: arrays, complex numbers, numpy scalars."""
    if code == 2:
        real, imaginary = msgspec.msgpack.decode(data, type=tuple[float, float])
        return complex(real, imaginary)
    if code not in (1, 3):
        raise ValueError(f"unknown extension {code}")
    shape, name, content = msgspec.msgpack.decode(data, type=tuple[list[int], str, bytes])
    dtype = jax.numpy.bfloat16 if name == "V2" else name
    array = np.frombuffer(content, dtype=np.dtype(dtype)).reshape(shape)
    return array if code == 1 else array[()]


def _name(parts: Any, separator: str) -> str:
    """What the array at this path of a tree is called in a file."""
    return separator.join(path_name((part,)) for part in parts) if parts else "value"


def _nested(flat: dict[str, Any], separator: str, path: Path) -> Any:
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        branch: Any = tree
        *parents, last = name.split(separator)
        for parent in parents:
            branch = branch.setdefault(parent, {}) if isinstance(branch, dict) else None
        if not isinstance(branch, dict) or last in branch:
            raise InvalidInput(
                f"{path.name} has an array and a branch whose names clash at {name!r}.",
                f"Choose a separator other than {separator!r}.",
            )
        branch[last] = array
    return tree


def _flat(tree: Any, separator: str, path: Path) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for parts, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = _name(parts, separator)
        if name in flat:
            raise InvalidInput(
                f"{path.name} has two arrays called {name!r}.",
                f"Choose a separator other than {separator!r}.",
            )
        flat[name] = leaf
    return flat


def _as(flat: dict[str, Any], like: Any, separator: str, path: Path) -> Any:
    leaves = jax.tree_util.tree_leaves_with_path(like)
    names = [_name(parts, separator) for parts, _ in leaves]
    missing = [name for name in names if name not in flat]
    extra = sorted(set(flat) - set(names))
    if missing or extra:
        what = f"has no {missing[0]!r}" if missing else f"also has {extra[0]!r}"
        raise InvalidInput(f"{path.name} {what}: it holds a different tree.")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        kind, expected = _kind(flat[name]), _kind(leaf)
        if kind != expected:
            raise InvalidInput(
                f"{name} is {kind} in {path.name}, but {expected} in the given tree."
            )
    return jax.tree.unflatten(jax.tree.structure(like), [flat[name] for name in names])


def _kind(leaf: Any) -> str:
    """The dtype that JAX gives it, and its shape: "float32[3, 5]"."""
    if isinstance(leaf, (*_NUMBERS, complex)):
        leaf = np.asarray(leaf)
    if not hasattr(leaf, "dtype"):
        return f"not an array ({type(leaf).__name__})"
    dtype = leaf.dtype
    if isinstance(dtype, np.dtype):
        dtype = jax.dtypes.canonicalize_dtype(dtype.newbyteorder("="))
    return f"{dtype}{list(leaf.shape)}"


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ModuleNotFoundError as error:
        if error.name != "safetensors":
            raise
        raise ModuleNotFoundError(
            "Weights in a .safetensors file need the package safetensors: pip install safetensors.",
            name="safetensors",
        ) from None
    return safetensors


def _suffix(path: Path, known: tuple[str, ...]) -> str:
    if path.suffix not in known:
        raise InvalidInput(
            f"The name of a weights file ends with {' or '.join(known)}, not {path.suffix!r}.",
        )
    return path.suffix
