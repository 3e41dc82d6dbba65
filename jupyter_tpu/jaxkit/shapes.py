"""Shapes and dtypes as people write them, checked; nothing here needs jax.

A shape of a million dimensions, or a tree of a million arrays, is a mistake: the limits keep such
requests from taking memory.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import InvalidInput

MAX_DIMENSIONS = 32
MAX_SIZE = 1 << 53  # of one dimension: what JSON's numbers carry without loss
MAX_ARRAYS = 20_000

#: Every dtype a JAX array can have -> bits an element.
BITS = {
    "bool": 8,
    "int2": 2,
    "int4": 4,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint2": 2,
    "uint4": 4,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "float4_e2m1fn": 4,
    "float8_e3m4": 8,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 8,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "bfloat16": 16,
    "float16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}


class KeyType(NamedTuple):
    """A dtype of typed random keys."""

    implementation: str  # as jax.random.key takes it
    words: int  # uint32 numbers of one key


#: The dtypes of arrays of typed random keys, as JAX names them.
KEYS = {
    "key<fry>": KeyType("threefry2x32", 2),
    "key<rbg>": KeyType("rbg", 4),
    "key<urbg>": KeyType("unsafe_rbg", 4),
}
_SHORT = {"bf16": "bfloat16", "f32": "float32", "f16": "float16", "i32": "int32", "i8": "int8"}


def dtype_name(dtype: Any) -> str:
    """The name of a dtype given as a string, a numpy or JAX dtype, or a scalar type."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    if name is None and isinstance(dtype, type):
        name = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}.get(
            dtype, dtype.__name__
        )
    if name is None and hasattr(dtype, "dtype"):  # jax.numpy.float32
        name = getattr(dtype.dtype, "name", None)
    name = _SHORT.get(name, name) if isinstance(name, str) else None
    if name is None or (name not in BITS and name not in KEYS):
        shown = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", repr(dtype))
        raise InvalidInput(
            f"Unknown dtype {str(shown)[:60]!r}.",
            "Common dtypes are float32, bfloat16, int32, int8 and bool.",
        )
    return name


def bits_of(dtype: Any) -> int:
    """Bits of one element of *dtype*."""
    name = dtype_name(dtype)
    return BITS[name] if name in BITS else 32 * KEYS[name].words


def stored_as(shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], str]:
    """Shape and dtype in memory: a key is a row of uint32 numbers."""
    name = dtype_name(dtype)
    return ((*shape, KEYS[name].words), "uint32") if name in KEYS else (shape, name)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """*shape* as whole numbers; raises `InvalidInput` with the dimension that is not one."""
    if not isinstance(shape, (list, tuple)):
        try:
            shape = (operator.index(shape),)
        except TypeError:
            raise InvalidInput(
                f"A shape is a list of whole numbers, not {str(shape)[:60]!r}."
            ) from None
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidInput(f"An array has at most {MAX_DIMENSIONS} dimensions, not {len(shape)}.")
    sizes = []
    for position, size in enumerate(shape):
        try:
            if isinstance(size, bool):
                raise TypeError
            number = operator.index(size)
        except Exception as error:  # symbolic dimensions raise errors of their own
            raise InvalidInput(
                f"Dimension {position} of a shape must be a whole number, not {str(size)[:60]}.",
                "Symbolic shapes have no size yet: use numbers instead.",
            ) from error
        if not 0 <= number <= MAX_SIZE:
            raise InvalidInput(
                f"Dimension {position} of a shape must be from 0 to 2**53, not {number}.",
            )
        sizes.append(number)
    return tuple(sizes)


def flat_shapes(tree: Any) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """(path, shape, dtype) of every array of *tree*.

    Leaves are objects with a shape and a dtype, shapes, and (shape, dtype) pairs; branches are
    mappings, lists, tuples and everything else that jax treats as a tree.
    """
    for path, leaf in flat_leaves(tree):
        if _is_shape(leaf):
            yield path, checked_shape(leaf), "float32"
        elif _is_pair(leaf):
            yield path, checked_shape(leaf[0]), dtype_name(leaf[1])
        else:
            yield path, checked_shape(leaf.shape), dtype_name(leaf.dtype)


def flat_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """(path, leaf) of every array of *tree*, in the same order."""
    for count, (path, leaf) in enumerate(_leaves(tree, "")):
        if count >= MAX_ARRAYS:
            raise InvalidInput(f"A tree can have at most {MAX_ARRAYS:,} arrays.")
        yield path, leaf


def is_leaf(tree: Any) -> bool:
    """Whether *tree* is one array: has a shape and a dtype, or is a shape, or (shape, dtype)."""
    return is_written(tree) or _is_array(tree)


def is_written(tree: Any) -> bool:
    """Whether *tree* is written instead of an array: a shape, or (shape, dtype)."""
    return _is_shape(tree) or _is_pair(tree)


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if is_leaf(tree):
        yield path, tree
    elif isinstance(tree, Mapping):
        for name, branch in tree.items():
            yield from _leaves(branch, f"{path}/{name}" if path else str(name))
    elif isinstance(tree, (list, tuple)):
        for position, branch in enumerate(tree):
            yield from _leaves(branch, f"{path}/{position}" if path else str(position))
    elif tree is not None:
        yield from _registered(tree, path)


def _registered(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    import jax

    for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(keys, simple=True, separator="/")
        if not _is_array(leaf):
            raise InvalidInput(
                f"{name or path or 'The tree'} is neither an array nor a shape: "
                f"{type(leaf).__name__}.",
            )
        yield "/".join(part for part in (path, name) if part), leaf


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not _is_quantized(leaf)


def _is_quantized(leaf: Any) -> bool:
    """Whether it is several arrays, or another one than its shape and dtype say, such as QArray of
    qwix and QTensor of AQT, whose dtype is that of the numbers that they stand for.
    """
    jax = sys.modules.get("jax")  # what makes them has imported it
    if jax is None:
        return False
    parts = jax.tree_util.tree_leaves(leaf)
    return len(parts) > 1 or any(
        hasattr(part, "dtype") and (part.shape, part.dtype) != (leaf.shape, leaf.dtype)
        for part in parts
    )


def _is_shape(leaf: Any) -> bool:
    return (
        isinstance(leaf, (list, tuple))
        and not hasattr(leaf, "_fields")
        and all(isinstance(size, int) and not isinstance(size, bool) for size in leaf)
        and (isinstance(leaf, tuple) or len(leaf) > 0)
    )


def _is_pair(leaf: Any) -> bool:
    if not isinstance(leaf, (list, tuple)) or len(leaf) != 2 or not _is_shape(leaf[0]):
        return False
    dtype = leaf[1]
    return not isinstance(dtype, (list, tuple, Mapping)) and not _is_array(dtype)
