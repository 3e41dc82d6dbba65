"""The language of what the command line and the magics print: `in_language` has the words.

It is JUPYTER_TPU_LANG or ``--lang``, else the locale: LC_ALL, LC_MESSAGES or LANG. What is for
programs (``--json``, ``--format``) and what hosts print stays as it is. English costs nothing: the
catalogues and their matching are imported for another language only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sentences import Sentences

VARIABLE = "JUPYTER_TPU_LANG"
#: The languages that --lang takes, and their catalogues.
LANGUAGES = {"en": "", "zh": "zh_CN", "ko": "ko_KR", "ja": "ja_JP"}
_LOCALE = Path(__file__).parent.parent / "locale"
#: Chinese that is not written with simplified characters.
_TRADITIONAL = ("zh_tw", "zh_hk", "zh_mo", "zh_hant")

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
    code = next(filter(None, settings), "").replace("-", "_").lower()
    return "" if code.startswith(_TRADITIONAL) else LANGUAGES.get(code[:2], "")


def in_language(sentence: str) -> str:
    """A sentence, a label, or lines of them, in the language in use."""
    name = catalogue_name()
    if not name or not sentence:
        return sentence
    return _sentences(name).translate(sentence)


@cache
def _sentences(name: str) -> Sentences:
    import json

    from .sentences import Sentences

    catalogue: dict[str, list[str]] = {}
    for file in ("jupyter_tpu.json", "terminal.json"):
        try:
            texts = json.loads((_LOCALE / name / "LC_MESSAGES" / file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # not built: English
        catalogue |= texts
    catalogue.pop("", None)
    return Sentences(catalogue)
