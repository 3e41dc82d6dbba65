"""What commands print: notes, complaints, and results as text or as gcloud's `--format` says."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from .grammar import parameters
from .streams import own_escapes
from .tables import is_terminal

F = TypeVar("F", bound=Callable[..., Any])

_FORMAT = re.compile(r"([a-z]+)(\[no-heading\])?(?:\((.*)\))?", re.DOTALL)
_FORMATS = "json, yaml, csv(FIELDS), value(FIELDS), table(FIELDS) or text"


def note(message: str) -> None:
    """A line on stderr that is no failure."""
    print(" ".join(message.split()), file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """One line on stderr."""
    start = "jupyter tpu:"
    if is_terminal(sys.stderr) and not os.environ.get("NO_COLOR"):  # https://no-color.org
        start = own_escapes(click.style(start, "red"))
    print(start, " ".join(message.split()), file=sys.stderr, flush=True)


# ---- formats -------------------------------------------------------------------------------------


class Format(NamedTuple):
    """`csv[no-heading](name,zone)`."""

    name: str
    fields: list[str]
    heading: bool


class _Format(click.ParamType):
    name = "format"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Format:
        if isinstance(value, Format):
            return value
        match = _FORMAT.fullmatch(value.strip())
        if match is None or match[1] not in ("json", "yaml", "csv", "value", "table", "text"):
            self.fail(f"{value!r} is not supported. Use {_FORMATS}.", param, ctx)
        fields = [field.strip() for field in (match[3] or "").split(",") if field.strip()]
        if match[1] in ("value", "table") and not fields:
            self.fail(f"{match[1]} needs fields, such as {match[1]}(name,state).", param, ctx)
        return Format(match[1], fields, not match[2])

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        names = ("json", "yaml", "csv", "text")  # with fields, a shell would want quotes
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _set_format(ctx: click.Context, parameter: click.Parameter, value: Any) -> bool:
    """Keeps the format in the context's ``meta``; the value says whether a program reads it."""
    if parameter.name == "as_json":
        value = Format("json", [], True) if value else None
    if value is not None:
        ctx.meta["format"] = value
    return current_format().name != "text" if ctx.meta.get("format") else False


def current_format() -> Format:
    """What the command's --format or --json says."""
    context = click.get_current_context(silent=True)
    chosen = context.meta.get("format") if context is not None else None
    return chosen or Format("text", [], True)


def _format_option(*, hidden: bool) -> Callable[[F], F]:
    return click.option(
        "--format",
        metavar="FORMAT",
        type=_Format(),
        callback=_set_format,
        is_eager=True,  # before --json
        expose_value=False,
        hidden=hidden,
        help="Print it as json, yaml, csv(FIELDS), value(FIELDS), table(FIELDS) or text, as in "
        "gcloud.  [default: text]",
    )


_json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_set_format,
    help="Print JSON, for programs. Also: --format, as for lists.",
)


def json_option(function: F) -> F:
    """--json, or gcloud's --format, as the parameter *as_json*: `print_json` prints the result."""
    return parameters(_json_option, _format_option(hidden=True))(function)


def print_json(value: Any, items: str = "") -> None:
    """As `formatted`; nothing for a list of no rows."""
    if text := formatted(value, items):
        print(text)


def print_result(value: Any, text: str, as_json: bool) -> None:
    """Prints *text*, or the *value* that it describes as `print_json` does."""
    if as_json:
        print_json(value)
    else:
        print(text)


def formatted(value: Any, items: str = "") -> str:
    """A model for programs, as --format says; JSON is the same as REST gives.

    items: the field with the list, where the model has one.
    """
    from .streams import verbatim

    return verbatim(_formatted(value, items))


def _formatted(value: Any, items: str) -> str:
    import msgspec

    chosen = current_format()
    if chosen.name in ("json", "text"):
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if chosen.name == "yaml":
        import yaml

        plain = msgspec.to_builtins(value)
        return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)).rstrip("\n")
    listed = getattr(value, items) if items else value
    return _as_rows(chosen, listed if isinstance(listed, (list, tuple)) else [listed])


def _as_rows(chosen: Format, listed: Sequence[Any]) -> str:
    from .selection import as_text, field_names, path

    fields = chosen.fields or (field_names(listed[0]) if listed else [])
    paths = [path(field) for field in fields]
    rows = [[as_text(field.of(item)) for field in paths] for item in listed]
    if chosen.name == "table":
        from .tables import table

        return table([field.rpartition(".")[2].upper() for field in fields], rows)
    if chosen.name == "value":
        from .tables import one_line

        return "\n".join("\t".join(map(one_line, row)) for row in rows)
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if chosen.heading and fields:
        writer.writerow(fields)
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


# ---- lists ---------------------------------------------------------------------------------------


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        from .selection import parse_filter

        ctx.meta[f"list.{parameter.name}"] = (
            parse_filter(value) if parameter.name == "filter" else value
        )


#: --filter, --sort-by, --limit, --format and --json; the command prints by `print_list`.
list_options = parameters(
    click.option(
        "--filter",
        metavar="TEST",
        callback=_keep,
        expose_value=False,
        help="Only what matches this, in gcloud's syntax: 'state=READY AND zone:us-*'.  "
        "[default: all]",
    ),
    click.option(
        "--sort-by",
        metavar="FIELD,…",
        callback=_keep,
        expose_value=False,
        help="Sort by these fields; ~FIELD is descending.  [default: as listed]",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        callback=_keep,
        expose_value=False,
        help="Show at most N.  [default: all]",
    ),
    _format_option(hidden=False),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=_set_format,
        expose_value=False,
        help="Print JSON, for programs.",
    ),
)


def print_list(answer: Any, text: Callable[[Any], str], items: str = "") -> None:
    """Prints what `list_options` choose of a list: *text* of it, or what --format says.

    items: the field of *answer* that has the list; "": it is the list.
    """
    if shown := list_text(answer, text, items):
        print(shown)


def list_text(answer: Any, text: Callable[[Any], str], items: str = "") -> str:
    """What `print_list` prints."""
    chosen = selected(answer, items)
    if current_format().name != "text":
        return formatted(chosen, items)
    if _listed(answer, items) and not _listed(chosen, items):
        note("Nothing in the list matches --filter.")
        return ""
    return text(chosen)


def selected(answer: Any, items: str = "") -> Any:
    """The part of a list that `list_options` choose, in their order."""
    from msgspec import structs

    context = click.get_current_context(silent=True)
    meta = context.meta if context is not None else {}
    listed = list(_listed(answer, items))
    if test := meta.get("list.filter"):
        listed = [item for item in listed if test(item)]
    if keys := meta.get("list.sort_by"):
        from .selection import sorted_by

        listed = sorted_by(listed, keys)
    listed = listed[: meta.get("list.limit")]
    return structs.replace(answer, **{items: listed}) if items else listed


def _listed(answer: Any, items: str) -> Sequence[Any]:
    return getattr(answer, items) if items else answer
