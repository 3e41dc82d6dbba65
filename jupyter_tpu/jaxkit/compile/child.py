"""The process that compiles for a TPU: ``python -m jupyter_tpu.jaxkit.compile.child WATCHER``.

Requests on stdin, for each an answer on stdout; before the answer, frames without a head name the
current step. It ends with its stdin. A caller who sends code asks only once, because code may
change anything. The user's code prints to stderr. The caller limits time and memory and may kill
the process at any time. libtpu's compiler ends the process where other libraries raise, another
reason for a separate process.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InvalidInput, Reason, TPUError
from ..arrays import ArrayRequest
from ..processes.frames import read_frame, write_frame
from ..processes.watched import end_with
from ..sharding.axes import DoesNotDivide
from ..tables import binary_size
from ..topology import Topology
from .models import CompileReport, CompileRequest
from .report_cache import keep_report, kept_report, report_key


class CompileJob(msgspec.Struct, kw_only=True):
    """The head of the request; an exported program follows it as the body."""

    topology: Topology
    mesh: dict[str, int] = {}
    axis_types: list[str] = []
    names: list[str] = []
    donated: list[int] = []
    compiler_options: dict[str, Any] = {}
    notes: list[str] = []
    #: Instead of an exported program: the code that defines the function.
    code: CompileRequest | None = None
    dump: str  # a folder for the compiler's own notes
    buffers: int = 12

    def describe(self, exported: Any) -> None:
        """Takes all that is known of an exported program but itself."""
        self.mesh, self.axis_types = exported.mesh, exported.axis_types
        self.names, self.donated = exported.names, exported.donated
        self.compiler_options, self.notes = exported.compiler_options, exported.notes

    def key(self, program: bytes) -> str:
        """What the report on it is kept as."""
        return report_key(msgspec.structs.replace(self, code=None, dump=""), program)


class CompileAnswer(msgspec.Struct, kw_only=True):
    report: CompileReport | None = None
    message: str = ""
    reason: Reason = Reason.INVALID
    hint: str = ""
    #: Sizes don't divide over this type's devices; over another's they may.
    does_not_divide: bool = False


def main() -> None:
    end_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    sys.stdin = open(os.devnull)  # noqa: SIM115 (the user's code must not read the request)
    with suppress(EOFError):
        while True:
            head, body = read_frame(requests, 1 << 31)
            job = msgspec.json.decode(head, type=CompileJob)
            answer = _answer(job, body, lambda step: write_frame(answers, b"", step.encode()))
            write_frame(answers, msgspec.json.encode(answer), b"")
    # libtpu's own threads make an orderly end slow, and there is nothing to put in order.
    os._exit(0)


def _answer(job: CompileJob, body: bytes, tell: Callable[[str], None]) -> CompileAnswer:
    shutil.rmtree(job.dump, ignore_errors=True)  # what belongs to the program before
    try:
        return CompileAnswer(report=compile_job(job, body, tell))
    except TPUError as error:
        return CompileAnswer(
            message=_valid(error.message),
            reason=error.reason,
            hint=_valid(error.hint),
            does_not_divide=isinstance(error, DoesNotDivide),
        )
    except Exception as error:
        traceback.print_exc()
        cause = _valid(str(error)).splitlines() or [""]
        return CompileAnswer(
            message=f"Compiling for {job.topology.type} failed: {type(error).__name__}: "
            f"{cause[0][:400]}",
            reason=Reason.INTERNAL,
        )


def _valid(text: str) -> str:
    """Without lone surrogates, which an error of the user's code may contain."""
    return text.encode(errors="replace").decode()


