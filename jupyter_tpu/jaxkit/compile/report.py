"""The report of the TPU's compiler on a program; prints as tables."""

from __future__ import annotations

from html import escape
from typing import Literal

from msgspec import Struct

from ...wording import each_of
from ..arrays import Shape
from ..tables import MAX_ROWS, binary_size, html_table, share_text, text_table

_BUFFER_HEADS = ("size", "padding", "kind", "array", "operation", "source")
_COLLECTIVE_HEADS = ("collective", "times", "bytes per device")


class Buffer(Struct, kw_only=True):
    """One allocation in the memory of a device."""

    bytes: int
    kind: Literal["argument", "output", "temporary"]
    dtype: str
    shape: Shape
    layout: str
    #: Its size without padding.
    unpadded_bytes: int
    #: Operation, as JAX names it ("jit(step)/dot_general"), or the argument's path.
    name: str
    #: "train.py:12", where known.
    source: str = ""


class Collective(Struct, kw_only=True):
    """The communication between devices, by kind."""

    kind: str  # "all-reduce"
    #: How many in one run of the program; a loop counts as often as it is known to run.
    count: int
    #: Result bytes on one device over all of them.
    bytes: int
    #: What one device sends for them, if the devices of each form a ring.
    sent_bytes: int = 0
    #: The part of that for those that join all devices of the program.
    sent_by_all: int = 0


class CompileReport(Struct, kw_only=True):
    """The report of the TPU's own compiler on a program; no TPU is needed."""

    type: str
    topology: str
    devices: int
    devices_used: int
    hosts: int
    fits: bool
    #: Per device: what a program may use, what this one needs, and what that is made of. None
    #: where the compiler stopped before it knew.
    hbm_bytes: int
    needed_bytes: int | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    #: Outputs in the memory of donated arguments (counted in `argument_bytes`).
    aliased_bytes: int | None = None
    temporary_bytes: int | None = None
    code_bytes: int | None = None
    #: Temporaries in the chip's own memory (VMEM), which take no HBM.
    on_chip_bytes: int | None = None
    #: In the memory of the device's host (pinned_host), which takes no HBM: arguments, outputs and
    #: temporaries.
    host_bytes: int | None = None
    #: From jax's ``memory_analysis()``: its temporaries in HBM and its peak. The peak leaves out
    #: the code and counts what is in VMEM and in the host's memory: it can be larger or smaller
    #: than `needed_bytes`.
    jax_temporary_bytes: int | None = None
    jax_peak_bytes: int | None = None
    padding_bytes: int | None = None
    buffers: list[Buffer] = []
    collectives: list[Collective] = []
    flops: float | None = None
    bytes_accessed: float | None = None
    #: What `flops` leaves out: matrix products in further runs of the bodies of loops.
    loop_flops: float | None = None
    #: Read from and written to HBM in one run, loops included; `bytes_accessed`, the compiler's own
    #: figure, counts a loop once, and what is in the chip's own memory, too.
    hbm_traffic_bytes: float | None = None
    #: From the memory of the host to HBM and back in one run.
    host_traffic_bytes: float = 0.0
    #: A loop of unknown length was counted once.
    unknown_loops: bool = False
    #: Custom kernels (Pallas), into which the compiler can't look, and how many of them have a
    #: ``pl.CostEstimate``: their FLOPs are counted as it says.
    custom_kernels: int = 0
    estimated_kernels: int = 0
    flops_caveat: str = ""
    #: The compiler's sentence, if the program does not fit.
    message: str = ""
    jax_version: str = ""
    libtpu_version: str = ""
    #: To compile it.
    seconds: float = 0.0
    #: It was compiled before: the report was kept on this machine.
    cached: bool = False
    notes: list[str] = []

    def __repr__(self) -> str:
        parts = ["\n".join(self._verdict()), text_table(("", ""), self._made_of())]
        if self._comparison_with_jax():
            parts.append(self._comparison_with_jax())
        if self.buffers:
            parts.append("Largest:\n" + text_table(_BUFFER_HEADS, self._buffer_rows()))
        if self.collectives:
            parts.append(text_table(_COLLECTIVE_HEADS, self._collective_rows()))
        parts.append(self._compiler())
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        verdict = "".join(f"<p>{escape(line)}</p>" for line in self._verdict())
        tables = html_table(("", ""), self._made_of())
        if self._comparison_with_jax():
            tables += f"<p>{escape(self._comparison_with_jax())}</p>"
        if self.buffers:
            tables += html_table(_BUFFER_HEADS, self._buffer_rows(), "Largest in memory")
        if self.collectives:
            tables += html_table(_COLLECTIVE_HEADS, self._collective_rows())
        return f"{verdict}{tables}<p>{escape(self._compiler())}</p>"

    def _verdict(self) -> list[str]:
        if self.fits:
            first = (
                f"Fits {self.type}: needs {binary_size(self.needed_bytes)} of "
                f"{binary_size(self.hbm_bytes)} on {each_of(self.devices_used, 'device')}."
            )
        elif self.needed_bytes is not None:
            first = (
                f"Does not fit {self.type}: needs {binary_size(self.needed_bytes)}, a device has "
                f"{binary_size(self.hbm_bytes)}."
            )
        else:
            first = f"Does not fit {self.type}: a device has {binary_size(self.hbm_bytes)}."
        return [line for line in (first, self.message, *self.notes) if line]

    def _made_of(self) -> list[tuple[str, str]]:
        rows = [
            ("arguments", self.argument_bytes),
            ("outputs", self.output_bytes),
            ("  of which in the memory of donated arguments", self.aliased_bytes),
            ("temporaries", self.temporary_bytes),
            ("code", self.code_bytes),
            ("in the memory of the host, not in HBM", self.host_bytes or None),
            ("padding of arguments and outputs", self.padding_bytes),
        ]
        cells = [(name, binary_size(size)) for name, size in rows if size is not None]
        if self.flops is not None:
            cells.append(("floating point operations per device", f"{self.flops:.3g}"))
        return cells

    def _comparison_with_jax(self) -> str:
        """The figures of jax's own analysis, and why they differ."""
        if self.jax_peak_bytes is None:
            return ""
        return (
            f"jax's memory_analysis() has temporaries of {binary_size(self.jax_temporary_bytes)} "
            f"(some counted twice) and a peak of {binary_size(self.jax_peak_bytes)}. "
            f"The peak leaves out the code ({binary_size(self.code_bytes)}) and counts values in "
            f"the chip's own memory ({binary_size(self.on_chip_bytes)} here) and in the host's "
            f"({binary_size(self.host_bytes)}), which take no HBM."
        )

    def _buffer_rows(self) -> list[tuple[str, ...]]:
        return [
            (
                binary_size(buffer.bytes),
                share_text(buffer.bytes - buffer.unpadded_bytes, buffer.bytes),
                buffer.kind,
                f"{buffer.dtype}[{','.join(map(str, buffer.shape))}]",
                buffer.name,
                buffer.source,
            )
            for buffer in self.buffers[:MAX_ROWS]
        ]

    def _collective_rows(self) -> list[tuple[str, ...]]:
        return [(row.kind, f"{row.count:,}", binary_size(row.bytes)) for row in self.collectives]

    def _compiler(self) -> str:
        before = " when it was compiled before" if self.cached else ""
        caveat = f" {self.flops_caveat}" if self.flops_caveat else ""
        return (
            f"jax {self.jax_version}, libtpu {self.libtpu_version}, topology {self.topology}, "
            f"{self.seconds:.1f} s{before}. Versions of libtpu differ in the temporary memory they "
            f"need.{caveat}"
        )
