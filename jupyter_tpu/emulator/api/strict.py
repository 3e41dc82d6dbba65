"""JSON into messages as Google's front end does it: what it does not know, it refuses.

Every field is checked, and all that is wrong is said at once, in Google's words and as
google.rpc.BadRequest. Fields that only the service sets are skipped when they are sent (AIP-203).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.protobuf import duration_pb2, field_mask_pb2, json_format, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor as Field

from ..model import api_errors

Violation = tuple[str, str]  # the path of what is wrong, and what is wrong there

_NUMBERS = {
    Field.TYPE_INT32: "TYPE_INT32",
    Field.TYPE_INT64: "TYPE_INT64",
    Field.TYPE_UINT32: "TYPE_UINT32",
    Field.TYPE_UINT64: "TYPE_UINT64",
}
_URL = "type.googleapis.com/"
_UNKNOWN = "Invalid JSON payload received. Unknown name"


def fill(message: Any, body: Any, path: str, pool: Any) -> None:
    """Puts the JSON *body* into *message*, which is at *path* of the request ("" for all of it).

    Raises ApiError INVALID_ARGUMENT, which names all that is wrong.
    """
    violations = list(_check_message(body, message.DESCRIPTOR, path))
    if violations:
        raise api_errors.invalid_payload(violations)
    try:
        json_format.ParseDict(body, message, descriptor_pool=pool)
    except (json_format.ParseError, ValueError) as error:
        text = f"Invalid JSON payload received. {error}"
        raise api_errors.invalid_payload([(path, text)]) from None


def fill_from_query(message: Any, query: list[tuple[str, str]]) -> None:
    """Puts the parameters of a URL into *message*; ApiError for one that is no field of it."""
    fields = _fields(message.DESCRIPTOR)
    violations: list[Violation] = []
    for name, value in query:
        field = fields.get(name)
        if name.startswith("$") or name in _SYSTEM_PARAMETERS:
            continue
        if field is None:
            text = f"Cannot bind query parameter. Field '{name}' could not be found in request"
            violations.append((name, f'{_UNKNOWN} "{name}": {text} message.'))
            continue
        try:
            json_format.ParseDict({name: _from_text(field, value)}, message)
        except (json_format.ParseError, ValueError):
            kind = _kind(field)
            violations.append((name, f"Invalid value at '{_snake(field)}' ({kind}), \"{value}\""))
    if violations:
        raise api_errors.invalid_payload(violations)


#: What Google's front end takes with every call (cloud.google.com/apis/docs/system-parameters).
_SYSTEM_PARAMETERS = (
    *("access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint"),
    *("quotaUser", "trace", "upload_protocol", "uploadType"),
)


def _from_text(field: Any, value: str) -> Any:
    if field.type == Field.TYPE_BOOL and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return [value] if _is_repeated(field) else value


def _check_message(value: Any, descriptor: Any, path: str) -> Iterator[Violation]:
    if descriptor.full_name.startswith("google.protobuf."):
        yield from _check_well_known(value, descriptor, path)
        return
    if not isinstance(value, dict):
        yield path, _invalid(path, _URL + descriptor.full_name, value)
        return
    fields, choices = _fields(descriptor), set()
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            at = f" at '{path}'" if path else ""
            yield path, f'{_UNKNOWN} "{name}"{at}: Cannot find field.'
            continue
        if item is None:
            continue
        if (oneof := field.containing_oneof) is not None:
            if oneof.name in choices:
                text = f"oneof field '{oneof.name}' is already set. Cannot set '{name}'"
                yield path, f"Invalid value at '{path}' (oneof), {text}"
                continue
            choices.add(oneof.name)
        yield from _check_field(item, field, f"{path}.{_snake(field)}".lstrip("."))


def _check_field(value: Any, field: Any, path: str) -> Iterator[Violation]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, dict):
            yield path, _invalid(path, "Map", value)
            return
        kind = field.message_type.fields_by_name["value"]
        for name, item in value.items():
            yield from _check_value(item, kind, f"{path}[{name}]")
    elif _is_repeated(field):
        items = value if isinstance(value, list) else [value]
        for number, item in enumerate(items):
            yield from _check_value(item, field, f"{path}[{number}]")
    elif isinstance(value, list):
        at, _, name = path.rpartition(".")
        text = "Proto field is not repeating, cannot start list."
        yield at, f'{_UNKNOWN} "{name}"' + (f" at '{at}'" if at else "") + f": {text}"
    else:
        yield from _check_value(value, field, path)


def _check_value(value: Any, field: Any, path: str) -> Iterator[Violation]:
    if field.type == Field.TYPE_MESSAGE:
        yield from _check_message(value, field.message_type, path)
        return
    if field.type == Field.TYPE_STRING:
        fits = isinstance(value, str)
    elif field.type == Field.TYPE_BOOL:
        fits = isinstance(value, bool)
    elif field.type == Field.TYPE_ENUM:
        known = value in field.enum_type.values_by_name if isinstance(value, str) else False
        fits = known or (isinstance(value, int) and not isinstance(value, bool))
    else:
        text = value if isinstance(value, str) else str(value)
        fits = not isinstance(value, bool) and text.lstrip("-").isdecimal()
    if not fits:
        yield path, _invalid(path, _kind(field), value)


def _check_well_known(value: Any, descriptor: Any, path: str) -> Iterator[Violation]:
    for module in (duration_pb2, field_mask_pb2, timestamp_pb2):
        if (kind := getattr(module, descriptor.name, None)) is None:
            continue
        try:
            json_format.ParseDict(value, kind())
        except (json_format.ParseError, ValueError, TypeError, AttributeError):
            yield path, _invalid(path, _URL + descriptor.full_name, value)


def _fields(descriptor: Any) -> dict[str, Any]:
    """By the names that JSON may have: camelCase, or as in the .proto file."""
    fields = {_snake(field): field for field in descriptor.fields}
    return fields | {field.json_name: field for field in descriptor.fields}


def _is_repeated(field: Any) -> bool:
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == Field.LABEL_REPEATED)  # protobuf before 6


def _snake(field: Any) -> str:
    """The field's name in the .proto file; Python's client calls `type` ``type_``."""
    return str(field.name).rstrip("_")


def _kind(field: Any) -> str:
    if field.type == Field.TYPE_ENUM:
        return _URL + str(field.enum_type.full_name)
    names = {**_NUMBERS, Field.TYPE_STRING: "TYPE_STRING", Field.TYPE_BOOL: "TYPE_BOOL"}
    return names.get(field.type, "value")


def _invalid(path: str, kind: str, value: Any) -> str:
    shown = json.dumps(value) if not isinstance(value, dict | list) else "Starting an object"
    return f"Invalid value at '{path}' ({kind}), {shown}"
