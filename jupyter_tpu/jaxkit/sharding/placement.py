"""What a mesh and partition specs make of arrays: arithmetic alone, no device, no jax.

For every array: the shape of one device's shard, its bytes with and without the TPU's padding, and
how many copies exist. For every TPU type: whether all of them fit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from ...catalog import AcceleratorType, types
from ...errors import InvalidInput
from ..arrays import ArrayRequest, Memory, MeshAxes, flat_arrays
from ..shapes import bits_of, checked_shape, dtype_name, flat_leaves, flat_shapes, is_leaf
from ..tiles import padded_bytes
from ..topology import generation_of, known_type, usable_hbm
from .axes import DoesNotDivide, axis_sizes, nearest_sizes
from .drawing import draw
from .models import ArrayPlacement, Placement, PlacementRequest, TypeFit

#: More devices than the largest TPU has.
MAX_DEVICES = 1 << 14


def placement(
    mesh: Any,
    arrays: Any,
    specs: Any = None,
    *,
    types: Sequence[str] | None = None,
    generation: str = "v5e",
    picture: str | None = None,
) -> Placement:
    """What each device holds of *arrays*, and which TPU types have memory for it.

    *mesh*: axis -> size, or a jax mesh. *arrays*: a tree of arrays, shapes or (shape, dtype).
    *specs*: partition specs for them, as ``jit`` takes them: one for all, or a tree prefix of
    *arrays*; None for the arrays' own shardings (arrays without one are replicated). Arrays whose
    sharding says pinned_host take the host's memory and no HBM. *types*:
    names to check, the whole catalog by default. *generation*: a generation ("v5e") or a type whose
    padding is shown. *picture*: the path of an array to draw.

    Raises `InvalidInput` for meshes, specs and shapes that do not go together.
    """
    rows = {
        path: ArrayRequest(shape=list(shape), dtype=dtype, spec=spec, memory=memory)
        for path, shape, dtype, spec, memory in _with_specs(arrays, specs)
    }
    axes = dict(mesh) if isinstance(mesh, Mapping) else dict(mesh.shape)
    return place(
        PlacementRequest(
            mesh=axes,
            arrays=rows,
            types=None if types is None else list(types),
            generation=generation_of(generation),  # type: ignore[arg-type]
            picture=picture,
            theme="inherit",
        )
    )


def place(request: PlacementRequest) -> Placement:
    """The answer to POST jax/placement."""
    mesh = axis_sizes(request.mesh, None)
    devices = prod(mesh.values())
    if devices > MAX_DEVICES:
        raise InvalidInput(
            f"A mesh of {devices:,} devices is larger than any TPU.",
            f"The limit here is {MAX_DEVICES:,}.",
        )
    arrays = flat_arrays(request.arrays)
    rows = [place_array(name, array, mesh, request.generation) for name, array in arrays.items()]
    held = [row for row in rows if row.memory == "device"]
    if request.picture is not None and request.picture not in arrays:
        raise InvalidInput(f"There is no array {request.picture!r} to draw.")
    whole = [row for row in held if row.replicated]
    return Placement(
        mesh=mesh,
        devices=devices,
        generation=request.generation,
        arrays=rows,
        bytes=sum(row.bytes for row in rows),
        bytes_per_device=sum(row.bytes_per_device for row in held),
        padded_bytes_per_device=sum(row.padded_bytes_per_device for row in held),
        host_bytes_per_device=sum(
            row.bytes_per_device for row in rows if row.memory == "pinned_host"
        ),
        replicated=[row.name for row in whole],
        replicated_bytes_per_device=sum(row.padded_bytes_per_device for row in whole),
        types=_fits(held, devices, request.types),
        picture=None
        if request.picture is None
        else draw(next(row for row in rows if row.name == request.picture), mesh, request.theme),
    )


def draw_sharding(
    mesh: Any, shape: Sequence[int], spec: Any = (), *, name: str = "", theme: str = "inherit"
) -> Picture:
    """How an array of *shape* is split over the mesh, as an SVG picture that a notebook shows.

    *theme*: "inherit" uses the colour of the text around it, "auto" the reader's preference,
    "light" and "dark" are fixed. Raises `InvalidInput` as `placement` does.
    """
    axes = axis_sizes(dict(mesh) if isinstance(mesh, Mapping) else dict(mesh.shape), None)
    array = ArrayRequest(shape=list(checked_shape(shape)), spec=written_spec(spec))
    return Picture(draw(place_array(name, array, axes, "v5e"), axes, theme))


class Picture(str):
    """SVG text that a notebook shows as a picture."""

    def _repr_html_(self) -> str:
        # As HTML, not as an image, so that it uses the notebook's text colour.
        return str(self)


def place_array(name: str, array: ArrayRequest, mesh: MeshAxes, generation: str) -> ArrayPlacement:
    """What one device holds of *array*; raises `DoesNotDivide` if the mesh does not divide it."""
    shape = checked_shape(array.shape)
    spec = _checked_spec(name, array.spec, len(shape), mesh)
    shard = []
    for position, (size, axes) in enumerate(zip(shape, spec, strict=True)):
        parts = prod(mesh[axis] for axis in axes)
        if size % parts:
            raise DoesNotDivide(
                f"Dimension {position} of {name or 'the array'} has {size} elements; "
                f"{' × '.join(axes)} = {parts} does not divide it.",
                nearest_sizes(size, parts),
            )
        shard.append(size // parts)
    shards = prod(mesh[axis] for axes in spec for axis in axes)
    bits = bits_of(array.dtype)
    return ArrayPlacement(
        name=name,
        shape=list(shape),
        dtype=dtype_name(array.dtype),
        memory=array.memory,
        spec=[None if not axes else axes[0] if len(axes) == 1 else list(axes) for axes in spec],
        shard_shape=shard,
        shards=shards,
        copies=prod(mesh.values()) // shards,
        bytes=-(-prod(shape) * bits // 8),
        bytes_per_device=-(-prod(shard) * bits // 8),
        padded_bytes_per_device=padded_bytes(shard, array.dtype, generation),
    )


def memory_of(sharding: Any) -> Memory:
    """Where a sharding of jax puts an array; "device" for None, and on machines without a TPU."""
    kind = getattr(sharding, "memory_kind", None)
    return "pinned_host" if kind == "pinned_host" else "device"


def written_spec(spec: Any) -> list[str | list[str] | None]:
    """A ``PartitionSpec``, or what stands for one, as REST writes it."""
    parts = (spec,) if isinstance(spec, str) else tuple(spec or ())
    return [
        part if part is None or isinstance(part, str) else [str(axis) for axis in part]
        for part in parts
    ]


def _checked_spec(
    name: str, spec: Sequence[Any], rank: int, mesh: MeshAxes
) -> list[tuple[str, ...]]:
    if len(spec) > rank:
        raise InvalidInput(
            f"The spec of {name or 'the array'} has {len(spec)} entries, but its shape has {rank}.",
        )
    seen: set[str] = set()
    checked = []
    for part in spec:
        axes = () if part is None else (part,) if isinstance(part, str) else tuple(part)
        for axis in axes:
            if axis not in mesh:
                raise InvalidInput(
                    f"The spec of {name or 'the array'} names the axis {axis!r}, which the mesh "
                    "does not have.",
                    f"Its axes are {', '.join(mesh)}.",
                )
            if axis in seen:
                raise InvalidInput(
                    f"The spec of {name or 'the array'} uses the axis {axis!r} twice.",
                )
            seen.add(axis)
        checked.append(axes)
    return checked + [()] * (rank - len(checked))


def _fits(
    rows: Sequence[ArrayPlacement], devices: int, names: Sequence[str] | None
) -> list[TypeFit]:
    chosen: Iterable[AcceleratorType] = (
        types() if names is None else [known_type(name) for name in names]
    )
    needed: dict[str, int] = {}
    fits = []
    for kind in chosen:
        # v2 and v3 pad alike, and so do all later ones.
        family = "v3" if kind.generation in ("v2", "v3") else "v6e"
        if family not in needed:
            needed[family] = sum(padded_bytes(row.shard_shape, row.dtype, family) for row in rows)
        usable = usable_hbm(kind.generation)
        if kind.devices < devices:
            why = f"too few devices for a mesh of {devices}"
        elif needed[family] > usable:
            why = f"{(needed[family] - usable) / 2**30:.2f} GiB per device missing"
        else:
            why = ""
        fits.append(
            TypeFit(
                type=kind.name,
                fits=not why,
                devices=kind.devices,
                hbm_bytes_per_device=usable,
                padded_bytes_per_device=needed[family],
                why=why,
            )
        )
    if names is None:
        fits.sort(key=lambda fit: (not fit.fits, abs(fit.devices - devices)))
    return fits


def _with_specs(
    arrays: Any, specs: Any
) -> Iterable[tuple[str, tuple[int, ...], str, list[str | list[str] | None], Memory]]:
    flat = list(flat_shapes(arrays))
    spread: list[Any]
    own = [getattr(leaf, "sharding", None) for _, leaf in flat_leaves(arrays)]
    if specs is None:
        spread = [getattr(sharding, "spec", ()) for sharding in own]
    elif _is_spec(specs):
        spread = [specs] * len(flat)
    else:
        spread = list(_spread(specs, arrays, "specs"))
    for (path, shape, dtype), spec, sharding in zip(flat, spread, own, strict=True):
        memory = memory_of(spec if hasattr(spec, "memory_kind") else sharding)
        yield path, shape, dtype, written_spec(getattr(spec, "spec", spec)), memory


def _spread(specs: Any, arrays: Any, where: str) -> Iterable[Any]:
    """One spec per array of *arrays*, from the tree prefix *specs*."""
    if _is_spec(specs) or specs is None:
        yield from [specs or ()] * sum(1 for _ in flat_shapes(arrays))
        return
    if is_leaf(arrays):
        yield specs
        return
    if isinstance(specs, Mapping) and isinstance(arrays, Mapping) and set(specs) == set(arrays):
        for name, branch in arrays.items():
            yield from _spread(specs[name], branch, f"{where}/{name}")
        return
    both = isinstance(specs, (list, tuple)) and isinstance(arrays, (list, tuple))
    if both and len(specs) == len(arrays):
        for position, (spec, branch) in enumerate(zip(specs, arrays, strict=True)):
            yield from _spread(spec, branch, f"{where}/{position}")
        return
    raise InvalidInput(
        f"{where} does not match the tree of the arrays.",
        "Use one spec for all, or dicts and lists with the same names and lengths.",
    )


def _is_spec(spec: Any) -> bool:
    jax = sys.modules.get("jax")  # a spec of jax can't exist before jax is imported
    made_by_jax = jax is not None and isinstance(spec, jax.sharding.PartitionSpec)
    return isinstance(spec, str) or made_by_jax or hasattr(spec, "spec")