def compile_job(job: CompileJob, blob: bytes, tell: Callable[[str], None]) -> CompileReport:
    """The report on the job's program; raises `TPUError` for code that fails or won't compile."""
    started = time.perf_counter()
    if job.code is not None:
        tell("Running the code and tracing its function")
        exported = _from_code(job.code, job.topology)
        job.describe(exported)
        blob = exported.blob
        if report := kept_report(job.key(blob)):
            return report
    key = job.key(blob)  # before notes are added
    import jax

    program = jax.export.deserialize(bytearray(blob))
    used = program.nr_devices
    report = CompileReport(
        type=job.topology.type,
        topology=job.topology.name,
        devices=job.topology.devices,
        devices_used=used,
        hosts=job.topology.hosts,
        fits=True,
        hbm_bytes=job.topology.hbm_bytes,
        jax_version=jax.__version__,
        libtpu_version=libtpu_version(),
        notes=job.notes,
    )
    if used < job.topology.devices:
        report.notes.append(
            f"The program uses {used} of {job.topology.devices} devices; give a mesh to use more."
        )
    tell(f"Compiling for {job.topology.type}")
    lowered = _lower(job, program)
    try:
        compiled = lowered.compile(job.compiler_options or None)
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
        _check_vmem(text, job)
        if "RESOURCE_EXHAUSTED" not in text:
            raise InvalidInput(
                f"The TPU's compiler rejects the program: {text.splitlines()[0][:400]}",
            ) from error
        _does_not_fit(report, text, job)
    else:
        _measure(report, compiled, job)
    report.seconds = round(time.perf_counter() - started, 3)
    keep_report(key, report)
    return report


def _lower(job: CompileJob, program: Any) -> Any:
    import jax

    # The program has its dtypes by now. Without this, jax would call it with 32 bits for 64.
    jax.config.update("jax_enable_x64", True)
    mesh = _mesh(job, program.nr_devices)
    shardings = program.in_shardings_jax(mesh)
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    flat = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding or whole)
        for aval, sharding in zip(program.in_avals, shardings, strict=True)
    ]
    jitted = jax.jit(
        program.call,
        donate_argnums=tuple(job.donated),
        keep_unused=True,
        out_shardings=list(program.out_shardings_jax(mesh)),
    )
    return jitted.lower(*flat)


def _mesh(job: CompileJob, used: int) -> Any:
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.experimental.mesh_utils import create_device_mesh

    chosen: Any
    try:
        topology_desc = topologies.get_topology_desc(
            topology_name=job.topology.name, platform="tpu", **job.topology.options
        )
    except (RuntimeError, NotImplementedError, ValueError) as error:
        raise TPUError(
            f"libtpu {libtpu_version()} does not know {job.topology.name}: "
            f"{str(error).splitlines()[0][:300]}",
            Reason.ENVIRONMENT,
            "Update it: pip install --upgrade 'jupyter-tpu[compile]'.",
        ) from error
    devices = list(topology_desc.devices)
    kinds = tuple(jax.sharding.AxisType[name] for name in job.axis_types)
    shape = tuple(job.mesh.values())
    if used == len(devices):
        # Ordered so that neighbours in the mesh are neighbours on the TPU.
        try:
            return jax.make_mesh(shape, tuple(job.mesh), devices=devices, axis_types=kinds)
        except NotImplementedError:  # an axis is a part of one of the TPU's
            chosen = create_device_mesh(shape, devices, allow_split_physical_axes=True)
            job.notes.append(
                f"An axis of the mesh is a part of a dimension of {job.topology.shape} chips. "
                "On the TPU, jax.make_mesh refuses this mesh: make its devices with "
                "jax.experimental.mesh_utils.create_device_mesh(…, allow_split_physical_axes=True)."
            )
    else:
        chosen = np.array(devices[:used]).reshape(shape)
    return jax.sharding.Mesh(chosen, tuple(job.mesh), axis_types=kinds)


