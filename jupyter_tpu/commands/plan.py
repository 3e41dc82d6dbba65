"""``jupyter tpu plan``: which type runs a step of a JAX function cheapest, found without a TPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..terminal.grammar import argument, command, examples
from ..terminal.printing import json_option, note, print_json
from ..terminal.times import limit

if TYPE_CHECKING:
    from ..jaxkit import PlanRow


@command(
    "plan",
    epilog=examples(
        "jupyter tpu plan train.py:step --type v5e,v6e,tpu7x",
        "jupyter tpu plan train.py:step --type v5e --mesh data=-1 --shard data",
        "jupyter tpu plan train.py:step --type v5e --axes data,fsdp,tensor --plot plan.svg",
        "jupyter tpu plan train.py:loss --args 'batch()' --tier spot --json",
    ),
)
@argument("function", metavar="FILE.py:FUNCTION", help="A step, as a JAX function of a file.")
@click.option(
    "--type", "types", metavar="TYPE,...",
    help="Types, such as v6e-8, or generations, such as v5e.  [default: all]",
)  # fmt: skip
@click.option(
    "--args", "arguments", metavar="CODE",
    help="Python that gives the function's arguments, as a tuple; it sees what FILE.py defines. "
    "Arrays, or jax.ShapeDtypeStruct, since only shapes count.  [default: FUNCTION_args]",
)  # fmt: skip
@click.option(
    "--mesh", metavar="AXIS=SIZE,...",
    help="The mesh: data=2,tensor=-1. One size may be -1, and grows with the type.  "
    "[default: one device]",
)  # fmt: skip
@click.option(
    "--shard", metavar="AXIS",
    help="Divide the last argument, the batch, over this axis of the mesh. The others are on all "
    "devices.",
)  # fmt: skip
@click.option(
    "--axes", metavar="AXIS,...",
    help="Compare meshes of these axes: data, fsdp, tensor. Simple rules divide the arrays: data "
    "and fsdp the last argument, the batch; fsdp and tensor the others.",
)  # fmt: skip
@click.option("--max-devices", type=click.IntRange(min=1), default=8, show_default=True,
    metavar="N",
    help="The most devices of a type that a generation stands for.",
)  # fmt: skip
@click.option("--tier", type=click.Choice(["on-demand", "spot"]), default="on-demand",
    show_default=True, help="The price to rank by.",
)  # fmt: skip
@click.option("--zone", default="", show_default=False, metavar="ZONE",
    help="Prices of its region.  [default: those of the cheapest region of each type]",
)  # fmt: skip
@click.option("--timeout", default="10m", show_default=True, metavar="TIME",
    help="For all types together; then the table is partial. For example 90m or 2h.",
)  # fmt: skip
@click.option("--plot", metavar="FILE.svg", type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the plot to this file.",
)  # fmt: skip
@json_option
def plan(
    function: str,
    types: str | None,
    arguments: str | None,
    mesh: str | None,
    shard: str | None,
    axes: str | None,
    max_devices: int,
    tier: Any,
    zone: str,
    timeout: str,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare types for a JAX function: time, price and memory of a step.

    The function is compiled for each type, as a TPU would run it, on this computer: nothing is
    created and nothing is billed. FILE.py is imported, as Python does it; what stands under
    `if __name__ == "__main__"` is not run.

    The table has a row for each type, and for each mesh with --axes: the cheapest a step first,
    then those whose price is not known, then those that it does not fit or that were not compiled,
    with the reason. The times are estimates from published peak figures; trust their order more
    than the milliseconds. Prices are list prices, with their date.

    This needs libtpu: pip install 'jupyter-tpu[compile]'.
    """
    # JAX reads it when it is imported, here or by FILE.py. TPU chips of this computer stay free.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    module, step = _function(function)
    args = _arguments(module, step.__name__, arguments)
    if axes and (mesh or shard):
        raise InvalidInput("--axes compares meshes, so it can't be used with --mesh or --shard.")
    options = _sharding(_axes(mesh), shard, len(args))
    seconds = limit(timeout)
    from .. import jaxkit

    def compiled(row: PlanRow) -> None:
        note(f"{row.title}: {row.reason or 'compiled'}")

    table = jaxkit.plan(
        step,
        args,
        types=types.split(",") if types else None,
        axes=axes.split(",") if axes else None,
        max_devices=max_devices,
        tier=tier,
        zone=zone,
        seconds=seconds,
        limits=jaxkit.CompileLimits(seconds=min(seconds, 3600.0)),
        on_row=compiled,
        **options,
    )
    if plot is not None:
        plot.write_text(table.svg(), encoding="utf-8")
    if as_json:
        print_json(table.to_builtins(), "rows")
    else:
        print(table)


def _function(text: str) -> tuple[ModuleType, Callable[..., Any]]:
    """The imported file, and its function. Raises INVALID where it has none."""
    path_text, _, name = text.rpartition(":")
    path = Path(path_text).expanduser()
    if path.suffix != ".py" or not name.isidentifier():
        raise InvalidInput(f"{text} is not FILE.py:FUNCTION.", "For example: train.py:step")
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}.")
    sys.path.insert(0, str(path.resolve().parent))  # as for `python FILE.py`
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInput(
            f"{path} can't be imported: {type(error).__name__}: {error}",
            f"Look at it with: python -c 'import {path.stem}'",
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput(f"{path} has no function {name}.")
    return module, function


def _arguments(module: ModuleType, name: str, code: str | None) -> tuple[Any, ...]:
    """The function's arguments. Raises INVALID where the code gives none."""
    default = f"{name}_args"
    if code is None and not hasattr(module, default):
        raise InvalidInput(
            f"{module.__name__}.py does not say with which arguments {name} is called.",
            f"Define {default} there, a tuple or a function that returns one, or use --args.",
        )
    try:
        values = eval(code or default, vars(module))
        if callable(values):
            values = values()
    except Exception as error:
        raise InvalidInput(
            f"{code or default} gives no arguments: {type(error).__name__}: {error}"
        ) from error
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _axes(text: str | None) -> dict[str, int]:
    axes = {}
    for part in (text or "").split(",") if text else ():
        axis, _, size = part.partition("=")
        if not axis.isidentifier() or not size.lstrip("-").isdecimal():
            raise InvalidInput(
                f"{part!r} is not AXIS=SIZE.", "For example: --mesh data=2,tensor=-1"
            )
        axes[axis] = int(size)
    return axes


def _sharding(axes: dict[str, int], shard: str | None, count: int) -> dict[str, Any]:
    """The options of `jaxkit.plan` for a mesh, whose axis *shard* divides the last argument."""
    if shard is None:
        return {"mesh": axes} if axes else {}
    if shard not in axes:
        raise InvalidInput(f"--shard {shard} needs an axis of the mesh.", f"Add --mesh {shard}=-1.")
    from jax.sharding import PartitionSpec

    whole = [PartitionSpec()] * (count - 1)
    return {"mesh": axes, "in_shardings": (*whole, PartitionSpec(shard))}
