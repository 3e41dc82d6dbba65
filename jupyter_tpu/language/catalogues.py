"""The languages that sentences can be had in, and their catalogues in jupyter_tpu/locale."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sentences import Sentences

#: The languages by the first letters of their tags, and their catalogues; "" for English.
LANGUAGES = {"en": "", "zh": "zh_CN", "ko": "ko_KR", "ja": "ja_JP"}
#: What scripts/compile_catalogues.py makes: the texts of the panel, and of the code in Python.
_PAGES = ("jupyter_tpu.json", "sentences.json")
_LOCALE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "locale")
#: Chinese that is not written with simplified characters.
_TRADITIONAL = ("zh_tw", "zh_hk", "zh_mo", "zh_hant")
#: A header with more is not read to its end.
_LONGEST_HEADER_CHARACTERS = 1000


def catalogue_of(tag: str) -> str:
    """The catalogue of a language or locale such as "ja", "zh-CN" or "ko_KR.UTF-8"; "" for English
    and for a language without one.
    """
    return LANGUAGES.get(_language(tag), "")


def accepted(header: str) -> str:
    """The catalogue for an Accept-Language header, such as "fr, ja;q=0.8": of the languages that
    there are, the most wanted one. "" for English, which is also for who wants none.
    """
    ranges = sorted(_ranges(header[:_LONGEST_HEADER_CHARACTERS]), key=lambda wanted: -wanted[1])
    tags = (tag for tag, weight in ranges if weight > 0 and _language(tag) in LANGUAGES)
    return catalogue_of(next(tags, ""))


def _language(tag: str) -> str:
    name = tag.strip().replace("-", "_").lower()
    return "" if name.startswith(_TRADITIONAL) else name.partition("_")[0].partition(".")[0]


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    for part in header.split(","):
        tag, _, parameter = part.partition(";")
        try:
            yield tag, float(parameter.strip().removeprefix("q=") or 1)
        except ValueError:
            continue


@cache
def on_pages(catalogue: str) -> Sentences:
    """For what a page shows; the first call takes 0.1 s."""
    return _sentences(catalogue, *_PAGES, isolated=True)


@cache
def in_terminal(catalogue: str) -> Sentences:
    """For what the command line and the magics print, with the help of commands."""
    return _sentences(catalogue, *_PAGES, "terminal.json")


def _sentences(catalogue: str, *files: str, isolated: bool = False) -> Sentences:
    import json

    from .sentences import Sentences

    texts: dict[str, list[str]] = {}
    for file in files:
        try:
            path = os.path.join(_LOCALE, catalogue, "LC_MESSAGES", file)
            with open(path, encoding="utf-8") as text:
                texts |= json.load(text)
        except (OSError, ValueError):
            continue  # not built: English
    texts.pop("", None)  # the head
    return Sentences(texts, isolated=isolated)
