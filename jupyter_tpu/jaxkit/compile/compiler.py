"""Does it fit? Programs compiled for a TPU that is not there, by the TPU's own compiler.

libtpu carries the compiler and descriptions of all topologies. It runs in a process of its own
that is watched: time, memory, and the user's wish to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ...errors import InvalidInput, Reason, TPUError, error_for
from ..processes.watched import run_watched
from ..sharding.axes import DoesNotDivide
from ..topology import Topology, topology
from .child import CompileAnswer, CompileJob
from .models import CompileLimits, CompileOutcome, CompileReport, CompileRequest, CompileTrial
from .search import Search, by_price

_DEFAULT_LIMITS = CompileLimits()
#: Of the process that compiles.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",  # nothing is executed
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # its entries have no buffer assignment
    "PYTHONUNBUFFERED": "1",  # what the code prints is seen while it runs
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_LOG_DIR": "disabled",
    # libtpu looks for the TPU that this machine would be part of, and complains without an answer;
    # what is compiled for is another matter.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
_TELL = 0.2  # seconds between two looks at what was heard
_LINES = 200  # that are kept between two looks


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


class Watch(Protocol):
    """Told on the loop what the compiling of some code is doing."""

    def begin(self, type: str) -> None:
        """A type is tried now."""

    def say(self, words: str) -> None:
        """What is being done with it."""

    def log(self, line: str) -> None:
        """A line that the code or the compiler printed."""

    def end(self, trial: CompileTrial) -> None:
        """How it went with that type."""


async def compile_code(request: CompileRequest, watch: Watch | None = None) -> CompileOutcome:
    """POST jax/compile: runs the code and compiles its function, all in the watched process.

    A process for each type that is tried. Raises `TPUError` as `compile_for` does, and INVALID if
    no type can run the program at all; cancelling it ends the process.
    """
    search = Search(types_to_try(request))
    _need_libtpu()
    for name in search.names:
        where = topology(name)
        if watch is not None:
            watch.begin(name)
        job = CompileJob(topology=where, code=request, dump="")
        try:
            report = await _in_thread(where, job, b"", request.limits, watch)
        except DoesNotDivide as error:
            if request.type is not None:
                raise
            search.passed_over(name, error)
        else:
            search.ended(report)
        if watch is not None:
            watch.end(search.tried[-1])
        if search.found:
            break
    return search.outcome()


def types_to_try(request: CompileRequest) -> list[str]:
    """The types that a request is about, in their order; `TPUError` (INVALID) for unknown ones."""
    if request.type is not None and request.types is not None:
        raise InvalidInput("Give one type, or types to try: not both.")
    names = request.types if request.type is None else [request.type]
    return _known(by_price(request.max_devices) if names is None else names)


def _known(names: list[str]) -> list[str]:
    """*names*, each once: a misspelt one is an error, not a type that does not fit."""
    if not names:
        raise InvalidInput("There are no types to try.")
    for name in names:
        topology(name)
    return list(dict.fromkeys(names))


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
    *max_devices* devices, by list price (`catalog.PRICES_READ` says of when), not counting the time
    a program takes. *on_report* sees every attempt. *options*: as for `compile_for`; a mesh with a
    -1 (``{"data": -1}``) grows with the type. Types whose devices the mesh or the arguments don't
    divide are passed over.

    Raises `TPUError` (INVALID) if none fits, with what the last lacked.
    """
    search = Search(_known(by_price(max_devices) if types is None else list(types)))
    for name in search.names:
        try:
            report = compile_for(name, fn, *shapes, **options)
        except DoesNotDivide as error:
            search.passed_over(name, error)
            continue
        if on_report is not None:
            on_report(report)
        search.ended(report)
        if search.found:
            return report
    nearest = search.outcome().report
    needed = (nearest.needed_bytes or 0) / 2**30
    raise InvalidInput(
        f"The program fits none of {len(search.names)} types; nearest is {nearest.type}, where it "
        f"needs {needed:.2f} GiB of {nearest.hbm_bytes / 2**30:.2f} on each device.",
        "Split more of its arrays over the mesh, or recompute instead of keeping (jax.checkpoint).",
    )


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
    from .export import export_program

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
    where: Topology,
    job: CompileJob,
    blob: bytes,
    limits: CompileLimits,
    watch: Watch | None = None,
) -> CompileReport:
    stop = threading.Event()
    heard = _Heard()
    work = asyncio.create_task(asyncio.to_thread(_run, where, job, blob, limits, stop, heard))
    try:
        while not work.done():
            # Looked at, not told of: code that prints without end must not fill the loop.
            await asyncio.wait([work], timeout=_TELL)
            if watch is not None:
                heard.tell(watch)
        return work.result()
    except asyncio.CancelledError:
        stop.set()
        work.add_done_callback(lambda task: task.exception())  # that it was stopped: no news
        await asyncio.wait([work], timeout=10)
        raise


class _Heard:
    """What the threads of a process heard, kept short until somebody asks."""

    def __init__(self) -> None:
        self.words = ""
        self.lines: deque[str] = deque(maxlen=_LINES)
        self._told = ""

    def hear_words(self, words: str) -> None:
        self.words = words

    def tell(self, watch: Watch) -> None:
        words = self.words
        if words != self._told:
            self._told = words
            watch.say(words)
        for _ in range(len(self.lines)):
            with contextlib.suppress(IndexError):  # pushed out by newer ones
                watch.log(self.lines.popleft())


def _run(
    where: Topology,
    job: CompileJob,
    blob: bytes,
    limits: CompileLimits,
    stop: threading.Event | None,
    heard: _Heard | None = None,
) -> CompileReport:
    def request(folder: Path) -> tuple[bytes, bytes]:
        job.dump = str(folder / "dump")
        return msgspec.json.encode(job), blob

    head = run_watched(
        "jupyter_tpu.jaxkit.compile.child",
        request,
        what=f"Compiling for {where.type}",
        seconds=limits.seconds,
        memory_bytes=limits.memory_bytes,
        stop=stop,
        on_news=heard.hear_words if heard else None,
        on_line=heard.lines.append if heard else None,
        environment=lambda folder: {
            **ENVIRONMENT,
            "XLA_FLAGS": f"--xla_dump_to={folder / 'dump'}",
        },
    )
    answer = msgspec.json.decode(head, type=CompileAnswer)
    if answer.does_not_divide:
        raise DoesNotDivide(answer.message, answer.hint)
    if answer.report is None:
        raise error_for(answer.message, answer.reason, answer.hint)
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
