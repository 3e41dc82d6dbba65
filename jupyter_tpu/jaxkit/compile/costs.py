"""What a run of a compiled program costs, where the compiler's own analysis does not say it.

The analysis counts the body of a loop once, but most of a model is layers under ``scan``. And its
bytes include those in the chip's own memory. So this reads the compiled program: the matrix
products in the further runs of loops (the TPU's compiler writes them as convolutions), and the
arrays that operations read from HBM and write to it. Elementwise arithmetic is left out: its bytes
decide what it costs.
"""

from __future__ import annotations

import re
from math import prod

from msgspec import Struct

from .hlo import ArrayText, Instruction, Program, arrays_of, operands_of

#: These move nothing; an asynchronous operation counts when it is done.
_FREE = re.compile(
    r"parameter|constant|tuple|get-tuple-element|bitcast|while|conditional|call|after-all|"
    r"async-update|iota|partition-id|replica-id|.*-start"
)
_CALLERS = ("while", "conditional", "call", "async-start")
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_PARTS = re.compile(r"dynamic-slice|slice|gather")


class ProgramCosts(Struct, frozen=True):
    """The costs of one device, in one run of the program."""

    loop_flops: float  # beyond the first run of each loop's body
    hbm_traffic_bytes: float
    unknown_loops: bool
    custom_kernels: int


def program_costs(program: Program) -> ProgramCosts:
    """The costs of one run of the program, on one device."""
    inner = _inner(program)
    flops = moved = 0.0
    unknown, kernels = False, 0
    for name, times, certain in program.runs():
        unknown = unknown or not certain
        for instruction in program.computations[name]:
            if instruction.operation == "custom-call" and "tpu_custom_call" in instruction.rest:
                kernels += 1
            if times > 1:
                flops += (times - 1) * matmul_flops(program, instruction)
            if name not in inner:
                moved += times * _moved_bytes(program, instruction)
    return ProgramCosts(flops, moved, unknown, kernels)


def matmul_flops(program: Program, instruction: Instruction) -> float:
    """Two for each multiplication of a matrix product or convolution; 0 for other operations."""
    if instruction.operation not in ("dot", "convolution"):
        return 0.0
    operands = [_arrays(program, name) for name in operands_of(instruction)]
    result = arrays_of(instruction.shape)
    if len(operands) != 2 or not all(len(arrays) == 1 for arrays in (*operands, result)):
        return 0.0
    left, right = operands[0][0], operands[1][0]
    if instruction.operation == "dot":
        summed = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.rest)
        dims = [int(dim) for dim in summed[1].split(",") if dim] if summed else []
        return 2.0 * prod(result[0].shape) * prod(left.shape[dim] for dim in dims)
    return _convolution_flops(instruction.rest, left.shape, right.shape, result[0].shape)


def _convolution_flops(
    rest: str, left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]
) -> float:
    labels = _LABELS.search(rest)
    if not labels:
        return 0.0
    from_left = dict(zip(labels[1], left, strict=True))
    from_right = dict(zip(labels[2], right, strict=True))
    out = dict(zip(labels[3], result, strict=True))
    products = from_left["b"] * from_left["f"] * from_right["o"]
    groups = re.search(r"(?:feature|batch)_group_count=(\d+)", rest)
    window = re.search(r"window=\{([^}]*)\}", rest)
    fields = dict(part.split("=", 1) for part in window[1].split()) if window else {}
    for position, axis in enumerate(sorted(axis for axis in from_left if axis.isdigit())):

        def field(name: str, default: str, at: int = position) -> str:
            return fields[name].split("x")[at] if name in fields else default

        products *= _pairs(
            from_left[axis],
            out[axis],
            int(field("size", "1")),
            int(field("stride", "1")),
            int(field("pad", "0_0").split("_")[0]),
            int(field("lhs_dilate", "1")),
            int(field("rhs_dilate", "1")),
        )
    return 2.0 * products / (int(groups[1]) if groups else 1)


