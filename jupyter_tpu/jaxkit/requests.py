"""The bodies of REST's requests, read; light enough for the server's own process."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..errors import Reason, TPUError
from .models import ArrayRequest
from .shapes import MAX_ARRAYS, checked_shape, dtype_name

T = TypeVar("T", bound=msgspec.Struct)


def decode(kind: type[T], body: bytes) -> T:
    """*body* (JSON) as a *kind*; `TPUError` (INVALID) says where it is not one."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise TPUError(f"The request is not as it should be: {error}.", Reason.INVALID) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise TPUError(
            f"The request is not JSON: {error}.",
            Reason.INVALID,
            "NaN and Infinity are not numbers in JSON." if b"N" in body or b"I" in body else "",
        ) from None


def flat_arrays(arrays: dict[str, ArrayRequest]) -> dict[str, ArrayRequest]:
    """Every array of the trees by its path ("layers/0/kernel"), in their order, each checked.

    Raises `TPUError` (INVALID) for what is neither an array nor a tree, for shapes and dtypes that
    are none, and for two arrays of one path.
    """
    found: dict[str, ArrayRequest] = {}
    left = list(reversed(arrays.items()))  # not by recursion: a tree may be deep
    while left:
        path, array = left.pop()
        if (array.shape is None) == (array.tree is None):
            raise TPUError(f"{path} needs a shape or a tree, one of them.", Reason.INVALID)
        if array.tree is not None:
            left += [(f"{path}/{name}", part) for name, part in reversed(array.tree.items())]
            continue
        checked_shape(array.shape)
        dtype_name(array.dtype)
        if path in found:
            raise TPUError(f"There are two arrays called {path}.", Reason.INVALID)
        if len(found) >= MAX_ARRAYS:
            raise TPUError(f"A tree can have {MAX_ARRAYS} arrays at most.", Reason.INVALID)
        found[path] = array
    return found
