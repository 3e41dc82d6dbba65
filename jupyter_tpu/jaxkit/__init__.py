"""Random numbers, placement, tiling and compiling for a TPU; usable alone in any notebook.

It imports jax and the catalog, nothing else of the product, and jax only when something is used:
``from jupyter_tpu import jaxkit`` costs a few milliseconds. Facts and vectors it stands on were
read from jax 0.10 and its TPU compiler; the tests compare with both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiling import cheapest_type, compile_for, compile_for_async
    from .convert import (
        from_numpy,
        from_torch,
        linear_from_torch,
        linear_to_torch,
        to_numpy,
        to_torch,
    )
    from .cpu import cpu_device, on_cpu
    from .keys import describe_key, device_keys, fold_key, process_key, split_key
    from .mesh import host_slice, join_hosts, make_mesh, prefetch, replicate, shard_batch
    from .models import CompileReport
    from .placing import picture, placement
    from .pool import JaxWorker
    from .precision import matmul_precision, set_matmul_precision
    from .sampling import DISTRIBUTIONS, sample
    from .tiles import padded_bytes, tiling, tiling_table
    from .trees import freeze_mask, tree_shapes, tree_summary
    from .weights import load_weights, save_weights

#: Public name -> the file it lives in.
_HOME = {
    "DISTRIBUTIONS": "sampling",
    "CompileReport": "models",
    "JaxWorker": "pool",
    "cheapest_type": "compiling",
    "compile_for": "compiling",
    "compile_for_async": "compiling",
    "cpu_device": "cpu",
    "describe_key": "keys",
    "device_keys": "keys",
    "fold_key": "keys",
    "freeze_mask": "trees",
    "from_numpy": "convert",
    "from_torch": "convert",
    "host_slice": "mesh",
    "join_hosts": "mesh",
    "linear_from_torch": "convert",
    "linear_to_torch": "convert",
    "load_weights": "weights",
    "make_mesh": "mesh",
    "matmul_precision": "precision",
    "on_cpu": "cpu",
    "padded_bytes": "tiles",
    "picture": "placing",
    "placement": "placing",
    "prefetch": "mesh",
    "process_key": "keys",
    "replicate": "mesh",
    "sample": "sampling",
    "save_weights": "weights",
    "set_matmul_precision": "precision",
    "shard_batch": "mesh",
    "split_key": "keys",
    "tiling": "tiles",
    "tiling_table": "tiles",
    "to_numpy": "convert",
    "to_torch": "convert",
    "tree_shapes": "trees",
    "tree_summary": "trees",
}

__all__ = [
    "DISTRIBUTIONS",
    "CompileReport",
    "JaxWorker",
    "cheapest_type",
    "compile_for",
    "compile_for_async",
    "cpu_device",
    "describe_key",
    "device_keys",
    "fold_key",
    "freeze_mask",
    "from_numpy",
    "from_torch",
    "host_slice",
    "join_hosts",
    "linear_from_torch",
    "linear_to_torch",
    "load_weights",
    "make_mesh",
    "matmul_precision",
    "on_cpu",
    "padded_bytes",
    "picture",
    "placement",
    "prefetch",
    "process_key",
    "replicate",
    "sample",
    "save_weights",
    "set_matmul_precision",
    "shard_batch",
    "split_key",
    "tiling",
    "tiling_table",
    "to_numpy",
    "to_torch",
    "tree_shapes",
    "tree_summary",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f".{home}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib", "numpy"):
            raise
        raise ModuleNotFoundError(
            f"jaxkit.{name} needs JAX here: install it with `pip install 'jupyter-tpu[jax]'`.",
            name=error.name,
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
