"""Options that are fields of a request, made from what is declared there (see `..options`); and the
files that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .. import local_files
from ..errors import InvalidInput
from .grammar import LazyOptions, mark
from .parameters import complete_environment, complete_type, complete_version, complete_zone
from .times import deadline, duration, limit, seconds

if TYPE_CHECKING:
    from msgspec.inspect import Field

    from ..cloud import DataDisk
    from ..options import Option

F = TypeVar("F", bound=Callable[..., Any])

_COMPLETERS = {
    "environment": complete_environment,
    "type": complete_type,
    "version": complete_version,
    "zones": complete_zone,
}


def options_of(model: str, *fields: str, into: str = "fields") -> Callable[[F], F]:
    """The options for some *fields* of a *model* in `fleet.models`, or for all that are options.

    The command gets the given ones as the dictionary *into*, for the model's constructor.
    """

    def make() -> list[click.Option]:
        from msgspec.inspect import type_info

        from ..fleet import models

        info: Any = type_info(getattr(models, model))
        declared = {field.name: field for field in info.fields}
        names = fields or [name for name, field in declared.items() if _declared(field)]
        return [_option(declared[name], into) for name in names]

    return click.option(f"--{into}", cls=LazyOptions, make=make)


def _declared(field: Field) -> Option | None:
    extra: dict[str, Any] | None = getattr(field.type, "extra", None)
    return extra.get("option") if extra else None


def _option(field: Field, into: str) -> click.Option:
    from msgspec import NODEFAULT, inspect

    declared = _declared(field)
    assert declared is not None, field.name
    kind: Any = field.type.type  # type: ignore[attr-defined]
    if isinstance(kind, inspect.UnionType):  # with None
        kind = next(type_ for type_ in kind.types if not isinstance(type_, inspect.NoneType))
    names = declared.names or (f"--{field.name.replace('_', '-')}",)
    parse, hint = _PARSERS[declared.typed], declared.typing_hint
    metavar = declared.metavar or _METAVARS.get(declared.typed) or declared.unit or field.name
    settings: dict[str, Any] = {"metavar": metavar if declared.metavar else metavar.upper()}
    default = None if field.default is NODEFAULT else field.default
    match kind:
        case inspect.BoolType():
            settings = {"is_flag": True, "default": default}
        case inspect.LiteralType() if declared.value:
            settings = {"is_flag": True, "flag_value": declared.value, "default": None}
        case inspect.LiteralType():
            settings["type"] = click.Choice([*kind.values])
            settings.pop("metavar")
        case inspect.ListType():
            settings["multiple"] = True
        case inspect.DictType():
            settings = {"metavar": declared.metavar or "KEY=VALUE,…", "multiple": True}
            parse = pairs
        case inspect.IntType() | inspect.FloatType() if not declared.typed:
            settings["type"] = _number(kind)
    if "multiple" not in settings and "is_flag" not in settings and default not in (None, ""):
        settings["default"] = _as_typed(default, declared.typed)
    elif not hint:
        hint = _HINTS.get(declared.typed, "")

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        given = ctx.params.setdefault(into, {})
        if value not in (None, ()):
            given[field.name] = parse(value, names[0])

    if field.required:
        settings["required"] = True
    without = f"  [default: {declared.default}]" if declared.default else ""
    option = click.Option(
        [*names, f"{into}_{field.name}"],
        help=" ".join(filter(None, (declared.text, hint))) + without,
        shell_complete=_COMPLETERS.get(field.name),
        expose_value=False,
        callback=keep,
        **settings,
    )
    mark(option, rare=declared.rare)
    return option


def _number(kind: Any) -> click.ParamType | type:
    """The type of a number's option, with the bounds of its field."""
    from msgspec import inspect

    plain, ranged = (
        (int, click.IntRange) if isinstance(kind, inspect.IntType) else (float, click.FloatRange)
    )
    least = kind.gt if kind.ge is None else kind.ge
    if least is None and kind.le is None:
        return plain
    return ranged(least, kind.le, min_open=kind.gt is not None)


# ---- values as they are typed --------------------------------------------------------------------


def _words(values: Iterable[str]) -> list[str]:
    """With commas between several; or with what stands first as `^;^`, as for gcloud."""
    words: list[str] = []
    for value in values:
        separator, text = ",", value
        if value.startswith("^") and "^" in value[1:]:
            separator, text = value[1:].split("^", 1)
            if not separator:
                raise InvalidInput(
                    f"{value!r} names no separator.",
                    "Write it between ^ and ^: ^;^a=1;b=2",
                )
        words += filter(None, text.split(separator))
    return words


def pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE, several as `_words` has them; raises INVALID that names the *option*."""
    parsed = {}
    for word in _words(values):
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise InvalidInput(f"{option} {word!r} is not KEY=VALUE.")
        parsed[key] = value
    return parsed


def _disk(text: str, option: str) -> DataDisk:
    from ..cloud import DataDisk

    fields = pairs([text], option) if "=" in text else {"source": text}
    mode = fields.pop("mode", "read-write")
    source = fields.pop("source", "")
    if fields or not source or mode not in ("read-write", "read-only"):
        raise InvalidInput(
            f"{option} {text!r} is not source=DISK,mode=MODE.",
            "The mode is read-write or read-only.",
        )
    return DataDisk(source=source, mode="read-only" if mode == "read-only" else "read-write")


def _as_typed(value: Any, typed: str) -> str:
    """The inverse, for defaults."""
    if typed == "duration":
        return duration(value)
    return value if isinstance(value, str) else f"{value:g}"


#: From the typed value (of a list: values) and the option's name to the field's value.
_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    "": lambda value, _: [*value] if isinstance(value, tuple) else value,
    "duration": lambda value, _: seconds(value),
    "limit": lambda value, _: limit(value),
    "time": lambda value, _: deadline(value),
    "file": lambda value, _: read_text(value),
    "requirements": lambda value, _: read_requirements_file(value),
    "disk": lambda values, option: [_disk(value, option) for value in values],
    "words": lambda values, _: _words(values),
}
_METAVARS = {
    "duration": "TIME",
    "limit": "TIME",
    "time": "TIME",
    "file": "FILE",
    "requirements": "FILE",
}
_HINTS = {
    "duration": "For example 90m, 2h or 1d.",
    "limit": "Seconds, or for example 90m, 2h or 1d.",
    "time": "For example 2026-07-01T08:00, or 8h for 8 hours from now.",
}


def read_text(path: str) -> str:
    """The text of a file; raises INVALID where it can't be read."""
    return _read(path, lambda path: local_files.read_text(Path(path).expanduser()))


def read_requirements_file(path: str) -> str:
    """A requirements file with those that it includes; raises INVALID where it can't be read."""
    from ..environment.requirement_lines import read_requirements

    return _read(path, read_requirements)


def _read(path: str, read: Callable[[str], str]) -> str:
    try:
        return read(path)
    except OSError as error:
        raise InvalidInput(f"Can't read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file.") from None
