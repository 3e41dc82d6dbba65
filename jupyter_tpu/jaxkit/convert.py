"""Between JAX, numpy and torch, without warnings about read-only memory and without surprises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import InvalidInput
from .cpu import cpu_device
from .trees import path_name


def to_numpy(tree: Any) -> Any:
    """*tree* with every JAX array as a numpy array of its own: writable, whole, on the host.

    Arrays spread over devices are put together; bfloat16 stays (as ml_dtypes' type). Typed random
    keys become their uint32 data. An array that other processes hold a part of is a `TPUError`.
    """
    return jax.tree.map(_to_numpy, tree)


def from_numpy(tree: Any, sharding: Any = None) -> Any:
    """*tree* with every numpy array as a JAX array, copied, where *sharding* says.

    64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is on, as always in JAX; whole
    numbers that don't fit there are a `TPUError` (INVALID) instead of other numbers.
    """

    def convert(path: Any, leaf: Any) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic)):
            return _own(_name(path), leaf)
        return jax.numpy.array(leaf, copy=True)

    return _placed(jax.tree_util.tree_map_with_path(convert, tree), sharding)


def to_torch(tree: Any) -> Any:
    """*tree* with every JAX or numpy array as a torch tensor on the CPU: a writable copy.

    DLPack carries what torch has a dtype for, bfloat16 too, without the "not writable" warning of
    going through numpy. A `TPUError` (INVALID) names the array that torch can't hold, such as one
    of int4. Needs torch.
    """
    torch = _torch()

    def convert(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, (jax.Array, np.ndarray)):
            return leaf
        try:
            return _to_torch(torch, leaf)
        except (TypeError, BufferError, RuntimeError) as error:
            if isinstance(leaf, jax.core.Tracer) or (
                isinstance(leaf, jax.Array) and leaf.is_deleted()
            ):
                raise  # jax says it better
            raise InvalidInput(
                f"{_name(path)} is of {leaf.dtype}, which torch can't hold.",
                "Make it another one first: x.astype('float32'), say.",
            ) from error

    return jax.tree_util.tree_map_with_path(convert, tree)


def _to_torch(torch: Any, leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf, name = np.array(native(leaf), order="C"), leaf.dtype.name
        if _only_in_jax(name):
            bits = torch.from_numpy(leaf.view(f"u{leaf.dtype.itemsize}"))
            return bits.view(getattr(torch, name, None))
        return torch.from_numpy(leaf)
    _whole(leaf)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.dtype == bool:  # DLPack of older torch has no booleans
        return torch.from_numpy(np.array(leaf))
    if not leaf.is_fully_addressable:  # every process has all of it
        leaf = leaf.addressable_data(0)
    return torch.from_dlpack(jax.device_put(leaf, cpu_device())).clone()


def from_torch(tree: Any, sharding: Any = None) -> Any:
    """*tree* (dicts, lists, a ``state_dict``) with every torch tensor as a JAX array, copied.

    They are where `from_numpy` puts them, and numbers of 64 bits are treated alike; what was
    computed stays behind (``requires_grad``). A `TPUError` (INVALID) names the tensor that has no
    data (``device="meta"``) or is no plain one (sparse, quantized).
    """
    torch = _torch()
    if isinstance(tree, torch.nn.Module):
        raise InvalidInput(
            "A module of torch is no tree of tensors.",
            "Give its weights: from_torch(module.state_dict()).",
        )

    def convert(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        name = _name(path)
        if leaf.is_meta:
            raise InvalidInput(
                f"{name} has no data: it is on torch's meta device.",
                "Load the weights into the module first.",
            )
        try:
            numbers = _numpy_of(torch, leaf)
        except (TypeError, BufferError, RuntimeError, AttributeError) as error:
            raise InvalidInput(
                f"{name} is no plain tensor ({leaf.dtype}, {leaf.layout}).",
                "Make one of it first: .to_dense() of a sparse one, .dequantize() of a quantized "
                "one, .float() of a dtype that JAX has not.",
            ) from error
        # Not DLPack: its arrays are bound to the CPU, also where a TPU is the default.
        return _own(name, numbers)

    plain = dict(tree) if isinstance(tree, Mapping) else tree
    return _placed(
        jax.tree_util.tree_map_with_path(
            convert, plain, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor)
        ),
        sharding,
    )


def _numpy_of(torch: Any, tensor: Any) -> np.ndarray:
    """The numbers of *tensor*, perhaps in its own memory."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    if _only_in_jax(name):
        bits = torch.uint16 if tensor.element_size() == 2 else torch.uint8
        return tensor.view(bits).numpy().view(getattr(jax.numpy, name))
    return tensor.numpy()


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
    if not isinstance(layer, Mapping):
        raise InvalidInput(
            f"The parameters of {what} are a dict of arrays, not {type(layer).__name__}.",
            "A torch module gives them by .state_dict().",
        )
    if source not in layer or set(layer) - known:
        raise InvalidInput(
            f"The parameters of {what} are {source!r} and perhaps 'bias', not "
            f"{', '.join(sorted(map(str, layer))) or 'nothing'}.",
        )
    weight = layer[source]
    if len(weight.shape) != 2:
        raise InvalidInput(f"The {source} of {what} has 2 dimensions, not {len(weight.shape)}.")
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


def _only_in_jax(dtype: str) -> bool:
    """Whether numpy has this dtype from JAX alone, and torch by the same name."""
    return dtype == "bfloat16" or dtype.startswith("float8_")


def _own(name: str, numbers: Any) -> jax.Array:
    """A JAX array with a copy that is made before this returns: *numbers* may change then."""
    return jax.numpy.asarray(np.array(fitting(name, native(numbers))))


def native(array: Any) -> Any:
    """A numpy array (or scalar) in this machine's byte order."""
    order = array.dtype.newbyteorder("=")
    return array if array.dtype == order else array.astype(order)


def fitting(name: str, array: Any) -> Any:
    """*array*, a numpy one, if its whole numbers are the same in JAX; else a `TPUError` (INVALID).

    Without ``jax_enable_x64`` JAX takes the lower 32 bits of 64 and says nothing.
    """
    narrow = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype.kind in "iu" and narrow != array.dtype and array.size:
        bounds = np.iinfo(narrow)
        if array.min() < bounds.min or array.max() > bounds.max:
            raise InvalidInput(
                f"{name} has whole numbers that need 64 bits, and JAX keeps 32 here.",
                "Allow 64: jax.config.update('jax_enable_x64', True) before anything else.",
            )
    return array


def _name(path: Any) -> str:
    return path_name(path) or "The array"


def _placed(tree: Any, sharding: Any) -> Any:
    return tree if sharding is None else jax.device_put(tree, sharding)


def _whole(leaf: jax.Array) -> None:
    if not leaf.is_fully_addressable and not leaf.is_fully_replicated:
        raise InvalidInput(
            "Other processes hold a part of this array.",
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
