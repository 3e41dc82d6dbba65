"""What a list shows: gcloud's `--filter`, `--sort-by` and names of fields, for any models."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidInput

_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\[\d*\])*(?:\.[A-Za-z_][\w-]*(?:\[\d*\])*)*")
_PART = re.compile(r"[A-Za-z_][\w-]*|\[\d*\]")
_TERM = re.compile(r"\s*(-?)(" + _PATH.pattern + r")\s*(!=|>=|<=|!~|=|<|>|~|:)\s*")
_VALUE = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s()"']+))""")
_WORD = re.compile(r"\s*(AND|OR|NOT)\b")
_HINT = "Write it as gcloud has it, such as: state=READY AND (zone:us-* OR chips>8)"

Test = Callable[[Any], bool]


# ---- fields --------------------------------------------------------------------------------------


class FieldPath(NamedTuple):
    """A field, also of a field: `cost.usd_per_hour`, `hosts[0].external_address`, `tags[]`."""

    text: str

    def of(self, item: Any) -> Any:
        """Its value, None if there is none; raises INVALID if a model has no such field."""
        values, several = [item], False
        for part in _PART.findall(self.text):
            if part == "[]":
                values = [element for value in values for element in _elements(value)]
                several = True
            elif part[0] == "[":
                values = [_at(value, int(part[1:-1])) for value in values]
            else:
                values = [self._field(value, part) for value in values]
        return [value for value in values if value is not None] if several else values[0]

    def _field(self, value: Any, name: str) -> Any:
        if value is None:
            return None
        if isinstance(value, Mapping):
            return value.get(name)
        fields = _fields(value)
        own = fields.get(_plain(name))
        if own is None:
            raise InvalidInput(f"There is no field {self.text}.", _known(fields.values()))
        return getattr(value, own)


def path(text: str) -> FieldPath:
    """The field that *text* names; raises INVALID if there is none."""
    if not _PATH.fullmatch(text):
        raise InvalidInput(
            f"{text!r} is not the name of a field.", "Such as name, or hosts[0].external_address."
        )
    return FieldPath(text)


def field_names(item: Any) -> list[str]:
    """The fields of a model that are plain values: text, numbers, yes or no."""
    if isinstance(item, Mapping):
        return list(item)
    from msgspec import inspect

    def is_plain(kind: Any) -> bool:
        while isinstance(kind, inspect.Metadata):
            kind = kind.type
        if isinstance(kind, inspect.UnionType):
            return all(
                is_plain(type_) or isinstance(type_, inspect.NoneType) for type_ in kind.types
            )
        return isinstance(kind, plain)

    plain = (
        inspect.StrType,
        inspect.IntType,
        inspect.FloatType,
        inspect.BoolType,
        inspect.LiteralType,
        inspect.EnumType,
    )
    info: Any = inspect.type_info(type(item))
    return [field.name for field in info.fields if is_plain(field.type)]


def _fields(item: Any) -> dict[str, str]:
    """By their names without _ and capitals: `usdPerHour` is as good as `usd_per_hour`."""
    return {_plain(name): name for name in getattr(item, "__struct_fields__", ())}


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _known(names: Any) -> str:
    return f"Its fields: {', '.join(names)}." if names else ""


