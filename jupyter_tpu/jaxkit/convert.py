"""Between JAX, numpy and torch, without warnings about read-only memory and without surprises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import Reason, TPUError


def to_numpy(tree: Any) -> Any:
    """*tree* with every JAX array as a numpy array of its own: writable, whole, on the host.

    Arrays spread over devices are put together; bfloat16 stays (as ml_dtypes' type). Typed random
    keys become their uint32 data. An array that other processes hold a part of is a `TPUError`.
    """
    return jax.tree.map(_to_numpy, tree)


def from_numpy(tree: Any, sharding: Any = None) -> Any:
    """*tree* with every numpy array as a JAX array, copied, where *sharding* says.

    64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is on, as always in JAX.
    """
    arrays = jax.tree.map(lambda leaf: jax.numpy.array(leaf, copy=True), tree)
    return arrays if sharding is None else jax.device_put(arrays, sharding)


def to_torch(tree: Any) -> Any:
    """*tree* with every JAX or numpy array as a torch tensor on the CPU: a writable copy.

    DLPack carries all dtypes, bfloat16 too, without the "not writable" warning of going through
    numpy. Needs torch.
    """
    torch = _torch()

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            _whole(leaf)
            if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                leaf = jax.random.key_data(leaf)
            if leaf.dtype == bool:  # DLPack of older torch has no booleans
                return torch.from_numpy(np.array(leaf))
            host = jax.device_put(leaf, jax.local_devices(backend="cpu")[0])
            return torch.from_dlpack(host).clone()
        if isinstance(leaf, np.ndarray):
            return torch.from_numpy(leaf.copy())
        return leaf

    return jax.tree.map(convert, tree)


def from_torch(tree: Any, sharding: Any = None) -> Any:
    """*tree* (dicts, lists, a ``state_dict``) with every torch tensor as a JAX array, copied."""
    torch = _torch()

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach().cpu().contiguous()
        if leaf.dtype == torch.bool:
            return jax.numpy.array(leaf.numpy(), copy=True)
        # The tensor may be written to afterwards: JAX's arrays must not change with it.
        return jax.numpy.array(jax.numpy.from_dlpack(leaf), copy=True)

    plain = dict(tree) if isinstance(tree, Mapping) else tree
    arrays = jax.tree.map(convert, plain, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor))
    return arrays if sharding is None else jax.device_put(arrays, sharding)


def linear_from_torch(layer: Mapping[str, Any]) -> dict[str, Any]:
    """flax's ``{"kernel", "bias"}`` of a torch linear layer's ``{"weight", "bias"}``.

    torch keeps (out, in), flax (in, out). Tensors and arrays of any kind work.
    """
    return _linear(layer, "weight", "kernel", "a torch linear layer")


def linear_to_torch(layer: Mapping[str, Any]) -> dict[str, Any]:
    """torch's ``{"weight", "bias"}`` of a flax ``Dense`` layer's ``{"kernel", "bias"}``.

    Shapes: kernel (in, out), weight (out, in), bias (out,). Raises `TPUError` (INVALID) for what is
    no such layer.
    """
    return _linear(layer, "kernel", "weight", "a flax Dense layer")


def _linear(layer: Mapping[str, Any], source: str, target: str, what: str) -> dict[str, Any]:
    known = {source, "bias"}
    if source not in layer or set(layer) - known:
        raise TPUError(
            f"The parameters of {what} are {source!r} and perhaps 'bias', not "
            f"{', '.join(sorted(map(str, layer))) or 'nothing'}.",
            Reason.INVALID,
        )
    weight = layer[source]
    if len(weight.shape) != 2:
        raise TPUError(
            f"The {source} of {what} has 2 dimensions, not {len(weight.shape)}.", Reason.INVALID
        )
    converted = {target: weight.T}
    if layer.get("bias") is not None:
        converted["bias"] = layer["bias"]
    return converted


def _to_numpy(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array):
        return leaf
    _whole(leaf)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.array(leaf)  # not asarray: that one is a read-only view


def _whole(leaf: jax.Array) -> None:
    if not leaf.is_fully_addressable and not leaf.is_fully_replicated:
        raise TPUError(
            "Other processes hold a part of this array.",
            Reason.INVALID,
            "Bring it together first: jax.experimental.multihost_utils.process_allgather.",
        )


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "Converting to and from torch needs torch here: pip install torch.", name="torch"
        ) from None
    return torch
