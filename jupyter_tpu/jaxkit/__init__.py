"""Random numbers, placement, tiling and compiling for a TPU; usable alone in any notebook.

It imports jax and the catalog, nothing else of the product, and jax only when something is used:
``from jupyter_tpu import jaxkit`` costs a few milliseconds. Facts and vectors it stands on were
read from jax 0.10 and its TPU compiler; the tests compare with both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compile.compiler import cheapest_type, compile_for, compile_for_async
    from .compile.report import CompileReport
    from .convert import (
        from_numpy,
        from_torch,
        linear_from_torch,
        linear_to_torch,
        to_numpy,
        to_torch,
    )
    from .cpu import cpu_device, on_cpu
    from .keys import device_keys, fold_key, process_key, split_key
    from .precision import matmul_precision, set_matmul_precision
    from .rest.answers import describe_key
    from .rest.pool import JaxWorker
    from .rest.sampling import DISTRIBUTIONS, sample
    from .sharding.batches import (
        host_slice,
        join_hosts,
        make_mesh,
        prefetch,
        replicate,
        shard_batch,
    )
    from .sharding.placement import picture, placement
    from .tiles import padded_bytes, tiling, tiling_table
    from .trees import freeze_mask, tree_shapes, tree_summary
    from .weights import load_weights, save_weights

#: Public name -> the file it lives in.
_HOME = {
    "DISTRIBUTIONS": "rest.sampling",
    "CompileReport": "compile.report",
    "JaxWorker": "rest.pool",
    "cheapest_type": "compile.compiler",
    "compile_for": "compile.compiler",
    "compile_for_async": "compile.compiler",
    "cpu_device": "cpu",
    "describe_key": "rest.answers",
    "device_keys": "keys",
    "fold_key": "keys",
    "freeze_mask": "trees",
    "from_numpy": "convert",
    "from_torch": "convert",
    "host_slice": "sharding.batches",
    "join_hosts": "sharding.batches",
    "linear_from_torch": "convert",
    "linear_to_torch": "convert",
    "load_weights": "weights",
    "make_mesh": "sharding.batches",
    "matmul_precision": "precision",
    "on_cpu": "cpu",
    "padded_bytes": "tiles",
    "picture": "sharding.placement",
    "placement": "sharding.placement",
    "prefetch": "sharding.batches",
    "process_key": "keys",
    "replicate": "sharding.batches",
    "sample": "rest.sampling",
    "save_weights": "weights",
    "set_matmul_precision": "precision",
    "shard_batch": "sharding.batches",
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
