"""From a Python function and shapes to a program that another process can compile.

The function is traced and lowered here for a TPU: on an abstract mesh of TPUs, or on the caller's
own mesh, whatever its devices are. The result is StableHLO from ``jax.export``, so the function may
use anything in the notebook. What ``jax.jit`` was told (shardings, donated and static arguments,
compiler options) is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from inspect import signature, unwrap
from math import prod
from typing import Any

import jax
from jax.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
)
from msgspec import Struct

from ...errors import InvalidInput, Reason, TPUError
from ..arrays import ArrayRequest, operations
from ..shapes import KEYS, checked_shape, dtype_name, is_written
from ..sharding.axes import DoesNotDivide, axis_sizes
from ..sharding.placement import memory_of, place_array, written_spec
from ..topology import Topology
from ..trees import path_name

#: More than any memory; the bytes still stay below 2**63.
_MOST_ELEMENTS = 1 << 58
_JITTED = type(jax.jit(len))  # what jax.jit returns; nnx.jit and eqx.filter_jit return others


class Exported(Struct, kw_only=True):
    """A program ready to be compiled."""

    blob: bytes
    mesh: dict[str, int]
    axis_types: list[str]  # "Auto", "Explicit" or "Manual", one for each axis of the mesh
    names: list[str]  # of the flat arguments
    donated: list[int]  # their positions
    compiler_options: dict[str, Any]  # of jax.jit
    notes: list[str]


class Constant:
    """What is no array in an argument: the function gets it as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _JitOptions(Struct, kw_only=True):
    """What a jitted function was told, by flat arguments and results."""

    in_shardings: Sequence[Any] = ()
    out_shardings: Sequence[Any] = ()
    donated: set[int] = set()
    compiler_options: dict[str, Any] = {}
    has_layouts: bool = False


def export_program(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    topology: Topology,
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
            f"Compiling for a TPU needs jax 0.9 or newer; jax {jax.__version__} is installed.",
            Reason.ENVIRONMENT,
            "On Python 3.11 or newer: pip install --upgrade 'jupyter-tpu[compile]'.",
        )
    _check_wrapper(function)
    specs = _specs(function, arguments)
    flat, structure = jax.tree.flatten(specs)
    leaves = [leaf for leaf in flat if not isinstance(leaf, Constant)]
    names = [
        f"argument {path_name(path)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(specs)
        if not isinstance(leaf, Constant)
    ]
    if mesh is None:
        mesh = _mesh_of([leaf.sharding for leaf in leaves]) or _mesh_in_use()
    if mesh is None:
        told = _jit_options(function, structure, flat, leaves, nullcontext())
        mesh = _mesh_of([*told.in_shardings, *told.out_shardings])
    asked: set[str] = set()
    axes = _axes(mesh, topology.devices)
    where = _mesh(mesh, axes, topology)
    shardings = _shardings(specs, leaves, in_shardings, where, axes, names)
    with _noticing(asked):
        told = _jit_options(function, structure, flat, _sharded(leaves, shardings), _on(where))
    donated = _donated(function, specs, donate_argnums, told)
    own = told.in_shardings or [None] * len(leaves)
    inputs = _sharded(
        leaves,
        [
            given or _moved(sharding, where) or NamedSharding(where, PartitionSpec())
            for given, sharding in zip(shardings, own, strict=True)
        ],
    )

    # Options of the compiler are for the outermost jit only, which is ours.
    inner = unwrap(function) if told.compiler_options else function

    def program(*values: Any) -> Any:
        arguments = _filled(structure, flat, values)
        result = jax.tree.map(lambda leaf: leaf if _is_array(leaf) else None, inner(*arguments))
        # What the function changed in its arguments, such as modules of Flax, is a result, too.
        old = {id(value) for value in values}
        after = (leaf for leaf in jax.tree.leaves(arguments) if isinstance(leaf, jax.Array))
        return result, [leaf for leaf in after if id(leaf) not in old]

    def flat_program(*values: Any) -> Any:
        return jax.tree.leaves(program(*values))

    options: dict[str, Any] = {}
    with _on(where), _noticing(asked), _traces(function, _filled(structure, flat, inputs)):
        if out_shardings is not None or told.out_shardings:
            result, changed = jax.eval_shape(program, *inputs)
            placed = (
                [_moved(sharding, where) for sharding in told.out_shardings]
                if out_shardings is None
                else _out_shardings(out_shardings, result, where)
            )
            options["out_shardings"] = [*placed, *[None] * len(changed)]
        jitted = jax.jit(flat_program, **options)
        _check_operations(jitted.trace(*inputs).jaxpr.jaxpr)
    with _on(where):
        try:
            exported = jax.export.export(jitted, platforms=["tpu"])(*inputs)
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
    notes = []
    if told.has_layouts:
        notes.append("The layouts (Format) that jax.jit was told are left out.")
    notes += [
        f"The function calls {name}(), which says what this machine has: on the TPU it may be "
        "another program."
        for name in sorted(asked)
    ]
    return Exported(
        blob=blob,
        mesh=axes,
        axis_types=[kind.name for kind in where.axis_types],
        names=names,
        donated=donated,
        compiler_options=told.compiler_options,
        notes=notes,
    )


