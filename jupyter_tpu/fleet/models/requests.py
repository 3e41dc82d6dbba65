"""From a request's body to its model, or one clear sentence about what is wrong with it."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ...errors import InvalidInput, TPUError

T = TypeVar("T", bound=msgspec.Struct)


def parse_request(model: type[T], body: bytes) -> T:
    """*body* (JSON) as a *model*; an empty body is the one with all defaults.

    Raises TPUError (INVALID) that names the field.
    """
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=model)
    except msgspec.ValidationError as error:
        raise _invalid(model, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput("The body is not valid JSON.") from None


def parse_query(model: type[T], values: Mapping[str, str | None]) -> T:
    """The values of a URL's query as a *model*; raises TPUError (INVALID) that names the field."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return msgspec.convert(given, model, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(model, error) from None


def validated(request: T) -> T:
    """The same request with its constraints enforced, for callers that built it in Python."""
    try:
        return msgspec.convert(msgspec.to_builtins(request), type(request))
    except msgspec.ValidationError as error:
        raise _invalid(type(request), error) from None


def _invalid(model: type[msgspec.Struct], error: msgspec.ValidationError) -> TPUError:
    what, _, place = str(error).partition(" - at `")
    of_key = place.startswith("key` in ")
    field = place.partition("$")[2].strip("`.")
    where = f"{field}." if field else ""
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        return InvalidInput(f"The field {where}{missing[1]} is missing.", field=missing[1])
    if unknown := re.match(r"Object contains unknown field `(\w+)`", what):
        return InvalidInput(f"The field {where}{unknown[1]} does not exist.")
    if not field:
        return InvalidInput(f"The body is not a {model.__name__}: {_lower(what)}.")
    meaning = _description(model, field, of_key=of_key) if "matching regex" in what else ""
    if meaning:
        subject = f"A name in {field}" if of_key else f"The {field}"
        sentence = f"{subject} is not allowed: it must be {meaning}."
    else:
        sentence = f"The field {field} is wrong: {_lower(what)}."
    return InvalidInput(sentence, field=field.rpartition(".")[2].partition("[")[0])


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _description(model: Any, path: str, *, of_key: bool) -> str:
    """The description in the annotation of a field, or of its keys; "" if there is none."""
    hint: Any = model
    for part in path.split("."):
        structs = [m for m in (hint, *typing.get_args(hint)) if _is_struct(m)]
        if not structs:
            return ""
        hint = typing.get_type_hints(structs[0], include_extras=True).get(part.split("[")[0])
    if of_key:
        hint = typing.get_args(hint)[0]
    metas = [
        meta
        for each in (hint, *typing.get_args(hint))  # also of an optional one
        for meta in getattr(each, "__metadata__", ())
        if isinstance(meta, msgspec.Meta)
    ]
    return (metas[0].description or "") if metas else ""


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
