"""Parts of sentences: lists, and numbers with their nouns."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Colours, which are left out; characters that a terminal obeys, or that turn the text around.
_UNPRINTABLE = re.compile(
    r"\x1b\[[\d;:]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """*text* of a host for a terminal or a log: what it would obey is written as ``\\u001b``.

    In JSON that means the same character.
    """
    return _UNPRINTABLE.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    return "" if len(match[0]) > 1 else f"\\u{ord(match[0]):04x}"


def phrase(text: str) -> str:
    """*text*. Marks a text that is no sentence, so that the catalogues have it, too."""
    return text


def count(number: int, what: str) -> str:
    """ "1 host", "2 hosts"; *what* has an s where there are several."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def each_of(number: int, what: str) -> str:
    """ "the host" of one, "each of 2 hosts"."""
    return f"the {what}" if number == 1 else f"each of {count(number, what)}"


def first_sentence(text: str) -> str:
    """The first line of *text* up to the end of its first sentence."""
    line = text.strip().partition("\n")[0]
    head, dot, _ = line.partition(". ")
    return head + dot.strip()


def age_text(seconds: float) -> str:
    """ "5 minutes", "2 days": how long something has lasted, rounded down."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return count(int(seconds // length), unit)
    return count(int(seconds), "second")


def container_text(id: str) -> str:
    """A container by its id; "?": one whose id is not known."""
    return "a container" if id == "?" else f"the container {id}"


def hosts_text(hosts: Sequence[int]) -> str:
    """ "host 1", "hosts 1, 2"."""
    return f"host{'s' if len(hosts) > 1 else ''} {', '.join(map(str, hosts))}"


def other_hosts(number: int, has: str, have: str) -> str:
    """ " The other host has it." or " The other 3 hosts have it."; "" without others."""
    if not number:
        return ""
    return f" The other {f'host {has}' if number == 1 else f'{number} hosts {have}'}."


def size_text(size: float) -> str:
    """ "3 MB"."""
    if size == 1:
        return "1 byte"
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
