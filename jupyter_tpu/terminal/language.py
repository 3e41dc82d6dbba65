"""The language of what the command line and the magics print: `in_language` has the words.

It is JUPYTER_TPU_LANG or ``--lang``, else the locale: LC_ALL, LC_MESSAGES or LANG. What is for
programs (``--json``, ``--format``) and what hosts print stays as it is. English costs nothing: the
catalogues and their matching are imported for another language only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..language import LANGUAGES, catalogue_of, in_terminal

VARIABLE = "JUPYTER_TPU_LANG"

_chosen: list[str] = []  # what --lang says, last


def choose_language(code: str) -> None:
    """Takes the language of ``--lang``; "" for that of the locale."""
    _chosen[:] = [code] if code else []


def choose_from(words: Sequence[str]) -> None:
    """Takes ``--lang`` from a command line before that is parsed: help and errors have it, too."""
    for index, word in enumerate(words):
        name, has_value, value = word.partition("=")
        if word == "--":
            return
        if name == "--lang":
            code = value if has_value else (words[index + 1 : index + 2] or [""])[0]
            choose_language(code if code in LANGUAGES else "")


def catalogue_name() -> str:
    """The name of the catalogue in use, such as "zh_CN"; "" for English."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    settings = (*_chosen, os.environ.get(VARIABLE), *map(os.environ.get, names))
    return catalogue_of(next(filter(None, settings), ""))


def in_language(sentence: str) -> str:
    """A sentence, a label, or lines of them, in the language in use."""
    name = catalogue_name()
    return in_terminal(name).translate(sentence) if name and sentence else sentence
