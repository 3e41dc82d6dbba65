"""Reads the buffer assignment of the TPU's compiler: what is in HBM, and what in the chip's memory.

The format is not documented, so a report leaves out what can't be read. Nothing here needs jax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .hlo import Program, arrays_of
from .report import Buffer

_ALLOCATION = re.compile(r"^allocation \d+: size (\d+)(.*)$")
_VALUE = re.compile(r"^ value: <\d+ (\S+) @\d+> \(size=(\d+),offset=(\d+)\): (.*)$")


class Allocation(NamedTuple):
    """A piece of memory, and the values that use it one after the other."""

    bytes: int
    kind: str  # "argument", "output", "temporary", "constant"
    parameter: int | None
    values: tuple[tuple[str, int, int, str], ...]  # (name, bytes, offset, shape)


def read_allocations(text: str) -> list[Allocation]:
    """The allocations in HBM of a buffer assignment."""
    allocations: list[Allocation] = []
    values: list[tuple[str, int, int, str]] = []
    head: tuple[int, str] | None = None

    def close() -> None:
        if head is None or ", color " in head[1] or ", thread-local" in head[1]:
            return  # other memories, and scalars inside of operations
        parameter = re.search(r"parameter (\d+)", head[1])
        kind = (
            "argument"
            if parameter
            else "constant"
            if ", constant" in head[1]
            else "output"
            if "maybe-live-out" in head[1]
            else "temporary"
        )
        number = int(parameter[1]) if parameter else None
        allocations.append(Allocation(head[0], kind, number, tuple(values)))

    for line in text.splitlines():
        if allocation := _ALLOCATION.match(line):
            close()
            head, values = (int(allocation[1]), allocation[2]), []
        elif value := _VALUE.match(line):
            values.append((value[1], int(value[2]), int(value[3]), value[4]))
        elif not line.startswith(" "):
            close()
            head, values = None, []
    close()
    return allocations


def on_chip_bytes(text: str) -> int:
    """Bytes in VMEM of a buffer assignment: the compiler's memory of colour 1."""
    hosts = (_ALLOCATION.match(line) for line in text.splitlines())
    return sum(int(item[1]) for item in hosts if item and re.search(r", color 1\b", item[2]))


def largest_buffers(
    allocations: Iterable[Allocation], program: Program | None, names: list[str], most: int
) -> list[Buffer]:
    """The largest values in HBM; of those that share a place, the largest one."""
    buffers: list[Buffer] = []
    for allocation in allocations:
        if allocation.kind == "constant":
            continue
        places: set[int] = set()
        for name, size, offset, shape in sorted(allocation.values, key=lambda value: -value[1]):
            arrays = arrays_of(shape)
            if offset in places or len(arrays) != 1 or shape.startswith("("):
                continue
            places.add(offset)
            operation, source = program.operation_of(name) if program else ("", "")
            if allocation.parameter is not None:
                if allocation.parameter < len(names):
                    operation = names[allocation.parameter]
                source = ""
            array = arrays[0]
            buffers.append(
                Buffer(
                    bytes=size,
                    kind="argument"
                    if allocation.kind == "argument"
                    else "output"
                    if allocation.kind == "output"
                    else "temporary",
                    dtype=array.dtype,
                    shape=list(array.shape),
                    layout=array.layout,
                    unpadded_bytes=array.bytes,
                    name=operation or name,
                    source=source,
                )
            )
            if allocation.kind == "argument":
                break
    buffers.sort(key=lambda buffer: -buffer.bytes)
    return buffers[:most]
