"""What commands print in addition to their result: notes, and JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def note(message: str) -> None:
    """A line on stderr that is no failure."""
    print(" ".join(message.split()), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """A model as JSON, for programs: the same as REST gives."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


class _Format(click.Choice[str]):
    """An output format; gcloud has more."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(f"{value!r} is not supported. Use json, or omit --format.", param, ctx)
        return str(value)


def json_option(function: F) -> F:
    """--json, or gcloud's --format json, as the parameter *as_json*."""

    def given(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        ctx.meta["json"] = value == "json"

    form = _Format(["json", "text"])
    function = click.option("--format", type=form, callback=given, expose_value=False, hidden=True)(
        function
    )
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=lambda ctx, _, value: value or ctx.meta.get("json", False),
        help="Print JSON, for programs. Also: --format json.",
    )(function)
