"""The grammar of ``jupyter tpu`` and ``%tpu``, on click: commands, groups and their parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

#: Settings of a grammar's outermost command; the others inherit them.
CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


class Argument(click.Argument):
    """A positional parameter with a line in the command's help."""

    def __init__(self, names: Sequence[str], *, help: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.description = help  # not "help": click has that since 8.5, and would show it, too


class Command(click.Command):
    """A command whose arguments have help, and whose repeatable options take several values.

    ``--packages flax optax`` means ``--packages flax --packages optax``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        repeatable = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and parameter.multiple
            for name in parameter.opts
        }
        return super().parse_args(ctx, _repeated(args, repeatable))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = [
            (parameter.metavar or "", parameter.description)
            for parameter in self.params
            if isinstance(parameter, Argument)
        ]
        if lines:
            with formatter.section("Arguments"):
                formatter.write_dl(lines)
        super().format_options(ctx, formatter)


def _repeated(args: list[str], repeatable: Container[str]) -> list[str]:
    """*args* with the name of a repeatable option before each of its values."""
    result: list[str] = []
    option = ""  # the repeatable option whose values are being read
    for index, word in enumerate(args):
        if word == "--":
            return result + args[index:]
        if word.startswith("-"):
            option = word if word in repeatable else ""
        elif option and result[-1] != option:
            result.append(option)
        result.append(word)
    return result


class Group(click.Group):
    """A command with verbs. ``ls`` means ``list``, and a mistyped verb gets a suggestion.

    Parameters
    ----------
    aliases: other words for verbs.
    short_form: the verb to use if the first word is no verb and a number follows it, so that
        ``tunnel my-tpu 6006`` means ``tunnel open my-tpu 6006``.
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        aliases: Mapping[str, str] | None = None,
        short_form: str = "",
        **settings: Any,
    ) -> None:
        settings.setdefault("no_args_is_help", False)
        super().__init__(*args, **settings)
        self._aliases = {"ls": "list", **(aliases or {})}
        self._short_form = short_form

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            ctx.fail(f"Missing command. Use one of: {', '.join(self.list_commands(ctx))}.")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if self.get_command(ctx, word) is None:
            if word in self._aliases:
                args = [self._aliases[word], *args[1:]]
            elif self._short_form and any(other[:1].isdigit() for other in args[1:]):
                args = [self._short_form, *args]
            elif not word.startswith("-") and not ctx.resilient_parsing:
                ctx.fail(self._unknown(ctx, word))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of their definition

    def _unknown(self, ctx: click.Context, word: str) -> str:
        from difflib import get_close_matches

        similar = get_close_matches(word, self.list_commands(ctx))
        hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
        return f"No such command {word!r}.{hint}"


def usage_line(error: click.UsageError) -> str:
    """What is wrong with a command line, as one line that says where its help is."""
    command = f" (see `{error.ctx.command_path} --help`)" if error.ctx is not None else ""
    return " ".join(error.format_message().split()) + command


def examples(*lines: str) -> str:
    """A command's examples, for its epilog; the backspace keeps click from rewrapping them."""
    return "\n".join(
        ["\b", "Examples:" if len(lines) > 1 else "Example:", *map("  {}".format, lines)]
    )


# ---- parameters ----------------------------------------------------------------------------------


class PortPair(click.ParamType):
    """``PORT`` or ``PORT:LOCAL``: the port on the host and the local one, None for any."""

    name = "port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(-?\d{1,9})(?::(-?\d{1,9}))?", value)
        if found is None:
            self.fail(
                f"{value!r} is not PORT or PORT:LOCAL, such as 6006 or 6006:7007.", param, ctx
            )
        return int(found[1]), int(found[2]) if found[2] else None


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """As ``click.command``, for a :class:`Command`."""
    return click.command(name, cls=Command, **settings)


def argument(name: str, **settings: Any) -> Callable[[F], F]:
    """As ``click.argument``, for an :class:`Argument`."""
    return click.argument(name, cls=Argument, **settings)


def _complete_tpu(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from .session import tpu_names

    return [name for name in tpu_names() if name.startswith(incomplete)]


def tpu_argument(*, required: bool = True) -> Callable[[F], F]:
    """NAME: which TPU."""
    return argument(
        "name",
        metavar="NAME" if required else "[NAME]",
        required=required,
        shell_complete=_complete_tpu,
        help="The TPU, or ZONE/NAME if TPUs in several zones have this name.",
    )


ports_argument = argument(
    "ports",
    type=PortPair(),
    nargs=-1,
    required=True,
    metavar="PORT[:LOCAL]...",
    help="Port on the host, and local port (default: the same if it is free, else any).",
)
local_port_option = click.option(
    "--local-port",
    type=int,
    metavar="LOCAL",
    help="Listen on this port.  [default: the port on the host if it is free, else any]",
)
worker_option = click.option(
    "--worker", type=int, default=0, metavar="N", help="Number of the host."
)
environment_option = click.option(
    "--env", "environment", default="default", metavar="ENV", help="Name of the environment."
)
python_option = click.option(
    "--python",
    metavar="VERSION",
    help="Python version, such as 3.12.  [default: the newest on the host that JAX supports]",
)
packages_option = click.option(
    "--packages",
    multiple=True,
    metavar="PACKAGE...",
    help="Packages to install beside JAX, NumPy, matplotlib, tqdm and jaxkit.",
)
