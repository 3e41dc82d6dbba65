"""Hosts in words, and words as hosts."""

from __future__ import annotations

from typing import FrozenSet, Iterable, List


def sentence(text: str) -> str:
    """*text* with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def host_ranges(hosts: Iterable[int]) -> str:
    """ "host 3", "hosts 0-2, 5"."""
    numbers = sorted(hosts)
    parts: List[List[int]] = []
    for number in numbers:
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
    return "host%s %s" % ("" if len(numbers) == 1 else "s", ", ".join(texts))


def parse_hosts(text: str, hosts: int) -> FrozenSet[int]:
    """The hosts in "0,3-5"; raises ValueError with a sentence for what is none."""
    chosen = set()
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(
                "%r does not name hosts. Write for example 2, or 0,3-5." % text.strip()
            )
        begin, end = int(first), int(last or first)
        if begin > end or end >= hosts:
            raise ValueError("The hosts are 0 to %d, and %r names others." % (hosts - 1, part))
        chosen |= set(range(begin, end + 1))
    return frozenset(chosen)
