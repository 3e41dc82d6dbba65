"""Batches over a mesh: uneven ones, prefetching, and one global batch from several hosts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import gcd, prod
from typing import Any, Literal, overload

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from ...errors import InvalidInput
from ..keys import on_data, put
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
    """*batch* (arrays with the same first dimension) split over *axis* of *mesh*.

    *axis*: one axis or several; the first of the mesh by default. *uneven*, if the rows don't
    divide: "error" raises `InvalidInput` with the two nearest sizes, "drop" leaves the last rows
    out, "pad" appends rows of zeros (random keys of zeros, too). With "pad" the result is
    ``(batch, mask)``; the mask (rows,) is True for real rows and split the same way.
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
            f"{nearest_sizes(rows, parts)} uneven='drop' leaves out {excess} rows, "
            f"uneven='pad' adds {parts - excess}.",
        )
    if uneven == "drop":
        if rows < parts:
            raise InvalidInput(
                f"A batch of {rows} rows over {parts} devices: uneven='drop' would leave no rows.",
            )
        batch = jax.tree.map(lambda array: array[: rows - excess], batch)
    padding = -rows % parts
    if uneven == "pad" and padding:
        batch = on_data(partial(jax.tree.map, partial(_padded, padding)), batch)
    sharding = NamedSharding(mesh, PartitionSpec(spec))
    placed = put(batch, sharding)
    if uneven != "pad":
        return placed
    mask = np.arange(rows + padding) < rows
    return placed, jax.device_put(mask, sharding)


def prefetch(
    batches: Iterable[Any],
    where: Mesh | Sharding | jax.Device | Callable[[Any], Any],
    axis: str | Sequence[str] | None = None,
    *,
    ahead: int = 2,
) -> Iterator[Any]:
    """The batches of an iterator on the CPU, each already on its way to the devices.

    *where*: a mesh (batches are split as `shard_batch` does, over *axis*), a sharding, a device, or
    a function that places a batch, such as one that calls `join_hosts`. *ahead*: how many batches
    wait on the devices, and take memory there; they are copied while the devices compute. An error
    of the iterator, or of placing a batch, is raised after the batches before it.

    Raises `InvalidInput` if *ahead* is less than 1, or if there is an *axis* without a mesh.
    """
    if ahead < 1:
        raise InvalidInput(f"ahead is at least 1, not {ahead}.")
    place: Callable[[Any], Any]
    if isinstance(where, Mesh):
        place = partial(shard_batch, mesh=where, axis=axis)
    elif axis is not None:
        raise InvalidInput("axis is only for a mesh; a sharding or a function has its own.")
    elif callable(where):
        place = where
    else:
        place = partial(put, where=where)
    return _prefetched(iter(batches), place, ahead)


def _prefetched(source: Iterator[Any], place: Callable[[Any], Any], ahead: int) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    failure: Exception | None = None
    ended = False
    while True:
        while not ended and len(waiting) < ahead:
            try:
                waiting.append(place(next(source)))
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
    """The rows of a global batch that this process (host) loads: an equal share, in order.

    *rows*: of the whole batch. *process*, *processes*: jax's own by default. Raises
    `InvalidInput` with the two nearest sizes if the rows don't divide over the hosts.
    """
    process = jax.process_index() if process is None else process
    processes = jax.process_count() if processes is None else processes
    if processes < 1 or not 0 <= process < processes:
        raise InvalidInput(f"There is no process {process} of {processes}; the first is 0.")
    if rows < 0 or rows % processes:
        raise DoesNotDivide(
            f"A batch of {rows} rows does not divide over {processes} hosts.",
            nearest_sizes(max(rows, 0), processes),
        )
    share = rows // processes
    return slice(process * share, (process + 1) * share)


def join_hosts(batch: Any, mesh: Mesh, axis: str | Sequence[str] | None = None) -> Any:
    """One global batch of the rows that each process loaded (its `host_slice`), split over *axis*.

    Every process calls it with the same number of rows; those of process 0 come first. If the mesh
    assigns a host other rows than it loaded (each host holds all of *axis*, or the mesh orders the
    devices differently), the hosts exchange the rows. In a single process it is `shard_batch`.

    Raises `InvalidInput` if all the rows together don't divide over *axis*.
    """
    parts, spec = _parts(mesh, axis)
    hosts = sorted({device.process_index for device in mesh.devices.flat})
    share = batch_size(batch)
    rows = share * len(hosts)
    if rows % parts:
        raise DoesNotDivide(
            f"{len(hosts)} hosts with {share} rows each make {rows} rows, which do not divide over "
            f"{parts} devices ({' × '.join(spec)} of the mesh).",
            f"Each host needs a multiple of {parts // gcd(parts, len(hosts))} rows.",
        )
    sharding = NamedSharding(mesh, PartitionSpec(spec))
    as_loaded = _holds_what_it_loads(sharding, hosts, share)
    by_host = sharding if as_loaded else _host_sharding(mesh, hosts)

    def join(batch: Any) -> Any:
        joined = jax.tree.map(partial(_global, by_host, rows), batch)
        return joined if as_loaded else jax.device_put(joined, sharding)

    return on_data(join, batch)


def _global(sharding: NamedSharding, rows: int, array: Any) -> jax.Array:
    array = np.asarray(array)
    shape = (rows, *array.shape[1:])
    return jax.make_array_from_process_local_data(sharding, array, shape)


def _holds_what_it_loads(sharding: NamedSharding, hosts: list[int], share: int) -> bool:
    """Whether the devices of each host hold the rows that the host loads, and no others."""
    rows = share * len(hosts)
    held: dict[Any, Any] = dict(sharding.devices_indices_map((rows,)))
    for device, index in held.items():
        first, last, _ = index[0].indices(rows)
        start = hosts.index(device.process_index) * share
        if not start <= first <= last <= start + share:
            return False
    return True


def _host_sharding(mesh: Mesh, hosts: list[int]) -> NamedSharding:
    """Over the same devices: each host's rows on all of its devices."""
    devices: list[Any] = sorted(mesh.devices.flat, key=lambda device: device.process_index)
    counts = {sum(device.process_index == host for device in devices) for host in hosts}
    if len(counts) > 1:
        raise InvalidInput("The mesh must have the same number of devices on every host.")
    grid: Any = np.array(devices).reshape(len(hosts), -1)
    return NamedSharding(Mesh(grid, ("host", "device")), PartitionSpec("host"))


def batch_size(batch: Any) -> int:
    """The first dimension of all arrays of *batch*; raises `InvalidInput` if they differ."""
    sizes: dict[int, str] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "the batch"
        shape = getattr(leaf, "shape", None)
        if not shape:
            raise InvalidInput(f"{name} has no rows: it is a single number.")
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
            f"The mesh has no axis {unknown[0]!r}." if unknown else "axis is empty.",
            f"Its axes are {', '.join(str(name) for name in mesh.axis_names)}.",
        )
    return prod(mesh.shape[name] for name in spec), spec


def _padded(rows: int, array: Any) -> Any:
    library = jax.numpy if isinstance(array, jax.Array) else np
    return library.pad(array, [(0, rows)] + [(0, 0)] * (array.ndim - 1))
