"""English sentences in another language, by the templates of a catalogue: "{tpu} is not READY."

A sentence is matched with the templates, and what stands for a parameter is put into the
translation: as it is, or translated, if it is a sentence or a label itself. Several sentences are
translated one by one, lines always. What nothing matches stays English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

_PARAMETER = re.compile(r"%(\d)|\{(\w+)\}")
_WORD = re.compile(r"\w{3,}")
#: What stands between sentences, or between the parts of a line.
_SEPARATOR = re.compile(r"((?<=[.?!])\s+|\s·\s)")
#: English that no template knows: it has such a word among others, or is a pronoun.
_WORDS = (
    "a|all|an|and|are|at|be|by|can|for|from|had|has|have|if|in|is|it|its|no|not|of|on|or|than|that|"
    "the|them|they|this|to|was|were|when|which|who|with|without"
)
_ENGLISH = re.compile(
    rf"(?:^|(?<=[ (]))(?:{_WORDS})(?=[ .,;)])|[ (](?:{_WORDS})$|^(?:all|it|them)$"
)
#: What is quoted, or follows a colon, may be English: other programs' messages.
_QUOTED = re.compile(r"[:：].*|[“「‘\"'`].*?[”」’\"'`]", re.DOTALL)
#: Parameters that are numbers.
_NUMBER_NAME = re.compile(r"(?:.*_)?(?:number|count)\d?")
_NUMBER = re.compile(r"\d[\d,.]*")
#: Letters between which there is no blank.
_CLOSE = "\u3000-\u303f\u3040-\u30ff\u4e00-\u9fff\uff00-\uffef"
_CLOSE_END, _CLOSE_START = re.compile(f"[{_CLOSE}] $"), re.compile(f" [{_CLOSE}]")
#: A name before a text, and a note behind it.
_FRAME = re.compile(r"(?:([\w.~/-]+(?: \d+)?): )?(.+?)(?: \(([^()]+)\))?", re.DOTALL)
#: How deep sentences may stand in sentences, and how many may follow one another.
_MOST_DEPTH = 3
_MOST_PARTS = 10
#: Longer lines stay English, and those that nothing matches after so many tries: they may be made
#: for that. The hardest sentence of ours takes 4,000.
_LONGEST_LINE_CHARACTERS = 4000
_MOST_TRIES = 10_000
#: What the search for a sentence costs besides its templates, in tries.
_TRIES_FOR_ONE = 20
#: Characters of translated lines that are kept, since most are asked for again.
_MOST_KEPT_CHARACTERS = 2_000_000
#: Letters that are written from right to left.
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


class _Template(NamedTuple):
    """A text with parameters."""

    literals: list[str]  # before, between and behind the parameters
    parameters: list[str]
    translation: str
    size: int  # number of literal characters
    numbers: frozenset[str]  # parameters that are numbers
    messages: frozenset[str]  # parameters that may be what other programs say


class _Translated(NamedTuple):
    """A translation, and how many characters of the English text it is sure of."""

    text: str
    score: int


class _TooHard(Exception):
    """Nothing has matched after too many tries."""


class Sentences:
    """Translates by a *catalogue*: texts, and their translations in each plural form.

    isolated: names that are written from right to left are kept from turning around what stands
    beside them, by characters that a browser knows. Threads may share it.
    """

    def __init__(self, catalogue: Mapping[str, Sequence[str]], *, isolated: bool = False) -> None:
        self.catalogue = catalogue
        self.isolated = isolated
        self._kept: dict[str, str] = {}
        self._kept_size = 0

    @cached_property
    def templates(self) -> Mapping[str, Sequence[_Template]]:
        """By their rarest word; see `_index_of`."""
        return _index_of(self.catalogue)

    def translate(self, text: str) -> str:
        """*text* in the catalogue's language, as far as it is known there, line by line."""
        return "\n".join(map(self._line, text.split("\n")))

    def _line(self, line: str) -> str:
        if len(line) > _LONGEST_LINE_CHARACTERS:
            return line
        known = self._kept.get(line)
        if known is None:
            known = _Search(self).translation(line)
            size = len(line) + len(known)
            if self._kept_size + size > _MOST_KEPT_CHARACTERS:
                self._kept, self._kept_size = {}, 0
            self._kept[line] = known
            self._kept_size += size
        return known


