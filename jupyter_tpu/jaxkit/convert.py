"""Trees of arrays between JAX and torch, copied, without warnings and without changed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import InvalidInput
from .trees import path_name


def to_torch(tree: Any) -> Any:
    """*tree* with every JAX or numpy array as a torch tensor on the CPU: a writable copy.

    bfloat16 and float8 stay what they are; typed random keys become their uint32 data. Raises
    `InvalidInput` with the name of an array that torch can't hold, such as one of int4, or that
    other processes hold a part of. Needs torch.
    """
    torch = _torch()

    def convert(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, (jax.Array, np.ndarray)):
            return leaf
        array = to_numpy(leaf, _name(path))
        try:
            if not _only_in_jax(array.dtype.name):
                return torch.from_numpy(array)
            bits = torch.from_numpy(array.view(f"u{array.dtype.itemsize}"))
            return bits.view(getattr(torch, array.dtype.name))
        except (TypeError, AttributeError) as error:
            raise InvalidInput(
                f"{_name(path)} is of {leaf.dtype}, which torch can't hold.",
                "Convert it first, for example with x.astype('float32').",
            ) from error

    return jax.tree_util.tree_map_with_path(convert, tree)


def from_torch(tree: Any, sharding: Any = None) -> Any:
    """*tree* (dicts, lists, a ``state_dict``) with every torch tensor as a JAX array, copied.

    The arrays are on JAX's default device, or where *sharding* says. 64-bit numbers become 32-bit
    ones unless ``jax_enable_x64`` is on, as always in JAX; integers that don't fit raise
    `InvalidInput`. So does a tensor without data (``device="meta"``) or of a special kind (sparse,
    quantized), by name. Gradients are dropped (``requires_grad``). Needs torch.
    """
    torch = _torch()
    if isinstance(tree, torch.nn.Module):
        raise InvalidInput(
            "A torch module is not a tree of tensors.",
            "Pass its weights: from_torch(module.state_dict()).",
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
            array = _numpy_of(torch, leaf)
        except (TypeError, BufferError, RuntimeError, AttributeError) as error:
            raise InvalidInput(
                f"{name} is not a dense tensor of numbers ({leaf.dtype}, {leaf.layout}).",
                "Convert it first: .to_dense() a sparse one, .dequantize() a quantized one, "
                ".float() one of a dtype that JAX does not have.",
            ) from error
        # Not DLPack: its arrays are committed to the CPU, also where a TPU is the default.
        return jax.numpy.asarray(np.array(fitting(name, native(array))))

    plain = dict(tree) if isinstance(tree, Mapping) else tree
    arrays = jax.tree_util.tree_map_with_path(
        convert, plain, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor)
    )
    return arrays if sharding is None else jax.device_put(arrays, sharding)


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

    torch keeps (out, in), flax (in, out). Tensors and arrays of any kind work. Raises
    `InvalidInput` for the parameters of another kind of layer.
    """
    return _linear(layer, "weight", "kernel", "a torch linear layer")


def linear_to_torch(layer: Mapping[str, Any]) -> dict[str, Any]:
    """torch's ``{"weight", "bias"}`` of a flax ``Dense`` layer's ``{"kernel", "bias"}``.

    Shapes: kernel (in, out), weight (out, in), bias (out,). Raises `InvalidInput` for the
    parameters of another kind of layer.
    """
    return _linear(layer, "kernel", "weight", "a flax Dense layer")


def _linear(layer: Mapping[str, Any], source: str, target: str, what: str) -> dict[str, Any]:
    known = {source, "bias"}
    if not isinstance(layer, Mapping):
        raise InvalidInput(
            f"The parameters of {what} are a dict of arrays, not {type(layer).__name__}.",
            "Of a torch module, pass module.state_dict().",
        )
    if source not in layer or set(layer) - known:
        raise InvalidInput(
            f"The parameters of {what} are {source!r} and optionally 'bias', not "
            f"{', '.join(sorted(map(str, layer))) or 'nothing'}."
        )
    weight = layer[source]
    if len(weight.shape) != 2:
        raise InvalidInput(f"The {source} of {what} has 2 dimensions, not {len(weight.shape)}.")
    converted = {target: weight.T}
    if layer.get("bias") is not None:
        converted["bias"] = layer["bias"]
    return converted


def to_numpy(leaf: Any, name: str = "The array") -> Any:
    """A JAX or numpy array as a numpy array of its own: writable, in C order and native byte order.

    bfloat16 stays (as ml_dtypes' type); typed random keys become their uint32 data. Other leaves
    are returned as they are. Raises `InvalidInput` if other processes hold a part of the array.
    """
    if isinstance(leaf, np.ndarray):
        return np.array(native(leaf), order="C")
    if not isinstance(leaf, jax.Array):
        return leaf
    if not leaf.is_fully_addressable and not leaf.is_fully_replicated:
        raise InvalidInput(
            f"{name} is spread over several processes: this one holds only a part of it.",
            "Gather it first with jax.experimental.multihost_utils.process_allgather.",
        )
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.array(leaf, order="C")  # not asarray, which gives a read-only view


def native(array: Any) -> Any:
    """A numpy array (or scalar) in this machine's byte order."""
    order = array.dtype.newbyteorder("=")
    return array if array.dtype == order else array.astype(order)


def fitting(name: str, array: Any) -> Any:
    """The numpy *array*, if its integers stay the same in JAX; else raises `InvalidInput`.

    Without ``jax_enable_x64`` JAX keeps the lower 32 bits of 64 without a warning.
    """
    narrow = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype.kind in "iu" and narrow != array.dtype and array.size:
        bounds = np.iinfo(narrow)
        if array.min() < bounds.min or array.max() > bounds.max:
            raise InvalidInput(
                f"{name} has integers that need 64 bits, and JAX uses 32 bits here.",
                "Turn on 64 bits: jax.config.update('jax_enable_x64', True), before JAX is used.",
            )
    return array


def _only_in_jax(dtype: str) -> bool:
    """Whether numpy has this dtype only through JAX, and torch under the same name."""
    return dtype == "bfloat16" or dtype.startswith("float8_")


def _name(path: Any) -> str:
    return path_name(path) or "The array"


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "Converting to and from torch needs torch: pip install torch.", name="torch"
        ) from None
    return torch
