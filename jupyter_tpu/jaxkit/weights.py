"""Trees of arrays to and from a file: safetensors, and flax's msgpack for files that exist.

safetensors holds names and plain arrays, no code, and is read by torch and others too. Names are
the paths of the tree, joined by slashes (torch's with dots can be chosen).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np

from ..errors import Reason, TPUError
from .convert import to_numpy
from .keys import implementation, typed
from .trees import path_name

_KEYS = "jaxkit.random_keys"  # name -> implementation, in the file's metadata


def save_weights(path: str | os.PathLike[str], tree: Any, *, separator: str = "/") -> Path:
    """Writes *tree* to a ``.safetensors`` file, in one step: never half a file. Needs safetensors.

    Dicts, lists and any other tree of arrays; bfloat16 and typed random keys too. Raises
    `TPUError` (INVALID) for leaves that are no arrays and for names that contain the separator.
    """
    from safetensors.numpy import save

    path = Path(path)
    _suffix(path, (".safetensors",))
    arrays: dict[str, np.ndarray] = {}
    keys: dict[str, str] = {}
    for parts, leaf in jax.tree_util.tree_leaves_with_path(tree):
        names = [path_name((part,)) for part in parts]
        name = separator.join(names) or "value"
        if any(separator in part for part in names) or name in arrays:
            raise TPUError(
                f"The name {name!r} is not clear: a part of it contains {separator!r}.",
                Reason.INVALID,
                "Choose another separator.",
            )
        if not hasattr(leaf, "dtype") and not isinstance(leaf, (int, float)):
            raise TPUError(f"{name} is no array: {type(leaf).__name__}.", Reason.INVALID)
        if typed(leaf):
            keys[name] = implementation(leaf)
        arrays[name] = np.ascontiguousarray(to_numpy(leaf)).reshape(np.shape(to_numpy(leaf)))
    metadata = {_KEYS: msgspec.json.encode(keys).decode()} if keys else None
    _replace(path, save(arrays, metadata))
    return path


def load_weights(
    path: str | os.PathLike[str],
    *,
    like: Any = None,
    sharding: Any = None,
    separator: str = "/",
) -> Any:
    """The tree in a ``.safetensors`` file, or in a ``.msgpack`` file that flax wrote.

    *like*: a tree (of arrays or shapes) whose structure, dtypes and shapes the file has to have;
    without it the tree is of dicts. *sharding*: one for all arrays, or a tree of them. Raises
    `TPUError` (INVALID) for what does not match or is no such file, FileNotFoundError.
    """
    path = Path(path)
    suffix = _suffix(path, (".safetensors", ".msgpack"))
    flat = _read_safetensors(path) if suffix == ".safetensors" else _read_msgpack(path, separator)
    tree = _nested(flat, separator) if like is None else _as(flat, like, separator, path)
    return jax.device_put(tree, sharding)


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    flat: dict[str, Any] = {}
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        # flax's loader, unlike numpy's, knows bfloat16.
        with safe_open(path, framework="flax") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                flat[name] = file.get_tensor(name)
    except SafetensorError as error:
        raise TPUError(f"{path.name} is not a safetensors file: {error}.", Reason.INVALID) from None
    for name, kind in msgspec.json.decode(metadata.get(_KEYS, "{}"), type=dict[str, str]).items():
        if name in flat:
            flat[name] = jax.random.wrap_key_data(flat[name], impl=kind)
    return flat


def _read_msgpack(path: Path, separator: str) -> dict[str, Any]:
    try:
        tree = msgspec.msgpack.decode(path.read_bytes(), ext_hook=_flax_extension)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise TPUError(
            f"{path.name} is not a msgpack file of flax: {error}.", Reason.INVALID
        ) from None
    flat: dict[str, Any] = {}

    def walk(branch: Any, name: str) -> None:
        if isinstance(branch, Mapping) and "__msgpack_chunked_array__" in branch:
            shape = [int(size) for size in branch["shape"].values()]
            chunks = [np.ravel(chunk) for chunk in branch["chunks"].values()]
            flat[name] = np.concatenate(chunks).reshape(shape)
        elif isinstance(branch, Mapping):
            for key, value in branch.items():
                walk(value, f"{name}{separator}{key}" if name else str(key))
        elif branch is not None:
            flat[name or "value"] = branch

    walk(tree, "")
    return flat


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


def _nested(flat: dict[str, Any], separator: str) -> Any:
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        branch = tree
        *parents, last = name.split(separator)
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = array
    return tree


def _as(flat: dict[str, Any], like: Any, separator: str, path: Path) -> Any:
    wanted = jax.tree_util.tree_leaves_with_path(like)
    names = [separator.join(path_name((part,)) for part in parts) for parts, _ in wanted]
    missing = [name for name in names if name not in flat]
    extra = sorted(set(flat) - set(names))
    if missing or extra:
        what = f"has no {missing[0]!r}" if missing else f"also has {extra[0]!r}"
        raise TPUError(f"{path.name} {what}: it is of another tree.", Reason.INVALID)
    for name, (_, leaf) in zip(names, wanted, strict=True):
        found = flat[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise TPUError(
                f"{name} is {found.dtype}{list(found.shape)} in {path.name}, and "
                f"{leaf.dtype}{list(leaf.shape)} is wanted.",
                Reason.INVALID,
            )
    return jax.tree.unflatten(jax.tree.structure(like), [flat[name] for name in names])


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _suffix(path: Path, known: tuple[str, ...]) -> str:
    if path.suffix not in known:
        raise TPUError(
            f"The name of a file of weights ends with {' or '.join(known)}, not {path.suffix!r}.",
            Reason.INVALID,
        )
    return path.suffix