def _measure(report: CompileReport, compiled: Any, job: CompileJob) -> None:
    from .buffers import on_chip_bytes, read_allocations
    from .collectives import read_collectives
    from .costs import program_costs
    from .hlo import Program

    stats = compiled.memory_analysis()
    assignment = _dumped(job, "after_optimizations-buffer-assignment.txt")
    allocations = read_allocations(assignment)
    temporary = sum(item.bytes for item in allocations if item.kind == "temporary")
    # Newer versions of jax say it themselves; it is the sum of the assignment's allocations. Their
    # temporaries count some of that twice.
    total = getattr(stats, "total_allocation_bytes", 0) or sum(item.bytes for item in allocations)
    report.argument_bytes = stats.argument_size_in_bytes
    report.output_bytes = stats.output_size_in_bytes
    report.aliased_bytes = stats.alias_size_in_bytes
    report.temporary_bytes = temporary if allocations else stats.temp_size_in_bytes
    report.code_bytes = stats.generated_code_size_in_bytes
    report.host_bytes = (
        stats.host_argument_size_in_bytes
        + stats.host_output_size_in_bytes
        - stats.host_alias_size_in_bytes
        + stats.host_temp_size_in_bytes
    )
    report.jax_temporary_bytes = stats.temp_size_in_bytes
    report.jax_peak_bytes = getattr(stats, "peak_memory_in_bytes", 0) or None  # jax 0.8 has none
    report.on_chip_bytes = on_chip_bytes(assignment)
    whole = report.argument_bytes + report.output_bytes - report.aliased_bytes
    report.needed_bytes = (total or whole + report.temporary_bytes) + report.code_bytes
    if report.needed_bytes > report.hbm_bytes:
        report.fits = False
        report.message = "It compiles, but code and data together are too large."
    program = Program(compiled.as_text(), _is_own)
    _describe(report, allocations, program, job)
    report.collectives, uncertain = read_collectives(program, report.devices_used)
    if uncertain:
        report.notes.append("Collectives in a loop of unknown length are counted once.")
    costs = compiled.cost_analysis() or {}
    report.bytes_accessed = costs.get("bytes accessed")
    more = program_costs(program)
    report.loop_flops, report.hbm_traffic_bytes = more.loop_flops, more.hbm_traffic_bytes
    report.host_traffic_bytes = more.host_traffic_bytes
    report.unknown_loops, report.custom_kernels = more.unknown_loops, more.custom_kernels
    report.estimated_kernels = more.estimated_kernels
    # A program of nothing but a kernel has no figure, if its author gives none.
    report.flops = costs.get("flops", 0.0 if more.custom_kernels else None)
    report.flops_caveat = (
        "FLOPs are per device; the compiler counts the body of a loop (scan, fori_loop) once, "
        "and custom kernels as their pl.CostEstimate says, without one not at all."
    )


def _check_vmem(text: str, job: CompileJob) -> None:
    """Raises `InvalidInput` for a kernel that wants too much of the chip's own memory."""
    if "space vmem" not in text and "space=vmem" not in text:
        return
    sizes = re.search(r"size ([\d.]+[KMG]) and limit ([\d.]+[KMG])", text) or re.search(
        r"\(size=(\d+)\) would exceed memory \(size=(\d+)\)", text
    )
    wanted = ""
    if sizes:
        needed, limit = (binary_size(_bytes(size)) for size in sizes.groups())
        wanted = f": {needed}, and may use {limit}"
    raise InvalidInput(
        f"A kernel needs too much of the chip's own memory (VMEM) on {job.topology.type}{wanted}. "
        "This is not HBM.",
        "Use smaller blocks in its BlockSpecs, or raise vmem_limit_bytes in its "
        "pltpu.CompilerParams.",
    )