class _Search:
    """The search for the translation of one line."""

    def __init__(self, sentences: Sentences) -> None:
        self._sentences = sentences
        self._tries = 0
        self._known: dict[tuple[str, int], _Translated | None] = {}  # parts by their depth

    def translation(self, line: str) -> str:
        try:
            best = self._best(line, 0)
        except _TooHard:
            return line
        return line if best is None else best.text

    def _try(self, number: int = 1) -> None:
        self._tries += number
        if self._tries > _MOST_TRIES:
            raise _TooHard

    def _best(self, text: str, depth: int) -> _Translated | None:
        key = text, depth
        if key not in self._known:
            self._known[key] = self._find(text, depth)
        return self._known[key]

    def _find(self, text: str, depth: int) -> _Translated | None:
        core = text.strip()
        if not re.search(r"[A-Za-z]{2}", core):
            return None
        best = self._one(core, depth)
        if best is None or best.score < len(core):
            best = _better(best, self._parts(core, depth))
        if best is None:
            return None
        start = text.index(core)
        return best._replace(text=text[:start] + best.text + text[start + len(core) :])

    def _one(self, text: str, depth: int) -> _Translated | None:
        """Translates *text* as one sentence or label."""
        self._try(_TRIES_FOR_ONE)
        ended = text[-1] in ".?!:…"
        for variant in dict.fromkeys((text, text[0].upper() + text[1:])):
            changed = variant != text
            if best := self._exact(variant) or self._match(variant, depth, changed):
                return best
            other = variant[:-1] if text[-1] == "." else "" if ended else f"{variant}."
            if other and (best := self._exact(other) or self._match(other, depth, changed)):
                return _with_stop(best) if ended else _without_stop(best)
        return self._framed(text, depth)

    def _framed(self, text: str, depth: int) -> _Translated | None:
        """ "my-tpu: Installing JAX", "Installing JAX (2 of 4 hosts)": each part by itself."""
        frame = _FRAME.fullmatch(text)
        if frame is None or depth >= _MOST_DEPTH or not (frame[1] or frame[3]):
            return None
        known = {part: self._best(part, depth + 1) for part in frame.groups() if part}
        score = sum(best.score for best in known.values() if best)
        if not score:
            return None
        name, main, note = (
            best.text if part and (best := known[part]) else part for part in frame.groups()
        )
        name, note = (f"{name}: " if name else ""), (f" ({note})" if note else "")
        return _Translated(name + main + note, score)

    def _exact(self, text: str) -> _Translated | None:
        forms = self._sentences.catalogue.get(text)
        if not isinstance(forms, list) or not forms[0]:
            return None
        return _Translated(forms[0], len(text))

    def _match(self, text: str, depth: int, changed: bool) -> _Translated | None:
        """The translation by the template of which *text* has most. changed: its first letter."""
        best = None
        for template in self._candidates(text):
            if changed and not template.literals[0]:
                continue  # it begins with a name
            self._try()
            values = _values_of(template, text)
            if values is not None:
                best = _better(best, self._fill(template, values, depth))
        return best

    def _fill(self, template: _Template, values: list[str], depth: int) -> _Translated | None:
        score, filled = template.size, {}
        for name, value in zip(template.parameters, values, strict=True):
            known = self._best(value, depth + 1) if depth < _MOST_DEPTH else None
            filled[name] = known.text if known else self._name(value)
            if name not in template.messages and _ENGLISH.search(_QUOTED.sub("", filled[name])):
                return None  # a sentence of two languages helps nobody
            score += known.score if known else 0
        text, *pieces = _PARAMETER.split(template.translation)
        for digit, name, literal in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            value = filled.get(digit or name, "")
            text = _closed(_closed(text, value), literal)
        return _Translated(text, score)

    def _name(self, value: str) -> str:
        """What stays as it is."""
        isolates = self._sentences.isolated and _RIGHT_TO_LEFT.search(value)
        return f"\u2068{value}\u2069" if isolates else value

    def _parts(self, text: str, depth: int) -> _Translated | None:
        """Translates the sentences of *text*, each by itself or together with its neighbours."""
        pieces = _SEPARATOR.split(text)
        count = (len(pieces) + 1) // 2
        if count == 1:
            return None
        # From the last one: the best translation of all from here on.
        rest: dict[int, _Translated] = {count: _Translated("", 0)}
        for start in reversed(range(count)):
            for end in range(start + 1, min(count, start + _MOST_PARTS) + 1):
                if end - start == count:
                    break  # that is the whole text
                own = "".join(pieces[2 * start : 2 * end - 1])
                known = self._one(own, depth) if own else None
                if known is None and end > start + 1:
                    continue
                separator = pieces[2 * end - 1] if end < count else ""
                score = (known.score if known else 0) + rest[end].score
                if start not in rest or score > rest[start].score:
                    line = _joined(known.text if known else own, separator, rest[end].text)
                    rest[start] = _Translated(line, score)
        return rest[0] if rest[0].score else None

    def _candidates(self, text: str) -> Iterator[_Template]:
        """The templates of which *text* has the rarest word."""
        templates = self._sentences.templates
        yield from templates.get("", ())
        for word in dict.fromkeys(_WORD.findall(text)):
            yield from templates.get(word, ())


