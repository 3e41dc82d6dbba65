"""Reads the text of a compiled program (HLO): computations, instructions, arrays, loops.

The format is not documented, so a report leaves out what can't be read. Nothing here needs jax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

#: HLO's dtypes -> (ours, bits an element in memory).
_DTYPES = {
    "pred": ("bool", 8),
    "s2": ("int2", 2),
    "s4": ("int4", 4),
    "s8": ("int8", 8),
    "s16": ("int16", 16),
    "s32": ("int32", 32),
    "s64": ("int64", 64),
    "u2": ("uint2", 2),
    "u4": ("uint4", 4),
    "u8": ("uint8", 8),
    "u16": ("uint16", 16),
    "u32": ("uint32", 32),
    "u64": ("uint64", 64),
    "bf16": ("bfloat16", 16),
    "f16": ("float16", 16),
    "f32": ("float32", 32),
    "f64": ("float64", 64),
    "c64": ("complex64", 64),
    "c128": ("complex128", 128),
}
_ARRAY = re.compile(r"\b([a-z]+[0-9]*[a-z0-9]*)\[([0-9,]*)\](\{[^{}]*\})?")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_OPERATION = re.compile(r"(?:^|[\s)}\]])([a-z][a-z0-9\-]*)\(")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition|branch_computations)=\{?([^,{}]*)")


class ArrayText(NamedTuple):
    """An array as HLO writes it: f32[8,128]{1,0:T(8,128)}."""

    dtype: str
    shape: tuple[int, ...]
    layout: str
    bytes: int  # without padding


class Instruction(NamedTuple):
    name: str
    shape: str  # of the result, as text
    operation: str
    rest: str


class Program:
    """A compiled program's text, read once."""

    def __init__(self, text: str, own: Callable[[str], bool] = lambda file: False) -> None:
        """*own*: whether a file is the library's and not the user's."""
        self.entry = ""
        self.computations: dict[str, list[Instruction]] = {}
        self._own = own
        tables: dict[str, dict[int, str]] = {}
        table: dict[int, str] | None = None
        body: list[Instruction] = []
        for line in text.splitlines():
            if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
                table = tables.setdefault(line, {})
            elif table is not None and line[:1].isdigit():
                number, _, content = line.partition(" ")
                table[int(number)] = content
            elif match := _COMPUTATION.match(line):
                table = None
                body = self.computations.setdefault(match[2], [])
                if match[1]:
                    self.entry = match[2]
            elif instruction := read_instruction(line):
                body.append(instruction)
        self._files = {
            number: text.strip('"') for number, text in tables.get("FileNames", {}).items()
        }
        self._places = tables.get("FileLocations", {})
        self._frames = tables.get("StackFrames", {})
        self._by_name = {
            instruction.name: instruction
            for instructions in self.computations.values()
            for instruction in instructions
        }
        #: A fusion's computation -> the fusion.
        self.fusions = {
            called[1]: instruction
            for instruction in self._by_name.values()
            if instruction.operation == "fusion"
            and (called := re.search(r"\bcalls=%?([\w.\-]+)", instruction.rest))
        }

    def instruction(self, name: str) -> Instruction | None:
        """The instruction called *name*, which is unique in a program."""
        return self._by_name.get(name)

    def operation_of(self, value: str) -> tuple[str, str]:
        """(JAX's name of the operation that makes *value*, "file:line"); "" where not known."""
        instruction = self._by_name.get(value.split("{")[0])
        if instruction is None:
            return "", ""
        metadata = self._metadata(instruction)
        name = re.search(r'op_name="([^"]*)"', metadata)
        frame = re.search(r"stack_frame_id=(\d+)", metadata)
        shown = name[1] if name else instruction.operation
        return _short(shown), self._source(int(frame[1])) if frame else ""

    def _metadata(self, instruction: Instruction) -> str:
        match = re.search(r"metadata=\{[^}]*\}", instruction.rest)
        if match:
            return match[0]
        called = re.search(r"\bcalls=%?([\w.\-]+)", instruction.rest)
        inner = self.computations.get(called[1], []) if called else []
        for candidate in reversed(inner):  # a fusion without a name has its root's
            match = re.search(r"metadata=\{[^}]*\}", candidate.rest)
            if match:
                return match[0]
        return ""

    def _source(self, frame: int) -> str:
        """The innermost of the user's own lines; else the innermost line of a library."""
        innermost = ""
        for _ in range(200):
            text = self._frames.get(frame, "")
            place = _number(text, "file_location_id")
            location = self._places.get(place, "")
            file = self._files.get(_number(location, "file_name_id"), "")
            if file:
                shown = f"{file}:{_number(location, 'line')}"
                if not self._own(file) and "site-packages" not in file:
                    return shown
                if not innermost and not self._own(file):
                    innermost = shown
            parent = _number(text, "parent_frame_id")
            if parent in (0, frame):
                break
            frame = parent
        return innermost

    def runs(self) -> Iterator[tuple[str, int, bool]]:
        """(computation, how often one run of the program executes it, whether that is certain)."""
        waiting = [(self.entry, 1, True)]
        for _ in range(100_000):  # calls form no cycles; a limit all the same
            if not waiting:
                return
            name, times, certain = waiting.pop()
            if name not in self.computations:
                continue
            yield name, times, certain
            for instruction in self.computations[name]:
                if instruction.operation in ("async-update", "async-done"):
                    continue  # the same computation as async-start's
                repeat: int | None = 1
                if instruction.operation == "while":
                    repeat = self._trips(instruction)
                for called in _CALLED.findall(instruction.rest):
                    inner = called.strip().lstrip("%")
                    waiting.append((inner, times * (repeat or 1), certain and repeat is not None))

    def _trips(self, loop: Instruction) -> int | None:
        """How often a loop runs: known, or its condition compares a counter with a constant."""
        known = re.search(r'known_trip_count"?:\{"n":"(\d+)"', loop.rest)
        if known:
            return int(known[1])
        condition = re.search(r"condition=%?([\w.\-]+)", loop.rest)
        body = self.computations.get(condition[1], []) if condition else []
        if not body:
            return None
        compared = [item for item in body if item.operation == "compare"]
        # A counter of 64 bits is two of 32: high < 0 or (high == 0 and low < limit).
        if body[-1].operation != "compare" and (body[-1].operation, len(compared)) != ("or", 3):
            return None
        limits = [
            (limit, item)
            for item in compared
            for name in operands_of(item)
            if "direction=LT" in item.rest and (limit := self._constant(name))
        ]
        if len(limits) != 1:
            return None
        limit, item = limits[0]
        return -(-limit // self._step(loop, operands_of(item)))

    def _constant(self, name: str) -> int | None:
        instruction = self._by_name.get(name)
        number = re.match(r"constant\((\d+)\)", instruction.rest) if instruction else None
        return int(number[1]) if number else None

    def _step(self, loop: Instruction, compared: list[str]) -> int:
        """What a loop adds to its counter each time: 2 where the compiler unrolled it twice."""
        called = re.search(r"\bbody=%?([\w.\-]+)", loop.rest)
        body = self.computations.get(called[1], []) if called else []
        counters = [
            int(index[1])
            for name in compared
            if (item := self._by_name.get(name)) and (index := re.search(r"index=(\d+)", item.rest))
        ]
        if len(counters) != 1 or not body or body[-1].operation != "tuple":
            return 1
        results = operands_of(body[-1])
        after = self._by_name.get(results[counters[0]]) if counters[0] < len(results) else None
        if after is None or after.operation != "add":
            return 1
        added = [step for name in operands_of(after) if (step := self._constant(name))]
        return added[0] if len(added) == 1 else 1


def operands_of(instruction: Instruction) -> list[str]:
    """The names of an instruction's operands."""
    start = instruction.rest.find("(")
    depth = 0
    for end in range(start, len(instruction.rest)):
        depth += {"(": 1, ")": -1}.get(instruction.rest[end], 0)
        if depth == 0:
            text = re.sub(r"/\*.*?\*/", "", instruction.rest[start + 1 : end])
            return re.findall(r"%([\w.\-]+)", text) or re.findall(r"[A-Za-z_][\w.\-]*", text)
    return []


def read_instruction(line: str) -> Instruction | None:
    """One instruction; None if the line is not one."""
    match = _INSTRUCTION.match(line)
    if not match:
        return None
    text = match[2]
    end = _shape_end(text)
    operation = _OPERATION.match(text[end:])
    if not operation:
        return None
    rest = text[end + operation.start(1) :]
    return Instruction(match[1], text[:end], operation[1], rest)


def _shape_end(text: str) -> int:
    """Where the result's shape ends: a tuple in brackets, or up to the first blank."""
    if not text.startswith("("):
        return text.find(" ") if " " in text else len(text)
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return position + 1
    return len(text)


def arrays_of(text: str) -> list[ArrayText]:
    """The arrays of a shape: one, or those of a tuple."""
    arrays = []
    for dtype, sizes, layout in _ARRAY.findall(text):
        name, bits = _dtype(dtype)
        if not name:
            continue
        shape = tuple(int(size) for size in sizes.split(",") if size)
        arrays.append(ArrayText(name, shape, layout, -(-prod(shape) * bits // 8)))
    return arrays


def _dtype(text: str) -> tuple[str, int]:
    if text in _DTYPES:
        return _DTYPES[text]
    small = re.fullmatch(r"f([48])(e\w+)", text)
    return (f"float{small[1]}_{small[2]}", int(small[1])) if small else ("", 0)


def _number(text: str, field: str) -> int:
    match = re.search(rf"\b{field}=(\d+)", text)
    return int(match[1]) if match else 0


def _short(name: str) -> str:
    """The operation without the wrappers that exporting added."""
    for wrapper in ("jit(call)/", "call_exported/", "jit(flat_program)/"):
        name = name.replace(wrapper, "")
    return name
