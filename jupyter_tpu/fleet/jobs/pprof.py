"""Reads memory profiles that `jax.profiler.device_memory_profile` makes, without Go's pprof.

Source of the format: github.com/google/pprof/blob/main/proto/profile.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from ...bounds import inflate
from ...errors import InvalidInput
from ...on_host.agent.metrics import protobuf
from ..models import MemoryLine, MemoryProfile

#: Longest profile, not compressed, bytes.
LARGEST_PROFILE_BYTES = 256 << 20
#: Folders of Python, of what is installed, and of our agent; the other lines are the user's.
_LIBRARY = re.compile(
    r"[/\\]((site|dist)-packages|lib[/\\]python3[^/\\]*|jupyter_tpu_(agent|on_host))[/\\]|^<|^$"
)
#: Deepest tree: a recursive program's is cut.
_DEEPEST_LEVEL = 60


@dataclass
class _Node:
    """A line as it was called by the lines above it."""

    bytes: int = 0
    count: int = 0
    calls: dict[tuple[str, str, int], _Node] = field(default_factory=dict)


def read_memory_profile(data: bytes, cells: Mapping[str, int] | None = None) -> MemoryProfile:
    """What a profile says, as lines of the user's program.

    data: compressed or not. cells: the numbers of a notebook's cells, by the names of their files.
    Raises INVALID for what is not a profile with sizes in bytes.
    """
    try:
        return _read(_uncompressed(data), cells or {})
    except (ValueError, IndexError, KeyError, OSError, EOFError) as error:
        raise InvalidInput(
            f"This is not a memory profile in the format of pprof: {error}.",
            "jax.profiler.save_device_memory_profile(FILE) writes one.",
        ) from None


def _uncompressed(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    return inflate(data, LARGEST_PROFILE_BYTES, gzip=True)


def _read(data: bytes, cells: Mapping[str, int]) -> MemoryProfile:
    fields = protobuf.decode(data)
    texts = [
        label.decode("utf-8", "replace") for label in fields.get(6, []) if isinstance(label, bytes)
    ]
    units = [texts[protobuf.integer(message, 2)] for message in protobuf.messages(fields, 1)]
    if "bytes" not in units:
        raise ValueError("it has no sizes")
    size_at = units.index("bytes")
    functions = {
        protobuf.integer(message, 1): (
            texts[protobuf.integer(message, 2)],
            texts[protobuf.integer(message, 4)],
        )
        for message in protobuf.messages(fields, 5)
    }
    places = {
        protobuf.integer(message, 1): [
            (*functions[protobuf.integer(line, 1)], protobuf.integer(line, 2))
            for line in protobuf.messages(message, 4)
        ]
        for message in protobuf.messages(fields, 4)
    }
    profile = MemoryProfile()
    root = _Node()
    for sample in protobuf.messages(fields, 2):
        values = protobuf.numbers(sample, 2)
        size, count = values[size_at], values[units.index("count")] if "count" in units else 1
        labels = {
            texts[protobuf.integer(message, 1)]: texts[protobuf.integer(message, 2)]
            for message in protobuf.messages(sample, 3)
        }
        kind = labels.get("kind", "buffer")
        table = profile.devices if kind == "buffer" else profile.others
        name = labels.get("device", "") if kind == "buffer" else kind
        table[name] = table.get(name, 0) + size
        profile.bytes += size
        # The innermost is first, also where lines were inlined.
        stack = [line for id in protobuf.numbers(sample, 1) for line in places[id]]
        node = root
        for line in [None, *_own_lines(stack[::-1])]:
            if line is not None:
                node = node.calls.setdefault(line, _Node())
            node.bytes += size
            node.count += count
    profile.lines = list(_lines(root, cells))
    return profile


def _own_lines(stack: list[tuple[str, str, int]]) -> Iterator[tuple[str, str, int]]:
    """The user's lines, from the outermost to the innermost; the last one if there is none."""
    own = [line for line in stack if not _LIBRARY.search(line[1])]
    yield from (own or stack[-1:])[:_DEEPEST_LEVEL]


def _lines(node: _Node, cells: Mapping[str, int]) -> Iterator[MemoryLine]:
    """Without those that have only programs of no size."""
    for (function, file, number), allocation in sorted(
        node.calls.items(), key=lambda item: (-item[1].bytes, item[0])
    ):
        if allocation.bytes:
            where = f"In[{cells[file]}]" if file in cells else PurePath(file).name
            yield MemoryLine(
                line=f"{where}:{number}",
                function="" if function.startswith("<") else function,
                file=file,
                bytes=allocation.bytes,
                count=allocation.count,
                calls=list(_lines(allocation, cells)),
            )