def _better(one: _Translated | None, other: _Translated | None) -> _Translated | None:
    return other if other and (one is None or other.score > one.score) else one


def _with_stop(best: _Translated) -> _Translated:
    stop = "。" if re.search(f"[{_CLOSE}]$", best.text) else "."
    return _Translated(best.text + stop, best.score + 1)


def _without_stop(best: _Translated) -> _Translated:
    return _Translated(re.sub(r"[.。]$", "", best.text), best.score - 1)


def _closed(before: str, after: str) -> str:
    """Both together, without a blank between letters of Chinese or Japanese."""
    if _CLOSE_END.search(before) and _CLOSE_START.match(f" {after}"):
        return before[:-1] + after
    ends = before.endswith(("。", "？", "！"))
    if _CLOSE_END.search(f"{before} ") and (ends or _CLOSE_START.match(after)):
        return before + after.removeprefix(" ")
    return before + after


def _joined(before: str, separator: str, after: str) -> str:
    """Chinese and Japanese have no blank behind a full stop."""
    close = before.endswith(("。", "？", "！", "：", "；")) and not separator.strip(" ")
    return before + ("" if close else separator) + after


def _values_of(template: _Template, text: str) -> list[str] | None:
    """What *text* has for the parameters of a template; None if it is not of that form."""
    first, *between, last = template.literals
    end = len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last):
        return None
    values, at = [], len(first)
    for literal in between:
        following = text.find(literal, at, max(at, end))
        while following >= 0 and not _is_end(text, following, literal):
            following = text.find(literal, following + 1, max(at, end))
        if following < 0:
            return None
        values.append(text[at:following])
        at = following + len(literal)
    if at > end:
        return None
    values.append(text[at:end])
    if not last and values[-1].endswith("."):
        return None  # the end of another sentence
    # One that stands twice is the same in both places.
    names = template.parameters
    if any(value != values[names.index(name)] for name, value in zip(names, values, strict=True)):
        return None
    if not all(_NUMBER.fullmatch(values[names.index(name)]) for name in template.numbers):
        return None
    return values


def _is_end(text: str, at: int, literal: str) -> bool:
    """Whether a full stop at the end of *literal* is one in *text*, and not that of 3.2."""
    after = text[at + len(literal) :][:1]
    return literal[-1:] not in (".", "?", "!") or not after or after.isspace()


def _template_of(text: str, translation: str) -> _Template | None:
    pieces = _PARAMETER.split(text)
    literals = pieces[::3]
    parameters = [digit or name for digit, name in zip(pieces[1::3], pieces[2::3], strict=True)]
    words = re.findall(r"[A-Za-z]{2,}", " ".join(literals))
    if not parameters or len("".join(words)) < 4:
        return None
    numbers = frozenset(filter(_NUMBER_NAME.fullmatch, parameters))
    messages = frozenset(
        name
        for name, before in zip(parameters, literals, strict=False)
        if before.rstrip()[-1:] in (":", "“", "`") and before
    )
    return _Template(literals, parameters, translation, len("".join(literals)), numbers, messages)


def _index_of(catalogue: Mapping[str, Sequence[str]]) -> dict[str, list[_Template]]:
    """The templates by the word of theirs that the fewest others have; "" where none has one."""
    templates = []
    for text, forms in catalogue.items():
        template = _template_of(text, forms[0]) if text and forms[0] else None
        if template is not None:
            templates.append((template, _whole_words(template.literals)))
    frequency = Counter(word for _, words in templates for word in words)
    index: dict[str, list[_Template]] = {}
    for template, words in templates:
        rarest = min(words, key=frequency.__getitem__, default="")
        index.setdefault(rarest, []).append(template)
    return index


def _whole_words(literals: list[str]) -> list[str]:
    """Words that no parameter can be a part of."""
    marked = "\0".join(literals)
    return [
        word[0]
        for word in _WORD.finditer(marked)
        if marked[word.start() - 1 : word.start()] != "\0"
        and marked[word.end() : word.end() + 1] != "\0"
    ]
