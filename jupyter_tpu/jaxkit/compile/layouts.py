"""Layouts to compare: meshes of the axes data, fsdp and tensor, and how each one splits arrays.

Rules of thumb, which know only shapes. `data` divides the batch. `fsdp` divides the batch, too, and
each other array over its largest dimension. `tensor` divides each other array over its last
dimension. The compiler adds the communication that this needs. If you know
the model, your own shardings can be better. Nothing here needs jax.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from ...errors import InvalidInput
from ..arrays import ArrayRequest, MeshAxes, Spec

AXES = ("data", "fsdp", "tensor")
#: Devices of the axis tensor beside another axis: more of them seldom pay.
_TENSOR = (2, 4, 8)


def checked_axes(axes: Iterable[str]) -> tuple[str, ...]:
    """Each axis once, in the order of `AXES`. Raises `InvalidInput` for others, and for none."""
    chosen = {axes} if isinstance(axes, str) else set(axes)
    unknown = sorted(chosen - set(AXES))
    if unknown or not chosen:
        wrong = f"Unknown axis {unknown[0]!r}." if unknown else "There are no axes to plan with."
        raise InvalidInput(wrong, f"Use some of {', '.join(AXES)}.")
    return tuple(axis for axis in AXES if axis in chosen)


def layouts(axes: Sequence[str], devices: int) -> list[MeshAxes]:
    """The meshes to compare: all devices on one axis, and `tensor` beside each other axis.

    Each mesh has all *axes*, so that the program may name them; those not used have size 1.
    """
    whole = [{name: devices if name == axis else 1 for name in axes} for axis in axes]
    mixed = [
        {name: {axis: devices // size, "tensor": size}.get(name, 1) for name in axes}
        for axis in axes
        if axis != "tensor" and "tensor" in axes
        for size in _TENSOR
        if size < devices and devices % size == 0
    ]
    return [*whole, *mixed] if devices > 1 else whole[:1]


def batch_spec(shape: Sequence[int], mesh: MeshAxes) -> Spec:
    """How a batch is split: its first dimension, over data and fsdp."""
    names: list[str] = [axis for axis in ("data", "fsdp") if mesh.get(axis, 1) > 1]
    return [names if len(names) > 1 else names[0]] if shape and names else []


def weight_spec(shape: Sequence[int], mesh: MeshAxes) -> Spec:
    """How another array is split: by tensor over its last dimension, by fsdp over the largest of
    the others. Where that does not divide, and arrays of one dimension: not at all.
    """
    spec: Spec = [None] * len(shape)
    if len(shape) < 2:
        return []
    tensor, fsdp = mesh.get("tensor", 1), mesh.get("fsdp", 1)
    if tensor > 1 and shape[-1] % tensor == 0:
        spec[-1] = "tensor"
    free = [n for n, axis in enumerate(spec) if axis is None and shape[n] and shape[n] % fsdp == 0]
    if fsdp > 1 and free:
        spec[max(free, key=lambda n: shape[n])] = "fsdp"
    return spec


def split_arguments(arguments: Sequence[ArrayRequest], mesh: MeshAxes) -> list[ArrayRequest]:
    """The arguments of a request, split by the rules; the last one is the batch.

    Raises `InvalidInput` for arguments that are split already.
    """
    last = len(arguments) - 1
    return [_split(argument, mesh, number == last) for number, argument in enumerate(arguments)]


def _split(argument: ArrayRequest, mesh: MeshAxes, batch: bool) -> ArrayRequest:
    if argument.spec:
        raise InvalidInput("Set axes, or a mesh and the arguments' specs, not both.")
    if argument.tree is not None:
        tree = {name: _split(branch, mesh, batch) for name, branch in argument.tree.items()}
        return ArrayRequest(tree=tree)
    shape = argument.shape or []
    spec = batch_spec(shape, mesh) if batch else weight_spec(shape, mesh)
    return structs.replace(argument, spec=spec)
