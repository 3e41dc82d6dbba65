"""What JAX lacks on the way to a TPU; usable alone in any notebook.

Random keys that can't collide, uneven batches, the shards and padding of arrays, compiling for a
TPU without one, weights, and torch. Of the product it imports only the catalog and parts that every
process uses, such as errors. jax is imported when something is used: ``from jupyter_tpu import
jaxkit`` takes a few milliseconds. `rest` and `processes` serve the Jupyter server and are private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .compile.compiler import cheapest_type, compile_for
    from .compile.models import CompileLimits
    from .compile.plan_row import PlanRow
    from .compile.plan_table import TypePlan
    from .compile.planner import plan
    from .compile.report import CompileReport
    from .convert import from_torch, linear_from_torch, linear_to_torch, to_torch
    from .keys import device_keys, fold_key, process_key
    from .sharding.batches import host_slice, join_hosts, prefetch, shard_batch
    from .sharding.placement import draw_sharding, placement
    from .tiles import padded_bytes, tiling, tiling_table
    from .trees import freeze_mask, tree_summary
    from .weights import load_weights, save_weights

__all__ = [
    "CompileLimits",
    "CompileReport",
    "PlanRow",
    "TypePlan",
    "cheapest_type",
    "compile_for",
    "device_keys",
    "draw_sharding",
    "fold_key",
    "freeze_mask",
    "from_torch",
    "host_slice",
    "join_hosts",
    "linear_from_torch",
    "linear_to_torch",
    "load_weights",
    "padded_bytes",
    "placement",
    "plan",
    "prefetch",
    "process_key",
    "save_weights",
    "shard_batch",
    "tiling",
    "tiling_table",
    "to_torch",
    "tree_summary",
]


_load = lazy_names(
    __name__,
    {
        "compile.compiler": "cheapest_type compile_for",
        "compile.models": "CompileLimits",
        "compile.plan_row": "PlanRow",
        "compile.plan_table": "TypePlan",
        "compile.planner": "plan",
        "compile.report": "CompileReport",
        "convert": "from_torch linear_from_torch linear_to_torch to_torch",
        "keys": "device_keys fold_key process_key",
        "sharding.batches": "host_slice join_hosts prefetch shard_batch",
        "sharding.placement": "draw_sharding placement",
        "tiles": "padded_bytes tiling tiling_table",
        "trees": "freeze_mask tree_summary",
        "weights": "load_weights save_weights",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(f"{__name__}.compile"):
            raise ModuleNotFoundError(
                f"jaxkit.{name} is not on this host yet, because no computer has connected to it: "
                "`jupyter tpu connect` installs it.",
                name=error.name,
            ) from None
        if error.name not in ("jax", "jaxlib", "numpy"):
            raise
        raise ModuleNotFoundError(
            f"jaxkit.{name} needs JAX: pip install 'jupyter-tpu[jax]'.", name=error.name
        ) from None


def __dir__() -> list[str]:
    return __all__
