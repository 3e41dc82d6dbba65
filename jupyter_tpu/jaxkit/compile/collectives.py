"""What the devices of a compiled program send to each other, read from its text (HLO).

libtpu writes some collectives in several pieces, or as others:

- an asynchronous one stands in the fusion that starts it, in those beside which it goes on, and in
  the one that ends it;
- a reduce-scatter is an all-reduce and a dynamic-slice in one fusion;
- the devices of a group are in braces, as an iota (``[4,2]<=[8]``), or axes of a mesh
  (``mesh['a'=4,'b'=2] {'b'}``).

Nothing here needs jax.
"""

from __future__ import annotations

import re
from math import prod

from .hlo import Instruction, Program, arrays_of, operands_of
from .report import Collective

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
_STARTS = "AsyncCollectiveStart"


def read_collectives(program: Program, devices: int = 0) -> tuple[list[Collective], bool]:
    """By kind, and whether a loop of unknown length was counted once. *devices*: of all of the
    program.
    """
    counts: dict[str, list[int]] = {}
    unknown = False
    started = _started(program)
    for name, times, certain in program.runs():
        body = program.computations[name]
        goes_on = name in program.fusions and not _starts(body)
        for instruction in body:
            kind = kind_of(instruction)
            if not kind or (goes_on and _identity(instruction) in started):
                continue
            unknown = unknown or not certain
            size = result_bytes(instruction)
            if kind == "all-reduce" and name in program.fusions and _slices(body, instruction):
                kind, size = "reduce-scatter", result_bytes(program.fusions[name])
            group = group_size(instruction.rest, devices)
            sent = times * _sent_bytes(kind, size, group)
            totals = counts.setdefault(kind, [0, 0, 0, 0])
            totals[0] += times
            totals[1] += times * size
            totals[2] += sent
            totals[3] += sent if devices and group == devices else 0
    rows = [
        Collective(kind=kind, count=count, bytes=size, sent_bytes=sent, sent_by_all=by_all)
        for kind, (count, size, sent, by_all) in counts.items()
    ]
    return sorted(rows, key=lambda row: -row.bytes), unknown


def kind_of(instruction: Instruction) -> str:
    """ "all-gather", also of one that only starts here; "" for what is no collective."""
    kind = instruction.operation.removesuffix("-start")
    return kind if kind in COLLECTIVES else ""


def _started(program: Program) -> set[tuple[str, str]]:
    """The asynchronous collectives that fusions start."""
    return {
        _identity(instruction)
        for name in program.fusions
        if _starts(body := program.computations.get(name, []))
        for instruction in body
        if kind_of(instruction)
    }


def _starts(body: list[Instruction]) -> bool:
    return any(item.operation == "custom-call" and _STARTS in item.rest for item in body)


def _identity(instruction: Instruction) -> tuple[str, str]:
    channel = re.search(r"channel_id=(\d+)", instruction.rest)
    return kind_of(instruction), channel[1] if channel else instruction.name


def _slices(body: list[Instruction], reduced: Instruction) -> bool:
    """Whether a fusion keeps a part only of what it has reduced."""
    root = body[-1]
    return root.operation == "dynamic-slice" and reduced.name in operands_of(root)[:1]


def result_bytes(instruction: Instruction) -> int:
    """Bytes of a collective's result; of an asynchronous one without its operands."""
    arrays = arrays_of(re.sub(r"/\*.*?\*/", "", instruction.shape))
    if instruction.operation in ("all-gather-start", "collective-permute-start"):
        data = [array for array in arrays if array.shape or len(arrays) < 3]
        arrays = data[len(data) // 2 :]
    return sum(array.bytes for array in arrays)


def group_size(rest: str, devices: int = 0) -> int | None:
    """How many devices a collective joins; None if its text does not say."""
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", rest):
        sizes = dict(re.findall(r"'([^']*)'=(\d+)", mesh[1]))
        # A part of an axis: 'a':(2)4 are its 4 parts after the first 2.
        axes = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", mesh[2])
        return prod(int(part or sizes[axis]) for axis, part in axes)
    if iota := re.search(r"replica_groups=\[\d+,(\d+)\]<=", rest):
        return int(iota[1])
    if first := re.search(r"replica_groups=\{\{([\d,]+)\}", rest):
        return len(first[1].split(","))
    return devices or None if "replica_groups={}" in rest else None


def _sent_bytes(kind: str, result: int, group: int | None) -> int:
    """What one device sends when the *group* is a ring; without a known size, that of a long one.

    https://jax-ml.github.io/scaling-book/sharding derives the factors.
    """
    others = (group - 1) / group if group else 1.0
    if kind == "all-reduce":
        return round(2 * others * result)
    if kind == "reduce-scatter":
        return result * ((group or 2) - 1)  # the result is one part
    if kind in ("all-gather", "all-to-all", "ragged-all-to-all"):
        return round(others * result)
    return result
