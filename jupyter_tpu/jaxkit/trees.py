"""Trees of parameters: a summary, and which parameters are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import jax
from msgspec import Struct

from ..errors import InvalidInput
from ..wording import count
from .shapes import bits_of
from .tables import binary_size, html_table, text_table


def freeze_mask(
    params: Any,
    frozen: str | Sequence[str] | Callable[[str, Any], bool],
    *,
    frozen_label: Any = "freeze",
    other_label: Any = "train",
) -> Any:
    """A tree like *params* of labels "freeze" and "train", for ``optax.multi_transform``.

    *frozen*: patterns of paths (``"a/x1"``, ``"encoder/*"``; ``*`` matches slashes too, and the
    path of a branch means all of it), or a function of path and array. A pattern that matches
    nothing raises `InvalidInput`: parameters meant to be frozen would be trained.
    ``frozen_label=True, other_label=False`` gives a boolean mask.
    """
    patterns = [frozen] if isinstance(frozen, str) else frozen
    used: set[str] = set()

    def label(path: Any, leaf: Any) -> Any:
        name = path_name(path)
        if callable(patterns):
            hit = bool(patterns(name, leaf))
        else:
            hits = [
                pattern
                for pattern in patterns
                if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")
            ]
            used.update(hits)
            hit = bool(hits)
        return frozen_label if hit else other_label

    labels = jax.tree_util.tree_map_with_path(label, params)
    if not callable(patterns):
        idle = [pattern for pattern in patterns if pattern not in used]
        if idle:
            names = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
            raise InvalidInput(
                f"No parameter matches {idle[0]!r}.",
                f"The paths are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}.",
            )
    return labels


class TreeSummary(Struct, kw_only=True):
    """What `tree_summary` returns; prints as a table."""

    #: (path, dtype, shape, elements, bytes, where)
    rows: list[tuple[str, str, tuple[int, ...], int, int, str]]
    elements: int
    bytes: int

    _HEADS = ("", "dtype", "shape", "elements", "size", "where")

    def __repr__(self) -> str:
        return text_table(self._HEADS, self._cells())

    def _repr_html_(self) -> str:
        return html_table(self._HEADS, self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        cells = [
            (
                path,
                dtype,
                "×".join(map(str, shape)) or "()",
                f"{elements:,}",
                binary_size(size),
                where,
            )
            for path, dtype, shape, elements, size, where in self.rows
        ]
        total = count(len(self.rows), "array")
        return [*cells, (total, "", "", f"{self.elements:,}", binary_size(self.bytes), "")]


def tree_summary(tree: Any) -> TreeSummary:
    """Every array of *tree* by path, with dtype, shape, elements, bytes and device.

    Works for arrays of jax, numpy and torch and for ``jax.eval_shape``'s; bytes are those of the
    whole array, once, without a TPU's padding (`tiling_table` has that). Raises `InvalidInput` for
    dtypes that TPUs do not have.
    """
    rows: list[tuple[str, str, tuple[int, ...], int, int, str]] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        shape = tuple(int(size) for size in getattr(leaf, "shape", ()))
        if not hasattr(leaf, "dtype"):
            rows.append((path_name(path), type(leaf).__name__, (), 1, 0, ""))
            continue
        size = _bytes(leaf, shape)
        rows.append((path_name(path), str(leaf.dtype), shape, prod(shape), size, _where(leaf)))
    return TreeSummary(
        rows=rows, elements=sum(row[3] for row in rows), bytes=sum(row[4] for row in rows)
    )


def path_name(path: Any) -> str:
    """A path of ``jax.tree_util`` as "a/b/0"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _bytes(leaf: Any, shape: tuple[int, ...]) -> int:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = jax.eval_shape(jax.random.key_data, leaf)  # threefry has 2 words a key, rbg 4
        return data.size * data.dtype.itemsize
    dtype = str(leaf.dtype).removeprefix("torch.")
    return -(-prod(shape) * bits_of(dtype) // 8)


def _where(leaf: Any) -> str:
    if not isinstance(leaf, jax.Array):
        return type(leaf).__module__.split(".")[0]
    devices = leaf.sharding.device_set
    if len(devices) == 1:
        return str(next(iter(devices)))
    how = "copies" if leaf.is_fully_replicated else "shards"
    spec = getattr(leaf.sharding, "spec", None)
    return f"{len(devices)} devices, {how if spec is None or how == 'copies' else spec}"
