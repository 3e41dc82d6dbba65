"""The grammar of ``jupyter tpu`` and ``%tpu``, on click: commands, groups, and their help."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from ..wording import phrase
from .language import in_language
from .translated_help import TranslatedHelp, help_text

F = TypeVar("F", bound=Callable[..., Any])

#: Settings of a grammar's outermost command; the others inherit them.
CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


class Argument(click.Argument):
    """A positional parameter with a line in the command's help."""

    def __init__(self, names: Sequence[str], *, help: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.description = help  # not "help": click has that since 8.5, and would show it, too


class LazyOptions(click.Option):
    """Stands for several options, which are made when their command is used."""

    def __init__(
        self, names: Sequence[str], *, make: Callable[[], list[click.Option]], **settings: Any
    ) -> None:
        super().__init__(names, **settings)
        self.make = make


#: Where a context's ``meta`` says that the help has all options.
_ALL = "help-all"


def section(title: str, *decorators: Callable[[Any], Any], rare: bool = False) -> Callable[[F], F]:
    """As `parameters`, for options that have a part of `--help` of their own.

    rare: they are in `--help-all` only.
    """

    def decorate(function: F) -> F:
        before = {id(param) for param in getattr(function, "__click_params__", ())}
        function = parameters(*decorators)(function)
        for parameter in function.__click_params__:  # type: ignore[attr-defined]
            if id(parameter) not in before:
                mark(parameter, title, rare=rare)
        return function

    return decorate


def mark(parameter: click.Parameter, title: str = "", *, rare: bool = False) -> None:
    """Says in which part of the help an option is, and whether it is in `--help-all` only."""
    marked: Any = parameter
    marked.section, marked.rare = title, rare or is_rare(parameter)


def is_rare(parameter: click.Parameter) -> bool:
    """Whether an option is in `--help-all` only."""
    return bool(getattr(parameter, "rare", False))


def _made(lazy: LazyOptions) -> Iterator[click.Option]:
    """The options that it stands for, in its part of the help."""
    for option in lazy.make():
        mark(option, getattr(lazy, "section", ""), rare=is_rare(lazy))
        yield option


class Command(TranslatedHelp, click.Command):
    """A command whose arguments have help, and whose repeatable options take several values.

    ``--packages flax optax`` means ``--packages flax --packages optax``. The help has a part for
    each `section` of options; rare options are in `--help-all`.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        self.params = [
            parameter
            for given in self.params
            for parameter in (_made(given) if isinstance(given, LazyOptions) else [given])
        ]
        params = super().get_params(ctx)
        if any(map(is_rare, self.params)):
            params.append(_help_all_option())
        return params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        repeatable = {
            name
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and parameter.multiple
            for name in parameter.opts
        }
        return super().parse_args(ctx, _repeated(args, repeatable))

    def invoke(self, ctx: click.Context) -> Any:
        from .agent_access import require_command

        require_command(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = [
            (parameter.metavar or "", parameter.description)
            for parameter in self.get_params(ctx)
            if isinstance(parameter, Argument)
        ]
        if lines:
            with formatter.section(in_language("Arguments")):
                formatter.write_dl(lines)
        sections: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            if not isinstance(parameter, click.Option):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None and (ctx.meta.get(_ALL) or not is_rare(parameter)):
                sections.setdefault(getattr(parameter, "section", ""), []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title or in_language("Options")):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                # Magics share commands, and their examples.
                formatter.write_text(self.epilog.replace("jupyter tpu", program()))


def _help_all_option() -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=help_text("Show rarely used options, too, and exit."),
    )


class WrappingCommand(Command):
    """A command that ends with another one, such as ssh's. Options of ours may also follow NAME;
    the first other word begins that command.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self.get_params(ctx)  # makes them
        before = self._own_options(args)
        words = args[before + 1 :]
        after = self._own_options(words)
        ours = [*args[:before], *words[:after]]
        return super().parse_args(ctx, [*ours, *args[before : before + 1], *words[after:]])

    def _own_options(self, words: list[str]) -> int:
        """How many words at the start are options of ours, with their values."""
        takes_value = {"--lang": True} | {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        }
        count = 0
        while count < len(words):
            name, has_value, _ = words[count].partition("=")
            if name not in takes_value:
                break
            count += 2 if takes_value[name] and not has_value else 1
        return count


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


#: Words of other tools, and the verbs that may be meant.
_MEANING = {
    "cancel": ("stop", "delete"),
    "download": ("copy",),
    "destroy": ("delete",),
    "end": ("stop", "close", "delete"),
    "forward": ("tunnel",),
    "get": ("describe", "list"),
    "info": ("describe",),
    "install": ("add", "env"),
    "kill": ("stop", "close", "delete"),
    "launch": ("create", "start"),
    "new": ("create", "open"),
    "port-forward": ("tunnel",),
    "remove": ("delete",),
    "resume": ("start",),
    "rm": ("delete", "remove", "close"),
    "rsync": ("copy",),
    "show": ("describe", "list"),
    "shutdown": ("stop",),
    "status": ("list", "describe"),
    "suspend": ("stop",),
    "uninstall": ("remove",),
    "upload": ("copy",),
}


class Group(TranslatedHelp, click.Group):
    """A command with verbs. ``ls`` means ``list``, and a mistyped verb gets a suggestion.

    Parameters
    ----------
    aliases: other words for verbs, each for one or several: "job logs". The help is silent on them.
    short_form: the verb to use if the first word is not like one and another word follows it, so
        that ``tunnel my-tpu 6006`` means ``tunnel open my-tpu 6006``.
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
                args = [*self._aliases[word].split(), *args[1:]]
            elif self._short_form and self._is_short_form(ctx, args):
                args = [self._short_form, *args]
            elif not word.startswith("-") and not ctx.resilient_parsing:
                ctx.fail(self._unknown(ctx, word))
        return super().resolve_command(ctx, args)

    def _is_short_form(self, ctx: click.Context, args: list[str]) -> bool:
        from difflib import get_close_matches

        word, second = args[0], next((arg for arg in args[1:] if not arg.startswith("-")), "")
        if not second or word in _MEANING:
            return False
        # `my-tpu http` has a wrong port, `opne my-tpu 6006` a wrong verb.
        return second[0].isdigit() or not get_close_matches(word, self.list_commands(ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of their definition

    def _unknown(self, ctx: click.Context, word: str) -> str:
        from difflib import get_close_matches

        verbs = self.list_commands(ctx)
        meant = [verb for verb in _MEANING.get(word, ()) if verb in verbs]
        meant = meant or get_close_matches(word, verbs)
        if meant:
            hint = f" Did you mean {' or '.join(meant)}?"
        else:
            hint = "" if ctx.parent is None else f" Use one of: {', '.join(verbs)}."
        return f"No such command {word!r}.{hint}"


def usage_line(error: click.UsageError) -> str:
    """What is wrong with a command line, as one line that says where its help is."""
    line = " ".join(error.format_message().split())
    if error.ctx is None:
        return line
    return f"{line} ({phrase(f'see `{error.ctx.command_path} --help`')})"


def program() -> str:
    """What stands before a verb where the running command was typed: "jupyter tpu" or "%tpu"."""
    context = click.get_current_context(silent=True)
    return (context.find_root().info_name if context is not None else None) or "jupyter tpu"


def examples(*lines: str) -> str:
    """A command's examples, for its epilog; the backspace keeps click from rewrapping them."""
    return "\n".join(
        ["\b", "Examples:" if len(lines) > 1 else "Example:", *map("  {}".format, lines)]
    )


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """As ``click.command``, for a :class:`Command`."""
    return click.command(name, cls=Command, **settings)


def argument(name: str, **settings: Any) -> Callable[[F], F]:
    """As ``click.argument``, for an :class:`Argument`."""
    return click.argument(name, cls=Argument, **settings)


def parameters(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several parameters as one decorator; `--help` shows them in this order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate
