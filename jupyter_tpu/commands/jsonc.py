"""JSON with comments, as in VS Code's files: where each value is, so that an edit keeps the rest.

Comments and the comma that may follow the last member become spaces. The rest is JSON, with every
value where it was (https://code.visualstudio.com/docs/languages/json#_json-with-comments).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENTS = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf'{_STRING}|(?<=[\]}}"\w])\s*,(?=\s*[\]}}])')
_SPACE = re.compile(r"[\s:,]*")


class Part(NamedTuple):
    """A value and where it is: text[start:end]; *name* is that of an object's member."""

    value: Any
    start: int
    end: int
    name: str = ""


def parse(text: str) -> Part:
    """The whole text as one value. Raises ValueError, which says where the text is wrong."""
    plain = _plain(text)
    try:
        value = json.loads(plain)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return Part(value, len(plain) - len(plain.lstrip()), len(plain.rstrip()))


def parts(text: str, whole: Part) -> list[Part]:
    """The members of an object, or the items of an array, of a text that was parsed."""
    plain, decode = _plain(text), json.JSONDecoder().raw_decode
    members = []
    at = _skip(plain, whole.start + 1)
    while at < whole.end - 1:
        name = ""
        if isinstance(whole.value, dict):
            name, at = decode(plain, at)
            at = _skip(plain, at)
        value, end = decode(plain, at)
        members.append(Part(value, at, end, name))
        at = _skip(plain, end)
    return members


def insert(text: str, whole: Part, added: str, indent: str, newline: str) -> str:
    """*text* with *added* (a value, or ``"name": value``) after the last part of *whole*.

    It is on lines of its own, indented by *indent*. Comments after the last part stay there.
    """
    closing = whole.end - 1
    line = text.rfind("\n", 0, closing)
    if line >= 0 and not text[line:closing].strip():
        content_end = line - (text[line - 1 : line] == "\r")  # the line before may be a comment
    else:
        content_end = len(text[:closing].rstrip())
    inserted = "".join(newline + indent + line for line in added.splitlines())
    outer = newline + indent_at(text, whole.start)
    result = text[:content_end] + inserted + outer + text[closing:]
    there = parts(text, whole)
    if there and "," not in _blank(_COMMENTS, text)[there[-1].end : closing]:
        result = result[: there[-1].end] + "," + result[there[-1].end :]
    return result


def indent_at(text: str, at: int) -> str:
    """The white space that the line of *at* begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _plain(text: str) -> str:
    return _blank(_LAST_COMMAS, _blank(_COMMENTS, text))


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """*text* with spaces in place of what *pattern* finds, except strings and line breaks."""
    return pattern.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\r\n]", " ", m[0]), text)


def _skip(plain: str, at: int) -> int:
    match = _SPACE.match(plain, at)
    assert match is not None  # it also matches the empty string
    return match.end()
