"""From a Python function and shapes to a program that another process can compile.

The function is traced and lowered here for a TPU, with an abstract mesh. The result is StableHLO
from ``jax.export``, so the function may use anything in the notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from msgspec import Struct

from ...errors import InvalidInput, Reason, TPUError
from ..arrays import ArrayRequest, operations
from ..shapes import KEYS, checked_shape, dtype_name, is_written
from ..sharding.axes import DoesNotDivide, axis_sizes
from ..sharding.placement import place_array, written_spec
from ..trees import path_name

#: More than any memory; the bytes still stay below 2**63.
_MOST_ELEMENTS = 1 << 58


class Exported(Struct, kw_only=True):
    """A program ready to be compiled."""

    blob: bytes
    mesh: dict[str, int]
    names: list[str]  # of the flat arguments
    donated: list[int]  # their positions


def export_program(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    devices: int,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] | None = None,
) -> Exported:
    """Traces *function* with shapes and lowers it for TPUs; see `compile_for` for the arguments.

    Raises `InvalidInput` if the function does not trace, the mesh does not divide the devices or
    the arguments, or the program can't be exported (callbacks into Python).
    """
    if not hasattr(jax.sharding, "use_abstract_mesh"):
        raise TPUError(
            f"Compiling for a TPU needs jax 0.8 or newer; jax {jax.__version__} is installed.",
            Reason.ENVIRONMENT,
            "On Python 3.11 or newer: pip install --upgrade 'jupyter-tpu[compile]'.",
        )
    axes = _axes(mesh, devices)
    where = mesh if isinstance(mesh, Mesh) else _abstract(axes)
    specs = tuple(shape_specs(argument) for argument in arguments)
    leaves, structure = jax.tree.flatten(specs)
    names = [
        f"argument {path_name(path)}" for path, _ in jax.tree_util.tree_leaves_with_path(specs)
    ]
    shardings = _shardings(specs, leaves, in_shardings, where, axes, names)
    with jax.sharding.use_abstract_mesh(_abstract(axes)):
        donated = _donated(function, specs, donate_argnums)
    flat = [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))
        for leaf in leaves
    ]

    def program(*values: Any) -> Any:
        arguments = jax.tree.unflatten(structure, values)
        result = function(*arguments)
        # What the function changed in its arguments, such as modules of Flax, is a result, too.
        old = {id(value) for value in values}
        changed = [leaf for leaf in jax.tree.leaves(arguments) if id(leaf) not in old]
        return result, changed

    def flat_program(*values: Any) -> Any:
        return jax.tree.leaves(program(*values))

    options: dict[str, Any] = {}
    with jax.sharding.use_abstract_mesh(_abstract(axes)), _traces(function, specs):
        if out_shardings is not None:
            result, changed = jax.eval_shape(program, *flat)
            options["out_shardings"] = [
                *_out_shardings(out_shardings, result, where),
                *[None] * len(changed),
            ]
        jitted = jax.jit(flat_program, in_shardings=tuple(shardings), **options)
        _check_operations(jitted.trace(*flat).jaxpr.jaxpr)
    with jax.sharding.use_abstract_mesh(_abstract(axes)):
        try:
            exported = jax.export.export(jitted, platforms=["tpu"])(*flat)
        except Exception as error:
            raise _failed(
                function,
                error,
                "can't be lowered for a TPU",
                "It can be traced: what fails is its lowering for TPUs.",
            ) from error
    try:
        blob = bytes(exported.serialize())
    except (NotImplementedError, KeyError, ValueError) as error:
        raise InvalidInput(
            f"jax can't export this program: {_first_line(error)}",
        ) from error
    return Exported(blob=blob, mesh=axes, names=names, donated=donated)


def _check_operations(jaxpr: Any) -> None:
    """Raises `InvalidInput` for callbacks, and for arrays that would crash the compiler."""
    for variable in jaxpr.invars:
        _check_size(variable)
    for step in operations(jaxpr):
        for variable in step.outvars:
            _check_size(variable)
        if "callback" in step.primitive.name or step.primitive.name == "debug_print":
            raise InvalidInput(
                "The program calls back into Python, which can't be compiled without the TPU.",
                "Remove jax.debug.print, pure_callback and io_callback.",
            )


def _check_size(variable: Any) -> None:
    shape = getattr(variable.aval, "shape", ())
    if prod(shape) >= _MOST_ELEMENTS:
        raise InvalidInput(
            f"The program has an array of {' × '.join(map(str, shape))} elements: more than any "
            "memory holds.",
        )


def _axes(mesh: Any, devices: int) -> dict[str, int]:
    if mesh is None:
        return {"device": 1}
    if isinstance(mesh, (Mesh, AbstractMesh)):
        mesh = dict(mesh.shape)
    if isinstance(mesh, Mapping) and -1 not in mesh.values():
        axes = axis_sizes(mesh, None)
        count = 1
        for size in axes.values():
            count *= size
        if count > devices:
            raise DoesNotDivide(f"The mesh has {count} devices, but the TPU has {devices}.")
        return axes
    return axis_sizes(mesh, devices)


def _abstract(axes: Mapping[str, int]) -> AbstractMesh:
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def shape_specs(tree: Any) -> Any:
    """*tree* with a ``ShapeDtypeStruct`` for every array, number and written shape."""
    # Not is_leaf: a Flax variable has a shape, too, and is a branch for jax.
    return jax.tree.map(_spec, tree, is_leaf=is_written)


def _spec(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        sharding = getattr(leaf, "sharding", None)
        if not isinstance(sharding, NamedSharding):
            sharding = None
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return jax.ShapeDtypeStruct(checked_shape(leaf.shape), dtype, sharding=sharding)
    if isinstance(leaf, (bool, int, float, complex)):
        value = jax.numpy.asarray(leaf)
        return jax.ShapeDtypeStruct((), value.dtype, weak_type=not isinstance(leaf, bool))
    if is_written(leaf):
        shape, kind = (leaf, "float32") if _all_numbers(leaf) else leaf
        return jax.ShapeDtypeStruct(checked_shape(shape), _jax_dtype(dtype_name(kind)))
    raise InvalidInput(
        f"An argument is of type {type(leaf).__name__}; pass arrays, shapes and numbers.",
        "Bind other arguments with functools.partial(fn, option=…).",
    )


def _all_numbers(leaf: Any) -> bool:
    return all(isinstance(size, int) for size in leaf)


def _jax_dtype(name: str) -> Any:
    if name in KEYS:
        return jax.random.key(0, impl=KEYS[name].implementation).dtype
    return getattr(jax.numpy, "bool_" if name == "bool" else name)


def _shardings(
    specs: Any,
    leaves: Sequence[Any],
    given: Any,
    where: Any,
    axes: dict[str, int],
    names: Sequence[str],
) -> list[NamedSharding]:
    if given is None:
        spread = [getattr(leaf.sharding, "spec", None) for leaf in leaves]
    else:
        spread = _spread(given, specs, "in_shardings")
    shardings = []
    for leaf, spec, name in zip(leaves, spread, names, strict=True):
        written = written_spec(getattr(spec, "spec", spec))
        random = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        kind: Any = "uint32" if random else leaf.dtype
        request = ArrayRequest(shape=list(leaf.shape), dtype=dtype_name(kind), spec=written)
        place_array(name, request, axes, "v5e")  # says which argument does not divide
        parts = (tuple(part) if isinstance(part, list) else part for part in written)
        shardings.append(NamedSharding(where, PartitionSpec(*parts)))
    return shardings


def _out_shardings(given: Any, result: Any, where: Any) -> list[NamedSharding | None]:
    shardings: list[NamedSharding | None] = []
    for spec in _spread(given, result, "out_shardings"):
        parts = (
            tuple(part) if isinstance(part, list) else part
            for part in written_spec(getattr(spec, "spec", spec))
        )
        shardings.append(None if spec is None else NamedSharding(where, PartitionSpec(*parts)))
    return shardings


def _spread(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One entry of *prefix* per leaf of *tree*."""
    spread: list[Any] = []

    def give(entry: Any, branch: Any) -> None:
        spread.extend([entry] * len(jax.tree.leaves(branch)))

    def is_entry(entry: Any) -> bool:
        return entry is None or isinstance(entry, (PartitionSpec, NamedSharding, str))

    if is_entry(prefix):
        give(prefix, tree)
        return spread
    if isinstance(prefix, list) and isinstance(tree, tuple):
        prefix = tuple(prefix)
    try:
        jax.tree.map(give, prefix, tree, is_leaf=is_entry)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"{what} does not match the tree that it is for: {_first_line(error)}",
            "Use one spec for all, or one per argument.",
        ) from error
    return spread


