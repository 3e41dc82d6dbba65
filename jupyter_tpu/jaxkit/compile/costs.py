"""What a run of a compiled program costs, where the compiler's own analysis does not say it.

The analysis counts the body of a loop once, but most of a model is layers under ``scan``. And its
bytes include those in the chip's own memory. So this reads the compiled program: the matrix
products in the further runs of loops (the TPU's compiler writes them as convolutions), and the
arrays that operations read from HBM and write to it. Elementwise arithmetic is left out: its bytes
decide what it costs.

An array's layout says where it lies: ``S(1)`` is the chip's own memory, ``S(5)`` the host's; no
mark is HBM. What is updated in place is neither read nor written but for the update.
"""

from __future__ import annotations

import re
from math import prod

from msgspec import Struct

from .collectives import kind_of
from .hlo import ArrayText, Instruction, Program, arrays_of, operands_of

#: These move nothing; an asynchronous operation counts when it is done.
_FREE = re.compile(
    r"parameter|constant|tuple|get-tuple-element|bitcast|while|conditional|call|after-all|"
    r"async-update|iota|partition-id|replica-id|.*-start"
)
_CALLERS = ("while", "conditional", "call", "async-start")
_ESTIMATE = re.compile(r'"cost_estimate":\{"flops":"(\d+)"')
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_PARTS = re.compile(r"dynamic-slice|slice|gather")
#: In place -> the position of the update among the operands.
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}


class ProgramCosts(Struct, frozen=True):
    """The costs of one device, in one run of the program."""

    loop_flops: float  # beyond the first run of each loop's body
    hbm_traffic_bytes: float
    host_traffic_bytes: float  # from and to the memory of the host
    unknown_loops: bool
    custom_kernels: int
    estimated_kernels: int  # of these, as their authors say


def program_costs(program: Program) -> ProgramCosts:
    """The costs of one run of the program, on one device."""
    inner = _inner(program)
    flops = moved = host = 0.0
    unknown, kernels, estimated = False, 0, 0
    for name, times, certain in program.runs():
        unknown = unknown or not certain
        for instruction in program.computations[name]:
            if instruction.operation == "custom-call" and "tpu_custom_call" in instruction.rest:
                kernels += 1
                estimate = _ESTIMATE.search(instruction.rest)
                estimated += estimate is not None
                flops += (times - 1) * int(estimate[1]) if estimate else 0
            if times > 1:
                flops += (times - 1) * matmul_flops(program, instruction)
            if name not in inner:
                moved += times * _moved_bytes(program, instruction)
                host += times * _host_bytes(program, instruction)
    return ProgramCosts(flops, moved, host, unknown, kernels, estimated)


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
    if _FREE.fullmatch(kind) or "AllocateBuffer" in instruction.rest:
        return 0.0
    body = _fused(program, instruction)
    names = _sources(program, instruction)
    result = arrays_of(instruction.shape)
    base = kind.removesuffix("-done")
    if _PARTS.fullmatch(base):
        source = _arrays(program, names[0]) if names else []
        return float(sum(a.bytes * (_in_hbm(a) + all(map(_in_hbm, source))) for a in result))
    if base in _UPDATES:
        return float(_update_bytes(program, base, names, result))
    read = 0.0
    for position, name in enumerate(names):
        whole = sum(_hbm_bytes(a) for a in _arrays(program, name))
        read += min(whole, _read_by(program, body, position, whole))
    return read + (_written(program, body) if body else sum(map(_hbm_bytes, result)))


def _sources(program: Program, instruction: Instruction) -> list[str]:
    """The operands; of what is done now, those of its start."""
    names = operands_of(instruction)
    if instruction.operation.endswith("-done") and names:
        start = program.instruction(names[0])
        return operands_of(start) if start else []
    return names


def _update_bytes(program: Program, kind: str, names: list[str], result: list[ArrayText]) -> int:
    """Bytes of an update in place: it is read, and what it replaces is written; a scatter also
    reads that.
    """
    update = _arrays(program, names[_UPDATES[kind]]) if len(names) > _UPDATES[kind] else []
    target = sum(a.bytes for a in update) if any(map(_in_hbm, result)) else 0
    return sum(map(_hbm_bytes, update)) + target * (2 if kind == "scatter" else 1)


