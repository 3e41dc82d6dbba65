"""JSON with comments, as in VS Code's files: where values stand, so that an edit keeps the rest.

The grammar is JSON's with ``//`` and ``/* */`` comments and a comma allowed after the last member
(https://code.visualstudio.com/docs/languages/json#_json-with-comments).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_DEPTH = 200  # of nesting; deeper is no settings file


class Malformed(ValueError):
    """The text is not JSON with comments; says where."""

    def __init__(self, what: str, text: str, at: int) -> None:
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"{what} (line {line}, column {column})")


@dataclass
class Part:
    """A value and where it stands: text[start:end]."""

    value: Any
    start: int
    end: int
    #: Of an object: its members (the last one of a name counts); of an array: its items.
    members: dict[str, Part] = field(default_factory=dict)
    items: list[Part] = field(default_factory=list)
    #: Where the last member or item ends, and whether a comma follows it.
    last: int | None = None
    comma: bool = False


def parse(text: str) -> Part:
    """The whole text as one value; raises :class:`Malformed`."""
    part = _value(text, _skip(text, 0), 0)
    rest = _skip(text, part.end)
    if rest != len(text):
        raise Malformed("something follows the end", text, rest)
    return part


def _skip(text: str, at: int) -> int:
    match = _SKIPPED.match(text, at)
    assert match is not None  # it matches the empty string, too
    return match.end()


def _value(text: str, at: int, depth: int) -> Part:
    if depth > _DEPTH:
        raise Malformed("too many levels", text, at)
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, depth)
    match = _STRING.match(text, at) or _PLAIN.match(text, at)
    if match is None:
        raise Malformed("a value is missing" if opening in "]},:" else "no value", text, at)
    try:
        return Part(json.loads(match.group()), at, match.end())
    except ValueError:
        raise Malformed("a string has a wrong escape", text, at) from None


def _container(text: str, start: int, depth: int) -> Part:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    part = Part({} if is_object else [], start, start)
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        if part.last is not None and not part.comma:
            raise Malformed(f'"," or "{closing}" is missing', text, at)
        if is_object:
            key = _STRING.match(text, at)
            if key is None:
                raise Malformed(f'a name or "{closing}" is missing', text, at)
            at = _skip(text, key.end())
            if text[at : at + 1] != ":":
                raise Malformed('":" is missing', text, at)
            member = _value(text, _skip(text, at + 1), depth + 1)
            try:
                name = json.loads(key.group())
            except ValueError:
                raise Malformed("a name has a wrong escape", text, key.start()) from None
            part.members[name] = member
            part.value[name] = member.value
        else:
            member = _value(text, at, depth + 1)
            part.items.append(member)
            part.value.append(member.value)
        part.last = member.end
        at = _skip(text, member.end)
        part.comma = text[at : at + 1] == ","
        if part.comma:
            at = _skip(text, at + 1)
    part.end = at + 1
    return part


def insertion(text: str, part: Part, added: list[str], indent: str, newline: str) -> str:
    """*text* with *added* (values, or ``"name": value``) behind the last of *part*'s.

    Each goes on lines of its own, indented by *indent*; comments behind the last one stay there.
    """
    closing = part.end - 1
    line = text.rfind("\n", 0, closing)
    if line >= 0 and not text[line:closing].strip():
        content_end = line - (text[line - 1 : line] == "\r")  # the line before may be a comment
    else:
        content_end = len(text[:closing].rstrip())
    outer = newline + _indent_of(text, part.start)
    inserted = ",".join(newline + _indented(each, indent, newline) for each in added)
    result = text[:content_end] + inserted + outer + text[closing:]
    if part.last is not None and not part.comma:
        result = result[: part.last] + "," + result[part.last :]
    return result


def _indented(value: str, indent: str, newline: str) -> str:
    return newline.join(indent + line for line in value.splitlines())


def _indent_of(text: str, at: int) -> str:
    """The white space that the line of *at* begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