def _elements(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _at(value: Any, index: int) -> Any:
    elements = _elements(value)
    return elements[index] if index < len(elements) else None


# ---- order ---------------------------------------------------------------------------------------


def sorted_by(items: Sequence[Any], keys: str) -> list[Any]:
    """In the order of the fields *keys*, with commas between them; ~FIELD is descending. What has
    no value comes last.
    """
    result = list(items)
    for key in reversed([key.strip() for key in keys.split(",")]):
        field, descending = path(key.removeprefix("~")), key.startswith("~")
        there = [item for item in result if field.of(item) is not None]
        there.sort(key=lambda item: _order(field.of(item)), reverse=descending)
        result = there + [item for item in result if field.of(item) is None]
    return result


def _order(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, (int, float)) else (1, as_text(value))


# ---- filters -------------------------------------------------------------------------------------


def parse_filter(text: str) -> Test:
    """What an item must fulfil; raises INVALID for what is not understood."""
    parser = _Parser(text)
    test = parser.expression()
    if parser.rest():
        raise parser.error()
    return test


class _Parser:
    """gcloud's grammar: KEY OPERATOR VALUE, AND, OR, NOT and parentheses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def error(self) -> InvalidInput:
        rest = self.rest()
        where = f"at {rest[:40]!r}" if rest else "at its end"
        return InvalidInput(f"--filter is not understood {where}.", _HINT)

    def expression(self) -> Test:
        tests, joins = [self._operand()], set()
        while (rest := self.rest()) and not rest.startswith(")"):
            if self._word("OR"):
                joins.add("OR")
            else:
                joins.add("AND")
                self._word("AND")  # or nothing, which means the same
            tests.append(self._operand())
        if len(joins) > 1:
            raise InvalidInput(
                "--filter has AND and OR without parentheses.", "Write: (A OR B) AND C"
            )
        combine = any if joins == {"OR"} else all
        return lambda item: combine(test(item) for test in tests)

    def _operand(self) -> Test:
        if self._word("NOT"):
            return _negated(self._operand())
        if self.rest().startswith("("):
            self._at = self._text.index("(", self._at) + 1
            test = self.expression()
            if not self.rest().startswith(")"):
                raise self.error()
            self._at = self._text.index(")", self._at) + 1
            return test
        match = _TERM.match(self._text, self._at)
        if match is None:
            raise self.error()
        self._at = match.end()
        test = _term(FieldPath(match[2]), match[3], [*self._values()])
        return _negated(test) if match[1] else test

    def _values(self) -> Iterator[str]:
        if not self.rest().startswith("("):
            yield self._value()
            return
        self._at = self._text.index("(", self._at) + 1
        while not self.rest().startswith(")"):
            yield self._value()
            self._word("OR")
        self._at = self._text.index(")", self._at) + 1

    def _value(self) -> str:
        match = _VALUE.match(self._text, self._at)
        if match is None:
            raise self.error()
        self._at = match.end()
        quoted = match[1] if match[1] is not None else match[2]
        return match[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)

    def _word(self, word: str) -> bool:
        match = _WORD.match(self._text, self._at)
        if match is None or match[1] != word:
            return False
        self._at = match.end()
        return True


def _negated(test: Test) -> Test:
    return lambda item: not test(item)


_NUMBERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _term(key: FieldPath, operation: str, patterns: Sequence[str]) -> Test:
    if operation in ("!=", "!~"):
        return _negated(_term(key, operation[1:], patterns))
    if operation == "~":
        try:
            expressions = [re.compile(pattern) for pattern in patterns]
        except re.error as error:
            raise InvalidInput(f"--filter has a wrong regular expression: {error}.") from None
        return lambda item: any(
            expression.search(text) for text in _texts(key.of(item)) for expression in expressions
        )
    matches = {"=": _equals, ":": _contains}.get(operation) or _comparison(_NUMBERS[operation])
    return lambda item: any(matches(key.of(item), pattern) for pattern in patterns)


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, str], bool]:
    def matches(value: Any, pattern: str) -> bool:
        for text in _texts(value):
            numbers = _number(text), _number(pattern)
            if compare(*numbers) if None not in numbers else compare(text, pattern):
                return True
        return False

    return matches


def _equals(value: Any, pattern: str) -> bool:
    number = _number(pattern)
    return any(
        text.lower() == pattern.lower() or (number is not None and _number(text) == number)
        for text in _texts(value) or [""]
    )


def _contains(value: Any, pattern: str) -> bool:
    """`:` of gcloud: the text is in it, in any case; WORD* begins a word of it; * is anything."""
    texts = [text.lower() for text in _texts(value)]
    lowered = pattern.lower()
    if lowered == "*":
        return any(texts)
    if lowered.endswith("*"):
        begin = lowered.rstrip("*")
        return any(
            text.startswith(begin) or re.search(rf"\b{re.escape(begin)}", text) for text in texts
        )
    return any(lowered in text for text in texts)


def _texts(value: Any) -> list[str]:
    """Its values as text: of a list each, of a dictionary its keys."""
    if value is None:
        return []
    values = list(value) if isinstance(value, (list, tuple, Mapping)) else [value]
    return [as_text(value) for value in values]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def as_text(value: Any) -> str:
    """A field's value in `csv` and `value`, as gcloud writes it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)  # of an enumeration its value
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ";".join(as_text(item) for item in value)
    if isinstance(value, Mapping):
        return ";".join(f"{key}={as_text(item)}" for key, item in value.items())
    import msgspec

    return msgspec.json.encode(value).decode()
