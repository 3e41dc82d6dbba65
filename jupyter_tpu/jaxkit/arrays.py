"""Arrays described by shape, dtype and partition spec, and trees of them, without jax; and
the operations of a traced program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from ..errors import InvalidInput
from .shapes import MAX_ARRAYS, checked_shape, dtype_name

#: One entry per dimension: null (not split), an axis of the mesh, or several axes.
Spec = list[str | list[str] | None]
Generation = Literal["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"]
#: Where an array lies: in the device's HBM, or in the memory of its host.
Memory = Literal["device", "pinned_host"]
Shape = list[int]
#: Axis -> size.
MeshAxes = dict[str, int]


class ArrayRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An array: its shape, and how it is split over the mesh (by default not at all).

    Or a tree of arrays: then only `tree` is set.
    """

    shape: Shape | None = None
    dtype: str = "float32"
    spec: Spec = []
    memory: Memory = "device"
    #: Instead of a shape: name -> array or tree.
    tree: dict[str, ArrayRequest] | None = None


def flat_arrays(arrays: dict[str, ArrayRequest]) -> dict[str, ArrayRequest]:
    """Every array of the trees by its path ("layers/0/kernel"), in their order, each checked.

    Raises `InvalidInput` for what is neither an array nor a tree, for wrong shapes and dtypes, and
    for two arrays with the same path.
    """
    array_requests: dict[str, ArrayRequest] = {}
    left = list(reversed(arrays.items()))  # not by recursion: a tree may be deep
    while left:
        path, array = left.pop()
        if (array.shape is None) == (array.tree is None):
            raise InvalidInput(f"{path} needs either a shape or a tree.")
        if array.tree is not None:
            left += [(f"{path}/{name}", part) for name, part in reversed(array.tree.items())]
            continue
        checked_shape(array.shape)
        dtype_name(array.dtype)
        if path in array_requests:
            raise InvalidInput(f"Two arrays are called {path}.")
        if len(array_requests) >= MAX_ARRAYS:
            raise InvalidInput(f"A tree can have at most {MAX_ARRAYS:,} arrays.")
        array_requests[path] = array
    return array_requests


def operations(jaxpr: Any) -> Iterator[Any]:
    """The equations of *jaxpr* and of the programs in their parameters (loops, branches, calls)."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)  # closed ones
                if hasattr(inner, "eqns"):
                    yield from operations(inner)
