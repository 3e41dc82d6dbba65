"""Does it fit? Programs compiled by the TPU's own compiler, without a TPU.

libtpu contains the compiler and the descriptions of all topologies. It runs in a separate process
with limits of time and memory, which the user can interrupt.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ...errors import InvalidInput, Reason, TPUError, error_for
from ...wording import count
from ..processes.idle import IdleProcess
from ..processes.watched import ProcessDied, WatchedProcess
from ..sharding.axes import DoesNotDivide
from ..topology import Topology, topology
from .child import CompileAnswer, CompileJob
from .models import CompileLimits, CompileOutcome, CompileReport, CompileRequest, CompileTrial
from .report_cache import kept_report
from .search import Search, by_price

_DEFAULT_LIMITS = CompileLimits()
#: libtpu looks for the TPU of this machine and warns if it finds none. These values only keep it
#: quiet: the type compiled for comes with the request.
_QUIET = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
#: The environment of the process that compiles.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",  # nothing is executed
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # its entries have no buffer assignment
    "PYTHONUNBUFFERED": "1",  # what the code prints is seen while it runs
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_LOG_DIR": "disabled",
    **_QUIET,
}
_REPORT_SECONDS = 0.2  # between two reports of progress
_KEPT_LINES = 200  # kept between two reports
#: The process that compiled last. It has loaded jax and libtpu, which takes longer than to compile
#: a small program.
IDLE = IdleProcess()


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
    """Compiles *fn* for a TPU of *type*: does it fit, and what is its memory made of?

    *type*: a type of the catalog ("v5litepod-8"), or "tpu7x-2x2x1". *fn*: a function as for
    ``jit`` (jitted or not, also by Flax and Equinox); what ``jax.jit`` was told is kept: shardings,
    donated and static arguments, compiler options. *shapes*: its arguments: arrays (only their
    shapes, shardings and memory are used), ``ShapeDtypeStruct``, ``(1024, 512)`` or ``((1024, 512),
    "bfloat16")``, and trees of them. *mesh*: axis -> size, one may be -1 (automatic axes); or a jax
    mesh, with the types of its axes; None: that of the arguments, of jax.set_mesh or of jit, or
    else one device. *in_shardings*, *out_shardings*: partition specs or shardings, one for all or a
    tree; arrays without one are whole on each device. *donate_argnums* as for ``jit``; by default
    those of *fn* if it is jitted. What *fn* changes in its arguments, such as modules and
    optimizers of Flax, counts as an output.

    The report of a program that was compiled before comes from a folder on this machine, also in
    another process.

    A program that does not fit gives a report, too. Raises `InvalidInput` for errors in the program
    and beyond the memory limit; `TPUError` with TIMEOUT beyond the time limit, with ENVIRONMENT
    where libtpu is missing. Interrupting it stops the compiler.
    """
    where, job, blob = _prepared(
        type, fn, shapes, mesh, in_shardings, out_shardings, donate_argnums
    )
    if report := kept_report(job.key(blob)):
        return _with_cells(report)
    return _run(where, job, blob, limits, None)


@contextlib.contextmanager
def quiet_libtpu() -> Iterator[None]:
    """Keeps libtpu from warning that this machine has no TPU.

    jax loads libtpu when it is first used. Its warnings read as if the compiling had failed. On a
    machine with TPU chips this does nothing.
    """
    chips = any(Path("/dev").glob("accel[0-9]*")) or any(Path("/dev/vfio").glob("[0-9]*"))
    added = {} if chips else {k: v for k, v in _QUIET.items() if k not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


class StepWatch(Protocol):
    """Receives the steps of compilers, on their event loop."""

    def begin(self, type: str) -> None:
        """A type is now tried."""

    def say(self, step: str) -> None:
        """The current step."""

    def log(self, line: str) -> None:
        """A line that the code or the compiler printed."""


class Watch(StepWatch, Protocol):
    """Receives the progress of `compile_code`."""

    def end(self, trial: CompileTrial) -> None:
        """The result for that type."""


async def compile_code(request: CompileRequest, watch: Watch | None = None) -> CompileOutcome:
    """POST jax/compile: runs the code and compiles its function, in a process for each type tried.

    Raises as `compile_for` does, and `InvalidInput` if no type can run the program at all.
    Cancelling it stops the process.
    """
    search = Search(types_to_try(request))
    need_libtpu()
    for name in search.names:
        if watch is not None:
            watch.begin(name)
        try:
            report = await compile_trial(name, request, request.limits, watch)
        except DoesNotDivide as error:
            if request.type is not None:
                raise
            search.skipped(name, error)
        else:
            search.compiled(report)
        if watch is not None:
            watch.end(search.tried[-1])
        if search.found:
            break
    return search.outcome()


async def compile_trial(
    type: str, code: CompileRequest, limits: CompileLimits, watch: StepWatch | None = None
) -> CompileReport:
    """The report on *code* for one type. Raises and is cancelled as `compile_code`."""
    where = topology(type)
    job = CompileJob(topology=where, code=code, dump="")
    return await _in_thread(where, job, b"", limits, watch)


def types_to_try(request: CompileRequest) -> list[str]:
    """The types that a request asks for, in their order; raises `InvalidInput` for unknown ones."""
    if request.type is not None and request.types is not None:
        raise InvalidInput("Set type or types, not both.")
    names = request.types if request.type is None else [request.type]
    return _known(by_price(request.max_devices) if names is None else names)


def _known(names: list[str]) -> list[str]:
    """The types called *names*, each once; raises `InvalidInput` for an unknown one."""
    if not names:
        raise InvalidInput("There are no types to try.")
    return list(dict.fromkeys(topology(name).type for name in names))


def cheapest_type(
    fn: Callable[..., Any],
    *shapes: Any,
    types: Iterable[str] | None = None,
    max_devices: int = 64,
    on_report: Callable[[CompileReport], None] | None = None,
    **options: Any,
) -> CompileReport:
    """The report for the first type that *fn* fits, from the cheapest on.

    *types*: types in your own order, such as those of your grant; by default the catalog's with up
    to *max_devices* devices, by list price per hour (as of `catalog.PRICES_READ`). *on_report* is
    called with every report. *options*: as for `compile_for`; a mesh with a -1 (``{"data": -1}``)
    grows with the type. Types over whose devices the mesh or the arguments don't divide are
    skipped.

    Raises `InvalidInput` if none fits, with the nearest one.
    """
    search = Search(_known(by_price(max_devices) if types is None else list(types)))
    for name in search.names:
        try:
            report = compile_for(name, fn, *shapes, **options)
        except DoesNotDivide as error:
            search.skipped(name, error)
            continue
        if on_report is not None:
            on_report(report)
        search.compiled(report)
        if search.found:
            return report
    nearest = search.outcome().report
    needed = nearest.needed_bytes
    needs = f"it needs {needed / 2**30:.2f} GiB per device, and " if needed is not None else ""
    raise InvalidInput(
        f"The program fits none of {count(len(search.names), 'type')}; nearest is {nearest.type}: "
        f"{needs}a device has {nearest.hbm_bytes / 2**30:.2f} GiB.",
        "Split more arrays over the mesh, or recompute activations with jax.checkpoint.",
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
    need_libtpu()
    from .export import export_program

    with quiet_libtpu():
        exported = export_program(
            fn,
            shapes,
            topology=where,
            mesh=mesh,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            donate_argnums=donate_argnums,
        )
    job = CompileJob(topology=where, dump="")
    job.describe(exported)
    return where, job, exported.blob


def need_libtpu() -> None:
    """Raises `TPUError` with ENVIRONMENT and how to install it, where libtpu is missing."""
    if find_spec("libtpu") is not None and find_spec("flatbuffers") is not None:
        return
    if not sys.platform.startswith("linux"):
        hint = "It exists only for Linux on x86-64: use such a machine, or a TPU VM."
    else:
        hint = "Install it: pip install 'jupyter-tpu[compile]' (about 200 MB)."
    raise TPUError(
        "Compiling for a TPU needs libtpu, which is not installed.", Reason.ENVIRONMENT, hint
    )


async def _in_thread(
    where: Topology,
    job: CompileJob,
    blob: bytes,
    limits: CompileLimits,
    watch: StepWatch | None = None,
) -> CompileReport:
    stop = threading.Event()
    progress = _StepReporter()
    work = asyncio.create_task(asyncio.to_thread(_run, where, job, blob, limits, stop, progress))
    try:
        while not work.done():
            # Polled, so that code that prints without end cannot flood the loop.
            await asyncio.wait([work], timeout=_REPORT_SECONDS)
            if watch is not None:
                progress.report(watch)
        return work.result()
    except asyncio.CancelledError:
        stop.set()
        work.add_done_callback(lambda task: task.exception())  # it was stopped on purpose
        await asyncio.wait([work], timeout=10)
        raise


class _StepReporter:
    """What a process reports and prints, bounded, between two reports to the `Watch`."""

    def __init__(self) -> None:
        self.step = ""
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reported = ""

    def set_step(self, step: str) -> None:
        self.step = step

    def report(self, watch: StepWatch) -> None:
        step = self.step
        if step != self._reported:
            self._reported = step
            watch.say(step)
        for _ in range(len(self.lines)):
            with contextlib.suppress(IndexError):  # replaced by newer ones
                watch.log(self.lines.popleft())


def _run(
    where: Topology,
    job: CompileJob,
    blob: bytes,
    limits: CompileLimits,
    stop: threading.Event | None,
    progress: _StepReporter | None = None,
) -> CompileReport:
    def ask(process: WatchedProcess) -> CompileReport:
        return _ask(process, where, job, blob, limits, stop, progress)

    # Code may change the process that it runs in; a program may not.
    if job.code is None and (idle := IDLE.take()):
        with contextlib.suppress(ProcessDied):  # it was killed meanwhile, for its memory perhaps
            return ask(idle)
    return ask(
        WatchedProcess(
            "jupyter_tpu.jaxkit.compile.child",
            lambda folder: {**ENVIRONMENT, "XLA_FLAGS": f"--xla_dump_to={folder / 'dump'}"},
        )
    )


def _ask(
    process: WatchedProcess,
    where: Topology,
    job: CompileJob,
    blob: bytes,
    limits: CompileLimits,
    stop: threading.Event | None,
    progress: _StepReporter | None,
) -> CompileReport:
    """Lets *process* compile, and then keeps or ends it."""
    kept = False
    try:
        job.dump = str(process.folder / "dump")
        head = process.ask(
            msgspec.json.encode(job),
            blob,
            what=f"Compiling for {where.type}",
            seconds=limits.seconds,
            memory_bytes=limits.memory_bytes,
            stop=stop,
            on_step=progress.set_step if progress else None,
            on_line=progress.lines.append if progress else None,
        )
        kept = job.code is None and IDLE.keep(process)
    finally:
        if not kept:
            process.end()
    answer = msgspec.json.decode(head, type=CompileAnswer)
    if answer.does_not_divide:
        raise DoesNotDivide(answer.message, answer.hint)
    if answer.report is None:
        raise error_for(answer.message, answer.reason, answer.hint)
    return _with_cells(answer.report)


def _with_cells(report: CompileReport) -> CompileReport:
    for buffer in report.buffers:
        buffer.source = _cell(buffer.source)
    return report


def _cell(source: str) -> str:
    """ "/tmp/ipykernel_1/2.py:3" -> "In[4]:3", if it is a cell of this notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    file, _, line = source.rpartition(":")
    if shell is None or not file:
        return source
    name = shell.compile.format_code_name(file)
    return f"{name[1]}:{line}" if name and name[0] == "Cell" else source
