"""Which hosts of a TPU a text means, and whether a TPU has them."""

from __future__ import annotations

import re

from ...cloud import Node
from ...errors import InvalidInput, Reason
from ...links import no_such_host


def host_numbers(text: str, count: int, tpu: str) -> list[int]:
    """The hosts that "all", "0" or "0,2-5" means, each once and in order.

    count: how many hosts *tpu* has. Raises INVALID for anything else, and for a host that it has
    not got.
    """
    if text.strip() == "all":
        return list(range(count))
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part)
        if match is None:
            raise InvalidInput(f"{text!r} does not say which hosts.", 'Write "all", 0 or 0,2-5.')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InvalidInput(f"{part.strip()} is not a range of hosts.", "Write 2-5, not 5-2.")
        if last >= count:
            raise no_such_host(tpu, last, count)
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def host_number(text: str, count: int, tpu: str) -> int:
    """One host's number in a path; raises NOT_FOUND if *tpu*, which has *count*, lacks it."""
    number = small_number(text)
    if number is None or number >= count:
        raise no_such_host(tpu, text[:20], count, Reason.NOT_FOUND)
    return number


def check_host(node: Node, host: int) -> None:
    """Raises INVALID for a host that the TPU does not have."""
    if not 0 <= host < len(node.endpoints):
        raise no_such_host(node.name.node, host, len(node.endpoints))


def small_number(text: str) -> int | None:
    """The number that up to six digits are; None for other text."""
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else None


def host_ranges(hosts: list[int]) -> str:
    """The inverse for numbers in order: "0,2-5"."""
    ranges: list[list[int]] = []
    for host in hosts:
        if ranges and ranges[-1][1] == host - 1:
            ranges[-1][1] = host
        else:
            ranges.append([host, host])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
