"""Fields of requests that are options of commands, too: each is described once, at the field.

Commands and magics make their options from it (`commands.field_options`). REST's documents and the
TypeScript types show the same text.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Meta, Struct


class Option(Struct, frozen=True, kw_only=True):
    """A field as an option of commands."""

    text: str
    #: All its names, such as "--worker", with gcloud's; (): the field's name.
    names: tuple[str, ...] = ()
    #: The word for its value in `--help`; "": what its form, unit, type or name says.
    metavar: str = ""
    #: The unit of a number, in the plural.
    unit: str = ""
    #: What holds without it, in words, where the field's default does not say that.
    default: str = ""
    #: More for a person who types it.
    typing_hint: str = ""
    #: How it is typed, if not as it is sent: "duration" (2h), "time" (a time or a duration), "file"
    #: (of the text), "requirements" (file, with those that it includes), "disk" (source=DISK),
    #: "words" (with commas between them), "limit" (seconds or a duration).
    typed: Literal["", "duration", "limit", "time", "file", "requirements", "disk", "words"] = ""
    #: The value that the option stands for; it then takes none.
    value: str = ""
    #: Only in `--help-all`.
    rare: bool = False

    def meaning(self) -> str:
        """The text for documents of the request, in which values are as they are sent."""
        unit = "seconds" if self.typed in ("duration", "limit") else self.unit
        unit = f" In {unit}." if unit else ""
        default = f" By default {self.default}." if self.default else ""
        text = f'"{self.value}": {self.text[0].lower()}{self.text[1:]}' if self.value else self.text
        return text + unit + default


def option(text: str, *names: str, **settings: Any) -> Meta:
    """For a field's annotation: the field is an option. The parameters are those of `Option`."""
    declared = Option(text=text, names=names, **settings)
    return Meta(extra_json_schema={"description": declared.meaning()}, extra={"option": declared})
