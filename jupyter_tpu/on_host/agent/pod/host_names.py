"""The names of hosts, for people and as people type them.

Hosts are numbered through all slices. A kernel on several slices (`PodSlices.sizes`) says "host 0
of slice 1"; in a cell you type 1.0.
"""

from __future__ import annotations

from typing import ClassVar, Dict, FrozenSet, Iterable, List, Tuple


class PodSlices:
    """Those of the pod kernel of this process: the hosts of each, in order; []: there is one."""

    sizes: ClassVar[List[int]] = []
    coordinator: ClassVar[str] = ""  # the address of the first host of slice 0


def sentence(text: str) -> str:
    """*text* with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def slice_of(host: int) -> "Tuple[int, int]":
    """A host's slice, and its number there."""
    for number, size in enumerate(PodSlices.sizes):
        if host < size:
            return number, host
        host -= size
    return 0, host


def host_ranges(hosts: Iterable[int]) -> str:
    """ "host 3", "hosts 0-2, 5"; with slices "hosts 0-1 of slice 0, host 1 of slice 1"."""
    if not PodSlices.sizes:
        return number_ranges("host", hosts)
    slices: Dict[int, List[int]] = {}
    for host in hosts:
        number, within = slice_of(host)
        slices.setdefault(number, []).append(within)
    parts = ["%s of slice %d" % (number_ranges("host", slices[key]), key) for key in sorted(slices)]
    return ", ".join(parts) or "no hosts"


def number_ranges(word: str, numbers: Iterable[int]) -> str:
    """ "host 3", "hosts 0-2, 5": of any things with numbers."""
    ordered = sorted(numbers)
    parts: List[List[int]] = []
    for number in ordered:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    texts = [
        "%d" % part[0]
        if len(part) == 1
        else "%d%s%d" % (part[0], "-" if len(part) > 2 else ", ", part[-1])
        for part in parts
    ]
    return "%s%s %s" % (word, "" if len(ordered) == 1 else "s", ", ".join(texts))


def parse_hosts(text: str, hosts: int) -> FrozenSet[int]:
    """The hosts in "0,3-5", or with slices in "0.0,1.0-1"; raises ValueError with a sentence for
    what is none.
    """
    chosen = set()
    for part in text.replace(" ", "").split(","):
        prefix, dot, numbers = part.rpartition(".")
        first, dash, last = numbers.partition("-")
        if (
            not first.isdecimal()
            or (dash and not last.isdecimal())
            or bool(dot) != bool(PodSlices.sizes)
            or (dot and not prefix.isdecimal())
        ):
            example = (
                "0.1, or 0.0,1.0-3 (slice 1, hosts 0 to 3)" if PodSlices.sizes else "2, or 0,3-5"
            )
            raise ValueError("%r does not name hosts. Write for example %s." % (text, example))
        begin, end = int(first), int(last or first)
        offset, size = 0, hosts
        if dot:
            if int(prefix) >= len(PodSlices.sizes):
                raise ValueError(
                    "The slices are 0 to %d, and %r names others."
                    % (len(PodSlices.sizes) - 1, part)
                )
            offset, size = sum(PodSlices.sizes[: int(prefix)]), PodSlices.sizes[int(prefix)]
        if begin > end or end >= size:
            of_slice = " of slice %s" % prefix if dot else ""
            raise ValueError(
                "The hosts%s are 0 to %d, and %r names others." % (of_slice, size - 1, part)
            )
        chosen |= set(range(offset + begin, offset + end + 1))
    return frozenset(chosen)