def _written(program: Program, body: list[Instruction]) -> float:
    """Bytes that a fusion writes to HBM."""
    root = body[-1]
    names = operands_of(root) if root.operation == "tuple" else [root.name]
    started = any("AsyncCollectiveStart" in item.rest for item in body)
    if started:  # its result is written once; what follows hands it on
        return float(sum(_hbm_bytes(a) for i in body if kind_of(i) for a in arrays_of(i.shape)))
    if any("AsyncCollectiveDone" in item.rest for item in body):
        return 0.0
    by_name = {item.name: item for item in body}
    total = 0.0
    for name in names:
        item = by_name.get(name)
        if item is None or item.operation == "parameter" or (len(names) > 1 and kind_of(item)):
            continue
        updated = _updated(program, body, name)
        total += sum(
            a.bytes if updated is None else min(a.bytes, updated[1])
            for a in arrays_of(item.shape)
            if _in_hbm(a)
        )
    return total


def _updated(program: Program, body: list[Instruction], name: str) -> tuple[str, int] | None:
    """(parameter of *body*, bytes of the update), if *name* is that, updated in place."""
    item = next((one for one in body if one.name == name), None)
    operands = operands_of(item) if item else []
    if item is None or not operands:
        return None
    if item.operation == "bitcast":
        return _updated(program, body, operands[0])
    target, size = operands[0], 0
    if item.operation in _UPDATES:
        size = sum(a.bytes for a in _arrays(program, operands[_UPDATES[item.operation]]))
    elif inside := _fused(program, item):
        found = _updated(program, inside, inside[-1].name)
        if found is None:
            return None
        parameter = program.instruction(found[0])
        position = re.match(r"parameter\((\d+)\)", parameter.rest) if parameter else None
        target, size = operands[int(position[1])] if position else "", found[1]
    else:
        return None
    while (one := program.instruction(target)) and one.operation == "bitcast":
        target = operands_of(one)[0]
    return (target, size) if one and one.operation == "parameter" else None


def _read_by(program: Program, body: list[Instruction], position: int, whole: int) -> int:
    """The bytes of a fusion's operand: all, or the parts that slices take and updates replace."""
    parameter = next((i.name for i in body if i.rest.startswith(f"parameter({position})")), "")
    users = [item for item in body if parameter and parameter in operands_of(item)]
    if not users:
        return whole if not body else 0
    goes_on = not any("AsyncCollectiveStart" in item.rest for item in body)
    asynchronous = goes_on and body[-1].operation in ("tuple", "custom-call")
    read = 0
    for user in users:
        first = operands_of(user)[0] == parameter
        if _PARTS.fullmatch(user.operation):
            read += sum(a.bytes for a in arrays_of(user.shape))
        elif user.operation == "scatter" and first:
            read += sum(a.bytes for a in _arrays(program, operands_of(user)[2]))
        elif user.operation == "dynamic-update-slice" and first:
            continue
        elif inside := _fused(program, user):
            read += _read_by(program, inside, operands_of(user).index(parameter), whole)
        elif (user is body[-1] and user.operation == "tuple") or "AsyncCollectiveDone" in user.rest:
            continue  # handed on
        elif asynchronous and kind_of(user):
            continue  # read by what has started it
        else:
            return whole
    return read


def _host_bytes(program: Program, instruction: Instruction) -> float:
    """Bytes that go from the host's memory to the device, or back."""
    if not instruction.operation.endswith("-done"):
        return 0.0
    names = _sources(program, instruction)
    kind = instruction.operation.removesuffix("-done")
    result = arrays_of(instruction.shape)
    if kind in _UPDATES and len(names) > _UPDATES[kind]:
        to_host = any(map(_on_host, result))
        return float(sum(a.bytes for a in _arrays(program, names[1]) if to_host))
    source = _arrays(program, names[0]) if names else []
    crosses = any(map(_on_host, source)) != any(map(_on_host, result))
    return float(sum(a.bytes for a in result)) if crosses else 0.0


def _fused(program: Program, instruction: Instruction) -> list[Instruction]:
    """The instructions inside of a fusion; none for other operations."""
    called = re.search(r"\bcalls=%?([\w.\-]+)", instruction.rest)
    if instruction.operation != "fusion" or not called:
        return []
    return program.computations.get(called[1], [])


def _arrays(program: Program, name: str) -> list[ArrayText]:
    instruction = program.instruction(name)
    return arrays_of(instruction.shape) if instruction else []


def _in_hbm(array: ArrayText) -> bool:
    return not re.search(r"S\([1-9]\d*\)", array.layout)


def _on_host(array: ArrayText) -> bool:
    return "S(5)" in array.layout


def _hbm_bytes(array: ArrayText) -> int:
    return array.bytes if _in_hbm(array) else 0


def _inner(program: Program) -> set[str]:
    """Computations inside of an operation, such as a fusion's: their arrays aren't in HBM."""
    return {
        called
        for instructions in program.computations.values()
        for instruction in instructions
        if instruction.operation not in _CALLERS
        for called in re.findall(r"\b(?:calls|to_apply)=%?([\w.\-]+)", instruction.rest)
    }