def _pairs(
    size: int, result: int, window: int, stride: int, pad: int, dilate: int, window_dilate: int
) -> int:
    """How many pairs of a place in the window and one in the result meet an element of the input,
    and not padding. A batch of matrix products is a convolution with one such pair for each.
    """
    pairs = 0
    short, long, step, big = window, result, window_dilate, stride
    if window > result:
        short, long, step, big = result, window, stride, window_dilate
    if short > 4096:  # no kernel of a model; the product of the sizes is an upper bound
        return window * result
    last = (size - 1) * dilate
    for one in range(short):
        # one * step + other * big - pad must be a multiple of dilate within 0..last
        offset = one * step - pad
        first = max(0, -(offset // big))
        until = min(long - 1, (last - offset) // big)
        if dilate == 1:
            pairs += max(0, until - first + 1)
        else:
            places = range(first, min(until, first + 100_000) + 1)
            pairs += sum((offset + other * big) % dilate == 0 for other in places)
    return pairs


def _moved_bytes(program: Program, instruction: Instruction) -> float:
    """Bytes that an operation reads from HBM and writes to it."""
    kind = instruction.operation
    if _FREE.fullmatch(kind):
        return 0.0
    result = arrays_of(instruction.shape)
    if kind.endswith("-done") or _PARTS.fullmatch(kind):
        # Only this part of what it reads; what goes to the chip's own memory isn't written.
        return float(sum(a.bytes if _on_chip(a) else 2 * a.bytes for a in result))
    names = operands_of(instruction)
    if kind == "dynamic-update-slice" and len(names) > 1:
        return 2.0 * sum(_hbm_bytes(a) for a in _arrays(program, names[1]))
    body = _fused(program, instruction)
    total = 0.0
    for position, name in enumerate(names):
        whole = sum(_hbm_bytes(a) for a in _arrays(program, name))
        total += min(whole, _read_by(program, body, position, whole))
    updates = {
        item.shape: operands_of(item)[1]
        for item in body
        if item.operation == "dynamic-update-slice"
    }
    for array in result:
        written = _hbm_bytes(array)
        for shape, update in updates.items():
            if [a.shape for a in arrays_of(shape)] == [array.shape]:
                written = min(written, sum(a.bytes for a in _arrays(program, update)))
        total += written
    return total


def _read_by(program: Program, body: list[Instruction], position: int, whole: int) -> int:
    """The bytes of a fusion's operand: all, or the parts that slices take and updates replace."""
    parameter = next((i.name for i in body if i.rest.startswith(f"parameter({position})")), "")
    users = [item for item in body if parameter and parameter in operands_of(item)]
    if not users:
        return whole
    read = 0
    for user in users:
        if _PARTS.fullmatch(user.operation):
            read += sum(a.bytes for a in arrays_of(user.shape))
        elif inside := _fused(program, user):
            read += _read_by(program, inside, operands_of(user).index(parameter), whole)
        elif user.operation != "dynamic-update-slice" or operands_of(user)[0] != parameter:
            return whole
    return read


def _fused(program: Program, instruction: Instruction) -> list[Instruction]:
    """The instructions inside of a fusion; none for other operations."""
    called = re.search(r"\bcalls=%?([\w.\-]+)", instruction.rest)
    if instruction.operation != "fusion" or not called:
        return []
    return program.computations.get(called[1], [])


def _arrays(program: Program, name: str) -> list[ArrayText]:
    instruction = program.instruction(name)
    return arrays_of(instruction.shape) if instruction else []


def _on_chip(array: ArrayText) -> bool:
    return "S(1)" in array.layout


def _hbm_bytes(array: ArrayText) -> int:
    return 0 if _on_chip(array) else array.bytes


def _inner(program: Program) -> set[str]:
    """Computations inside of an operation, such as a fusion's: their arrays aren't in HBM."""
    return {
        called
        for instructions in program.computations.values()
        for instruction in instructions
        if instruction.operation not in _CALLERS
        for called in re.findall(r"\b(?:calls|to_apply)=%?([\w.\-]+)", instruction.rest)
    }
