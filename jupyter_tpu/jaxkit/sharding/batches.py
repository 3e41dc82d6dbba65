"""Batches over a mesh: uneven ones, prefetching, and one global batch from several hosts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, Literal, overload

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ...errors import InvalidInput
from .axes import DoesNotDivide, nearest_sizes


@overload
def shard_batch(
    batch: Any,
    mesh: Mesh,
    axis: str | Sequence[str] | None = None,
    *,
    uneven: Literal["error", "drop"] = "error",
) -> Any: ...
@overload
def shard_batch(
    batch: Any,
    mesh: Mesh,
    axis: str | Sequence[str] | None = None,
    *,
    uneven: Literal["pad"],
) -> tuple[Any, jax.Array]: ...
def shard_batch(
    batch: Any,
    mesh: Mesh,
    axis: str | Sequence[str] | None = None,
    *,
    uneven: Literal["error", "drop", "pad"] = "error",
) -> Any:
    """*batch* (arrays with the same first dimension) spread over *axis* of *mesh*.

    *axis*: one axis or several; the first of the mesh by default. If the rows don't divide:
    "error" raises `TPUError` with the two nearest sizes, "drop" leaves the last rows out, "pad"
    appends rows of zeros and returns ``(batch, mask)``, the mask (rows,) True for real rows and
    spread the same way, to weigh a mean with.
    """
    parts, spec = _parts(mesh, axis)
    rows = batch_size(batch)
    excess = rows % parts
    if uneven not in ("error", "drop", "pad"):
        raise InvalidInput(f"uneven is 'error', 'drop' or 'pad', not {uneven!r}.")
    if uneven == "error" and excess:
        raise DoesNotDivide(
            f"A batch of {rows} rows does not divide over {parts} devices"
            f" ({' × '.join(spec)} of the mesh).",
            f"{nearest_sizes(rows, parts)} uneven='drop' leaves {excess} rows out, "
            f"uneven='pad' adds {parts - excess}.",
        )
    if uneven == "drop":
        if rows < parts:
            raise InvalidInput(
                f"Nothing would be left of a batch of {rows} rows over {parts} devices.",
            )
        batch = jax.tree.map(lambda array: array[: rows - excess], batch)
    padding = -rows % parts
    if uneven == "pad" and padding:
        batch = jax.tree.map(lambda array: _padded(array, padding), batch)
    sharding = NamedSharding(mesh, PartitionSpec(spec))
    placed = jax.device_put(batch, sharding)
    if uneven != "pad":
        return placed
    mask = np.arange(rows + padding) < rows
    return placed, jax.device_put(mask, sharding)


def prefetch(
    batches: Iterable[Any],
    where: Mesh | Any,
    axis: str | Sequence[str] | None = None,
    *,
    ahead: int = 2,
    put: Callable[[Any], Any] | None = None,
) -> Iterator[Any]:
    """The batches of a CPU iterator, each already on its way to the devices.

    *where*: a mesh (batches are spread as `shard_batch` does) or a sharding. *ahead*: how many
    batches wait on the devices, memory for as many; copies run beside the computation. *put*
    replaces how a batch is placed. What the iterator raises comes out at its place.
    """
    if ahead < 1:
        raise InvalidInput(f"ahead is at least 1, not {ahead}.")
    if put is None:
        put = _putter(where, axis)
    return _prefetched(iter(batches), put, ahead)


def _prefetched(source: Iterator[Any], put: Callable[[Any], Any], ahead: int) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    failure: Exception | None = None
    ended = False
    while True:
        while not ended and len(waiting) < ahead:
            try:
                waiting.append(put(next(source)))
            except StopIteration:
                ended = True
            except Exception as error:
                # The batches before the broken one are still good.
                failure, ended = error, True
        if not waiting:
            if failure is not None:
                raise failure
            return
        yield waiting.popleft()


def host_slice(rows: int, process: int | None = None, processes: int | None = None) -> slice:
    """The rows of a global batch that this process (host) has to load: an even share, in order.

    *rows*: of the whole batch. *process*, *processes*: jax's own by default. Raises `TPUError`
    (INVALID) if the hosts don't divide the rows, with the two nearest sizes.
    """
    process = jax.process_index() if process is None else process
    processes = jax.process_count() if processes is None else processes
    if processes < 1 or not 0 <= process < processes:
        raise InvalidInput(f"There is no process {process} of {processes}.")
    if rows < 0 or rows % processes:
        raise DoesNotDivide(
            f"A batch of {rows} rows does not divide over {processes} hosts.",
            nearest_sizes(max(rows, 0), processes),
        )
    share = rows // processes
    return slice(process * share, (process + 1) * share)


def join_hosts(batch: Any, mesh: Mesh, axis: str | Sequence[str] | None = None) -> Any:
    """One global batch of what each process loaded (its `host_slice`), spread over *axis*.

    Every process calls it with as many rows. In a single process the same as `shard_batch`.
    """
    parts, spec = _parts(mesh, axis)
    rows = batch_size(batch) * jax.process_count()
    if rows % parts:
        raise InvalidInput(
            f"{jax.process_count()} hosts with {batch_size(batch)} rows each make {rows}; that "
            f"does not divide over {parts} devices.",
            f"Each host needs a multiple of {max(1, parts // jax.process_count())} rows.",
        )
    sharding = NamedSharding(mesh, PartitionSpec(spec))
    return jax.tree.map(
        lambda array: jax.make_array_from_process_local_data(sharding, np.asarray(array)), batch
    )


def batch_size(batch: Any) -> int:
    """The first dimension that all arrays of *batch* share; `TPUError` (INVALID) if they don't."""
    sizes: dict[int, str] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "the batch"
        shape = getattr(leaf, "shape", None)
        if not shape:
            raise InvalidInput(f"{name} has no rows: it is a single value.")
        sizes.setdefault(shape[0], name)
    if not sizes:
        raise InvalidInput("The batch has no arrays.")
    if len(sizes) > 1:
        (first, name), (second, other) = list(sizes.items())[:2]
        raise InvalidInput(
            f"The arrays of a batch need the same number of rows: {name} has {first}, "
            f"{other} has {second}.",
        )
    return next(iter(sizes))


def _parts(mesh: Mesh, axis: str | Sequence[str] | None) -> tuple[int, tuple[str, ...]]:
    names = (mesh.axis_names[0],) if axis is None else axis
    spec = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in spec if name not in mesh.axis_names]
    if unknown or not spec:
        raise InvalidInput(
            f"The mesh has no axis {unknown[0]!r}." if unknown else "No axis was named.",
            f"Its axes are {', '.join(str(name) for name in mesh.axis_names)}.",
        )
    return prod(mesh.shape[name] for name in spec), spec


def _putter(where: Any, axis: str | Sequence[str] | None) -> Callable[[Any], Any]:
    if isinstance(where, Mesh):
        return lambda batch: shard_batch(batch, where, axis)
    return lambda batch: jax.device_put(batch, where)


def _padded(array: Any, rows: int) -> Any:
    library = jax.numpy if isinstance(array, jax.Array) else np
    return library.pad(array, [(0, rows)] + [(0, 0)] * (array.ndim - 1))
