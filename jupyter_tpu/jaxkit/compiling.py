"""Does it fit? Programs compiled for a TPU that is not there, by the TPU's own compiler.

libtpu carries the compiler and descriptions of all topologies. It runs in a process of its own
that is watched: time, memory, and the user's wish to stop.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ..catalog import types
from ..errors import Reason, TPUError
from .compile_child import CompileAnswer, CompileJob
from .meshes import DoesNotDivide
from .models import CompileLimits, CompileReport, CompileRequest
from .running import run_watched
from .topology import Topology, price, topology

_DEFAULT_LIMITS = CompileLimits()


def compile_for(
    type: str,
    fn: Callable[..., Any],
    *shapes: Any,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] | None = None,
    limits: CompileLimits = _DEFAULT_LIMITS,
) -> CompileReport:
    """Compiles *fn* for a TPU of *type* and says whether it fits, and what it is made of.

    *type*: a type of the catalog ("v5litepod-8"), or "tpu7x-2x2x1". *fn*: what would be given to
    ``jit`` (jitted or not). *shapes*: its arguments: arrays (only their shapes are used),
    ``ShapeDtypeStruct``, ``(1024, 512)`` or ``((1024, 512), "bfloat16")``, and trees of them.
    *mesh*: axis -> size, one may be -1; or a jax mesh; None: one device. *in_shardings*,
    *out_shardings*: partition specs, one for all or a tree, as ``jit`` takes them. *donate_argnums*
    as for ``jit``; taken from *fn* if that is jitted.

    Returns a report also if the program does not fit. Raises `TPUError`: INVALID for what is wrong
    with the program or beyond its memory limit, TIMEOUT beyond its time limit, ENVIRONMENT where
    libtpu is missing. Interrupting it ends the compiler.
    """
    where, job, blob = _prepared(
        type, fn, shapes, mesh, in_shardings, out_shardings, donate_argnums
    )
    return _run(where, job, blob, limits, None)


async def compile_for_async(
    type: str, fn: Callable[..., Any], *shapes: Any, **options: Any
) -> CompileReport:
    """`compile_for` for coroutines; cancelling it ends the compiler."""
    limits = options.pop("limits", _DEFAULT_LIMITS)
    # Tracing runs the user's Python: in this thread, where their interrupts arrive.
    where, job, blob = _prepared(
        type,
        fn,
        shapes,
        options.pop("mesh", None),
        options.pop("in_shardings", None),
        options.pop("out_shardings", None),
        options.pop("donate_argnums", None),
    )
    if options:
        raise TypeError(f"compile_for has no option {sorted(options)[0]!r}")
    return await _in_thread(where, job, blob, limits)


async def compile_code(request: CompileRequest) -> CompileReport:
    """POST jax/compile: runs the code and compiles its function, all in the watched process."""
    where = topology(request.type)
    _need_libtpu()
    job = CompileJob(topology=where, code=request, dump="")
    return await _in_thread(where, job, b"", request.limits)


def cheapest_type(
    fn: Callable[..., Any],
    *shapes: Any,
    types: Iterable[str] | None = None,
    max_devices: int = 64,
    on_report: Callable[[CompileReport], None] | None = None,
    **options: Any,
) -> CompileReport:
    """The report on the first type that *fn* fits, tried from the cheapest on.

    *types*: those of your grant, say, in your own order; by default the catalog's with up to
    *max_devices* devices, by list price (`topology.PRICES_READ`), not counting the time a program
    takes. *on_report* sees every attempt. *options*: as for `compile_for`; a mesh with a -1
    (``{"data": -1}``) grows with the type. Types whose devices the mesh or the arguments don't
    divide are passed over.

    Raises `TPUError` (INVALID) if none fits, with what the last lacked.
    """
    names = _by_price(max_devices) if types is None else list(types)
    if not names:
        raise TPUError("There are no types to try.", Reason.INVALID)
    refused: list[str] = []
    too_small: list[CompileReport] = []
    for name in names:
        topology(name)  # a misspelt name is an error, not a type that does not fit
    for name in names:
        try:
            report = compile_for(name, fn, *shapes, **options)
        except DoesNotDivide as error:
            refused.append(f"{name}: {error.message}")
            continue
        if on_report is not None:
            on_report(report)
        if report.fits:
            return report
        too_small.append(report)
    if not too_small:
        raise TPUError(f"No type can run this program. {refused[-1]}", Reason.INVALID)
    nearest = min(too_small, key=lambda report: (report.needed_bytes or 0) - report.hbm_bytes)
    needed = (nearest.needed_bytes or 0) / 2**30
    raise TPUError(
        f"The program fits none of {len(names)} types; nearest is {nearest.type}, where it needs "
        f"{needed:.2f} GiB of {nearest.hbm_bytes / 2**30:.2f} on each device.",
        Reason.INVALID,
        "Split more of its arrays over the mesh, or recompute instead of keeping (jax.checkpoint).",
    )


def _by_price(max_devices: int) -> list[str]:
    kinds = [kind for kind in types() if kind.devices <= max_devices]
    return [kind.name for kind in sorted(kinds, key=lambda kind: (price(kind), kind.hosts))]


def _prepared(
    type: str,
    fn: Callable[..., Any],
    shapes: Sequence[Any],
    mesh: Any,
    in_shardings: Any,
    out_shardings: Any,
    donate_argnums: Any,
) -> tuple[Topology, CompileJob, bytes]:
    where = topology(type)
    _need_libtpu()
    from .exporting import export_program

    exported = export_program(
        fn,
        shapes,
        devices=where.devices,
        mesh=mesh,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        donate_argnums=donate_argnums,
    )
    job = CompileJob(
        topology=where,
        mesh=exported.mesh,
        names=exported.names,
        donated=exported.donated,
        dump="",
    )
    return where, job, exported.blob


def _need_libtpu() -> None:
    if find_spec("libtpu") is not None and find_spec("flatbuffers") is not None:
        return
    if not sys.platform.startswith("linux"):
        hint = "It exists for Linux on x86-64 only: run this on such a machine, or on a TPU VM."
    else:
        hint = "Install it: pip install 'jupyter-tpu[compile]' (about 200 MB)."
    raise TPUError(
        "Compiling for a TPU needs libtpu, which is not installed here.", Reason.ENVIRONMENT, hint
    )


async def _in_thread(
    where: Topology, job: CompileJob, blob: bytes, limits: CompileLimits
) -> CompileReport:
    stop = threading.Event()
    work = asyncio.create_task(asyncio.to_thread(_run, where, job, blob, limits, stop))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work], timeout=10)
        raise


def _run(
    where: Topology,
    job: CompileJob,
    blob: bytes,
    limits: CompileLimits,
    stop: threading.Event | None,
) -> CompileReport:
    def request(folder: Path) -> tuple[bytes, bytes]:
        job.dump = str(folder / "dump")
        return msgspec.json.encode(job), blob

    head = run_watched(
        "jupyter_tpu.jaxkit.compile_child",
        request,
        what=f"Compiling for {where.type}",
        seconds=limits.seconds,
        memory_bytes=limits.memory_bytes,
        stop=stop,
        environment=lambda folder: {
            "JAX_PLATFORMS": "cpu",  # nothing is executed
            "JAX_ENABLE_COMPILATION_CACHE": "false",  # its entries have no buffer assignment
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_LOG_DIR": "disabled",
            "XLA_FLAGS": f"--xla_dump_to={folder / 'dump'}",
        },
    )
    answer = msgspec.json.decode(head, type=CompileAnswer)
    if answer.report is None:
        raise TPUError(answer.message, answer.reason, answer.hint)
    for buffer in answer.report.buffers:
        buffer.source = _cell(buffer.source)
    return answer.report


def _cell(source: str) -> str:
    """ "/tmp/ipykernel_1/2.py:3" -> "In[4]:3", where this is the notebook that has that cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    file, _, line = source.rpartition(":")
    if shell is None or not file:
        return source
    name = shell.compile.format_code_name(file)
    return f"{name[1]}:{line}" if name and name[0] == "Cell" else source