@contextmanager
def _noticing(asked: set[str]) -> Iterator[None]:
    """Adds to *asked* what the function asks about this machine's devices while it is traced."""
    own = {name: getattr(jax, name) for name in ("default_backend", "devices", "local_devices")}

    def watched(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if not caller.startswith(("jax.", "jaxlib.")):
                asked.add(f"jax.{name}")
            return own[name](*arguments, **options)

        return call

    try:
        for name in own:
            setattr(jax, name, watched(name))
        yield
    finally:
        for name, function in own.items():
            setattr(jax, name, function)


def _check_wrapper(function: Any) -> None:
    """Raises `InvalidInput` for what nnx.jit was told and can't be read from it."""
    for name in ("in_shardings", "out_shardings", "static_argnums"):
        if not isinstance(function, _JITTED) and getattr(function, name, None) is not None:
            raise InvalidInput(
                f"compile_for can't take the {name} of {type(function).__name__}.",
                "Pass in_shardings and out_shardings to compile_for, and bind static arguments "
                "with functools.partial.",
            )


def _specs(function: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments as trees of ``ShapeDtypeStruct`` and `Constant`."""
    static = set()
    if isinstance(function, _JITTED):
        static = {number % len(arguments) for number in _state(function)["static_argnums"]}
    filtered = type(function).__module__.startswith("equinox.")
    return tuple(
        Constant(argument) if number in static else shape_specs(argument, filtered=filtered)
        for number, argument in enumerate(arguments)
    )


def _state(function: Any) -> dict[str, Any]:
    state: dict[str, Any] = function.__getstate__()  # as pickle asks for it
    return state


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") or isinstance(leaf, (bool, int, float, complex))


def _mesh_of(shardings: Sequence[Any]) -> Any:
    return next((s.mesh for s in shardings if isinstance(s, NamedSharding)), None)


def _mesh_in_use() -> Mesh | AbstractMesh | None:
    """That of jax.set_mesh."""
    for mesh in (jax.sharding.get_mesh(), jax.sharding.get_abstract_mesh()):
        if not mesh.empty:
            return mesh
    return None


def _mesh(mesh: Any, axes: Mapping[str, int], topology: Topology) -> Mesh | AbstractMesh:
    """The mesh to trace on: the caller's own, or one of TPUs, of which kernels can ask the kind."""
    if isinstance(mesh, (Mesh, AbstractMesh)):
        return mesh
    tpu: dict[str, Any] = {"device_kind": topology.device_kind, "num_cores": topology.cores}
    if "platform" in signature(AbstractDevice).parameters:  # since jax 0.10
        tpu["platform"] = "tpu"
    return AbstractMesh(
        tuple(axes.values()),
        tuple(axes),
        axis_types=(AxisType.Auto,) * len(axes),
        abstract_device=AbstractDevice(**tpu),
    )


def _on(mesh: Mesh | AbstractMesh) -> AbstractContextManager[Any]:
    """Makes *mesh* the one that partition specs are for."""
    if isinstance(mesh, Mesh):
        return jax.set_mesh(mesh)
    return jax.sharding.use_abstract_mesh(mesh)


def _moved(sharding: Any, where: Mesh | AbstractMesh) -> NamedSharding | None:
    """The same on the mesh *where*; None for what names no axes."""
    if not isinstance(sharding, NamedSharding):
        return None
    return NamedSharding(where, sharding.spec, memory_kind=sharding.memory_kind)


def _filled(structure: Any, flat: Sequence[Any], values: Sequence[Any]) -> Any:
    """The arguments, with *values* for the arrays of *flat* and constants as they are."""
    given = iter(values)
    leaves = [leaf.value if isinstance(leaf, Constant) else next(given) for leaf in flat]
    return jax.tree.unflatten(structure, leaves)


def _sharded(leaves: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    return [
        jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharding, weak_type=getattr(leaf, "weak_type", False)
        )
        for leaf, sharding in zip(leaves, shardings, strict=True)
    ]


def _jit_options(
    function: Any,
    structure: Any,
    flat: Sequence[Any],
    leaves: Sequence[Any],
    context: AbstractContextManager[Any],
) -> _JitOptions:
    """What the function was told by jax.jit; nothing, if that is not what made it."""
    if not isinstance(function, _JITTED):
        return _JitOptions()
    arguments = _filled(structure, flat, leaves)
    with context, _traces(function, arguments):
        traced = function.trace(*arguments)
    told = traced._params
    specified = [s if isinstance(s, Sharding) else None for s in told["out_shardings"]]
    return _JitOptions(
        in_shardings=[s if isinstance(s, Sharding) else None for s in told["in_shardings"]],
        out_shardings=specified if any(specified) else (),
        donated=set(traced.donate_argnums),
        compiler_options=dict(told["compiler_options_kvs"]),
        has_layouts=any(
            layout is not None for layout in (*told["in_layouts"], *told["out_layouts"])
        ),
    )


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
        count = prod(axes.values())
        if count > devices:
            raise DoesNotDivide(f"The mesh has {count} devices, but the TPU has {devices}.")
        return axes
    return axis_sizes(mesh, devices)


def shape_specs(tree: Any, *, filtered: bool = False) -> Any:
    """*tree* with a ``ShapeDtypeStruct`` for every array, number and written shape.

    What is no array inside of a module, such as its activation function, is a `Constant`; with
    *filtered*, as eqx.filter_jit has it, all that is no array.
    """

    def spec(path: Any, leaf: Any) -> Any:
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            return _array_spec(leaf)
        number = isinstance(leaf, (bool, int, float, complex))
        if is_written(leaf):
            shape, kind = (leaf, "float32") if _all_numbers(leaf) else leaf
            return jax.ShapeDtypeStruct(checked_shape(shape), _jax_dtype(dtype_name(kind)))
        if filtered or (path and callable(leaf)):
            return Constant(leaf)
        if number:
            value = jax.numpy.asarray(leaf)
            return jax.ShapeDtypeStruct((), value.dtype, weak_type=not isinstance(leaf, bool))
        raise InvalidInput(
            f"An argument is of type {type(leaf).__name__}; pass arrays, shapes and numbers.",
            "Name it in static_argnums of jax.jit, or bind it with functools.partial(fn, …).",
        )

    # Not is_leaf: a Flax variable has a shape, too, and is a branch for jax.
    return jax.tree_util.tree_map_with_path(spec, tree, is_leaf=is_written)


def _array_spec(leaf: Any) -> Any:
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding) and memory_of(sharding) == "device":
        sharding = None  # of one device of this machine
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
    return jax.ShapeDtypeStruct(checked_shape(leaf.shape), dtype, sharding=sharding)


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
    where: Mesh | AbstractMesh,
    axes: dict[str, int],
    names: Sequence[str],
) -> list[NamedSharding | None]:
    """The arrays' shardings, as the caller says, or else as they are; None where neither says."""
    if given is None:
        spread = [leaf.sharding for leaf in leaves]
    else:
        spread = _spread(given, specs, "in_shardings")
    shardings = []
    for leaf, spec, name in zip(leaves, spread, names, strict=True):
        sharding = None if spec is None else _named(spec, where, leaf.sharding)
        written = written_spec(sharding.spec if sharding else None)
        random = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        kind: Any = "uint32" if random else leaf.dtype
        request = ArrayRequest(shape=list(leaf.shape), dtype=dtype_name(kind), spec=written)
        place_array(name, request, axes, "v5e")  # says which argument does not divide
        shardings.append(sharding)
    return shardings


def _named(spec: Any, where: Mesh | AbstractMesh, own: Any) -> NamedSharding:
    """A partition spec, a name or a sharding, on the mesh *where*; *own*: that of the array."""
    is_spec = isinstance(spec, (PartitionSpec, str))
    written = written_spec(spec if is_spec else getattr(spec, "spec", ()))
    parts = (tuple(part) if isinstance(part, list) else part for part in written)
    memory = memory_of(own if is_spec else spec)
    kind = None if memory == "device" else memory
    return NamedSharding(where, PartitionSpec(*parts), memory_kind=kind)


def _out_shardings(given: Any, result: Any, where: Any) -> list[NamedSharding | None]:
    return [
        None if spec is None else _named(spec, where, None)
        for spec in _spread(given, result, "out_shardings")
    ]


def _spread(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One entry of *prefix* per leaf of *tree*."""
    spread: list[Any] = []

    def give(entry: Any, branch: Any) -> None:
        arrays = [leaf for leaf in jax.tree.leaves(branch) if not isinstance(leaf, Constant)]
        spread.extend([entry] * len(arrays))

    def is_entry(entry: Any) -> bool:
        return entry is None or isinstance(entry, (PartitionSpec, Sharding, str))

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


def _donated(
    function: Any, specs: tuple[Any, ...], given: int | Sequence[int] | None, told: _JitOptions
) -> list[int]:
    """The positions of the donated arrays, by whole arguments where jax.jit does not say more."""
    if given is None and isinstance(function, _JITTED):
        return sorted(told.donated)
    if given is None:
        numbers = _donated_by_wrapper(function, specs)
    else:
        numbers = {given} if isinstance(given, int) else set(given)
    wrong = [number for number in numbers if not 0 <= number < len(specs)]
    if wrong:
        raise InvalidInput(f"There is no argument {wrong[0]} to donate; there are {len(specs)}.")
    donated: list[int] = []
    position = 0
    for number, spec in enumerate(specs):
        leaves = [leaf for leaf in jax.tree.leaves(spec) if not isinstance(leaf, Constant)]
        if number in numbers:
            donated.extend(range(position, position + len(leaves)))
        position += len(leaves)
    return donated


def _donated_by_wrapper(function: Any, specs: tuple[Any, ...]) -> set[int]:
    """The arguments that a function of nnx.jit or eqx.filter_jit donates."""
    if hasattr(function, "donate_first"):  # eqx.filter_jit
        rest = range(1, len(specs)) if function.donate_rest else ()
        return {*([0] if function.donate_first else []), *rest}
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
def _traces(function: Any, arguments: Sequence[Any]) -> Iterator[None]:
    """Errors inside are of tracing *function*."""
    try:
        yield
    except TPUError:
        raise
    except Exception as error:
        hint = "jax.eval_shape fails with these arguments, too, and shows where."
        with suppress(Exception):
            jax.eval_shape(function, *arguments)
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
