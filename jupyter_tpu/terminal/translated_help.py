"""The help of commands in the user's language, and ``--lang``, which every command has."""

from __future__ import annotations

import copy
import inspect
import re
from typing import TYPE_CHECKING, Any

import click

from .language import LANGUAGES, catalogue_name, in_language
from .streams import verbatim

if TYPE_CHECKING:
    _Base = click.Command
else:
    _Base = object

#: Widens a character that takes two columns of a terminal, since click counts characters.
_FILLER = "\0"
_WIDE = "([\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60])"
#: Headings of click and of ours, and what click says of a wrong command line.
_HEADING = re.compile(r"^(Usage|Options|Commands)(?=:)", re.MULTILINE)
_EXAMPLES = re.compile(r"^Examples?:$", re.MULTILINE)
_MESSAGES = (
    "Show this message and exit.",
    "Missing argument {name}.",
    "Missing option {name}.",
    "Missing command.",
    "No such option {name}.",
    "Option {name} requires an argument.",
    "Option {name} does not take a value.",
    "Got unexpected extra argument {words}.",
    "Got unexpected extra arguments {words}.",
    "Invalid value for {name}: {message}.",
    "{value} is not one of {values}.",
    "{value} is not a valid {type}.",
    "{value} is not in the range {range}.",
)


class TranslatedHelp(_Base):
    """For commands and groups."""

    _in_help = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = [*super().get_params(ctx), _language_option(hidden=ctx.parent is not None)]
        return list(map(_translated, params)) if self._in_help else params

    def get_help(self, ctx: click.Context) -> str:
        if not catalogue_name():
            return super().get_help(ctx)
        helper = copy.copy(self)
        helper._in_help = True
        helper.help, helper.epilog = help_text(self.help or ""), help_text(self.epilog or "")
        text = super(TranslatedHelp, helper).get_help(ctx).replace(_FILLER, "")
        headings = {
            "Usage": in_language("Usage"),
            "Options": in_language("Options"),
            "Commands": in_language("Commands"),
        }
        return verbatim(_HEADING.sub(lambda heading: headings[heading[0]], text))

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence, whole: click would cut it where the line of an English one ends."""
        text = inspect.cleandoc(self.short_help or self.help or "")
        first = " ".join(help_text(text).split("\n\n")[0].split())
        end = re.search(r"[.。](?=\s|\0|$)", first)
        return first[: end.end()] if end else first


def help_text(text: str) -> str:
    """The paragraphs of a help in the language in use; of examples, behind a backspace, only the
    heading is translated.
    """
    if not catalogue_name():
        return text
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    heading = in_language("Examples")
    return "\n\n".join(
        _EXAMPLES.sub(f"{heading}:", paragraph)
        if "\b" in paragraph
        else re.sub(_WIDE, rf"\1{_FILLER}", _in_one_line(paragraph))
        for paragraph in paragraphs
    )


def _in_one_line(paragraph: str) -> str:
    """Options have values behind their text: "Name.  [default: NAME]"."""
    line = " ".join(paragraph.split())
    if (known := in_language(line)) != line:
        return known
    head, bracket, tail = line.partition(" [")
    return in_language(head) + bracket + tail


def _translated(parameter: click.Parameter) -> click.Parameter:
    shown: Any = copy.copy(parameter)
    for name in ("help", "description", "section"):
        if text := getattr(shown, name, None):
            setattr(shown, name, help_text(text))
    return shown


def _language_option(*, hidden: bool) -> click.Option:
    """It has no effect here: `language.choose_from` has read it before."""
    return click.Option(
        ["--lang"],
        type=click.Choice(list(LANGUAGES)),
        expose_value=False,
        is_eager=True,
        hidden=hidden,
        help="Language of what is printed.  [default: JUPYTER_TPU_LANG, else the locale's]",
    )