def _does_not_fit(report: CompileReport, text: str, job: CompileJob) -> None:
    from .buffers import read_allocations
    from .hlo import Program

    report.fits = False
    report.message = text.split("\n")[0].removeprefix("RESOURCE_EXHAUSTED: ")[:400]
    allocations = read_allocations(_dumped(job, "after_optimizations-buffer-assignment.txt"))
    if allocations:
        report.needed_bytes = sum(item.bytes for item in allocations)
        report.argument_bytes = _total(allocations, "argument")
        report.output_bytes = _total(allocations, "output")
        report.temporary_bytes = _total(allocations, "temporary")
    stated = re.search(
        r"\(([\d.]+[KMGT]?)\) exceeds available HBM|[Uu]sed ([\d.]+[KMGT]?) of", text
    )
    if stated:
        needed = _bytes(stated[1] or stated[2])
        if not report.needed_bytes or report.needed_bytes <= report.hbm_bytes:
            report.needed_bytes = needed
    before = _dumped(job, "after_optimizations_before_buffer_assignment.txt")
    program = Program(before, _is_own) if before else None
    _describe(report, allocations, program, job)


def _describe(report: CompileReport, allocations: Any, program: Any, job: CompileJob) -> None:
    from .buffers import largest_buffers

    everything = largest_buffers(allocations, program, job.names, 1 << 20)
    report.buffers = everything[: job.buffers]
    report.padding_bytes = sum(
        buffer.bytes - buffer.unpadded_bytes
        for buffer in everything
        if buffer.kind in ("argument", "output")
    )


def _dumped(job: CompileJob, name: str) -> str:
    """What the compiler wrote to its folder; "" if this version does not write it."""
    files = sorted(glob.glob(os.path.join(glob.escape(job.dump), f"*.{name}")), key=os.path.getsize)
    return Path(files[-1]).read_text(errors="replace") if files else ""


def _total(allocations: Any, kind: str) -> int:
    return sum(item.bytes for item in allocations if item.kind == kind)


def _bytes(text: str) -> int:
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}.get(text[-1], 1)
    return int(float(text.rstrip("KMGT")) * unit)


def _is_own(file: str) -> bool:
    return file.startswith(str(Path(__file__).parent))


def libtpu_version() -> str:
    """The version of the installed libtpu; "" if there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("libtpu")
    except PackageNotFoundError:
        return ""


def _from_code(request: CompileRequest, topology: Topology) -> Any:
    names: dict[str, Any] = {"__name__": "__program__"}
    try:
        exec(compile(request.code, "<program>", "exec"), names)
    except SystemExit as error:
        raise InvalidInput("The code ends the process (SystemExit).") from error
    except BaseException as error:
        line = _line_of(error)
        raise InvalidInput(
            f"The code fails{line}: {type(error).__name__}: {error}"[:600]
        ) from error
    function = names.get(request.function)
    if not callable(function):
        raise InvalidInput(f"The code defines no function {request.function!r}.")
    from .export import export_program

    return export_program(
        function,
        [_argument(argument) for argument in request.arguments],
        topology=topology,
        mesh=request.mesh,
        in_shardings=tuple(_argument_specs(argument) for argument in request.arguments),
        donate_argnums=request.donate or None,
    )


def _line_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}" if error.lineno else ""
    line, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == "<program>":
            line = f" in line {frame.tb_lineno}"
        frame = frame.tb_next
    return line


def _argument(argument: ArrayRequest) -> Any:
    if argument.tree is not None:
        return {name: _argument(branch) for name, branch in argument.tree.items()}
    if argument.shape is None:
        raise InvalidInput("An argument needs a shape or a tree.")
    if argument.memory == "device":
        return (tuple(argument.shape), argument.dtype)
    import jax

    on_host = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=argument.memory)
    from .export import shape_specs

    spec = shape_specs((tuple(argument.shape), argument.dtype))
    return jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=on_host)


def _argument_specs(argument: ArrayRequest) -> Any:
    from jax.sharding import PartitionSpec

    if argument.tree is not None:
        return {name: _argument_specs(branch) for name, branch in argument.tree.items()}
    return PartitionSpec(
        *(tuple(part) if isinstance(part, list) else part for part in argument.spec)
    )


if __name__ == "__main__":
    main()