def _donated(function: Any, specs: tuple[Any, ...], given: int | Sequence[int] | None) -> list[int]:
    if given is None:
        numbers = _donated_by_jit(function, specs)
    else:
        numbers = {given} if isinstance(given, int) else set(given)
    wrong = [number for number in numbers if not 0 <= number < len(specs)]
    if wrong:
        raise InvalidInput(f"There is no argument {wrong[0]} to donate; there are {len(specs)}.")
    donated: list[int] = []
    position = 0
    for number, spec in enumerate(specs):
        count = len(jax.tree.leaves(spec))
        if number in numbers:
            donated.extend(range(position, position + count))
        position += count
    return donated


def _donated_by_jit(function: Any, specs: tuple[Any, ...]) -> set[int]:
    """The arguments that a jitted function donates."""
    if not hasattr(function, "trace"):
        return set()
    with _traces(function, specs):
        traced = function.trace(*specs)
    donated_leaves = set(traced.donate_argnums)
    # By whole arguments: nnx.jit has another number of leaves in another order.
    donated: set[int] = set()
    position = 0
    for number, argument in enumerate(traced.in_tree.children()[0].children()):
        leaves = range(position, position + argument.num_leaves)
        if not donated_leaves.isdisjoint(leaves):
            donated.add(number)
        position += argument.num_leaves
    return donated


@contextmanager
def _traces(function: Any, specs: tuple[Any, ...]) -> Iterator[None]:
    """Errors inside are of tracing *function*."""
    try:
        yield
    except TPUError:
        raise
    except Exception as error:
        hint = "jax.eval_shape fails with these arguments, too, and shows where."
        with suppress(Exception):
            jax.eval_shape(function, *specs)
            hint = ""
        raise _failed(function, error, "does not trace", hint) from error


def _failed(function: Any, error: Exception, how: str, hint: str) -> TPUError:
    name = getattr(function, "__name__", "The function")
    line = _users_line(error)
    return InvalidInput(f"{name} {how}: {type(error).__name__}{line}: {_first_line(error)}", hint)


def _users_line(error: Exception) -> str:
    place, frame = "", error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if "site-packages" not in file and "jaxkit" not in file and not file.startswith("<frozen"):
            place = f" in line {frame.tb_lineno} of {file}"
        frame = frame.tb_next
    return place


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:400]
