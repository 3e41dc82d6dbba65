"""The catalogues of translations: jupyter_tpu/locale/LANGUAGE/LC_MESSAGES/jupyter_tpu.po.

Without options it writes into each catalogue what the code has now, and keeps the translations. A
text that has changed a little keeps its translation, marked as fuzzy, until a translator has looked
at it. With ``--check`` nothing is written, and the exit code says whether the translations are
right: parameters and code are the same in a text and its translation. What has no translation yet
is shown in English and listed; it is an error only with ``--complete``, for a release.

A language is added by an empty file with a head; see docs/reference/languages.md.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polib

if __package__:
    from .python_sentences import texts
else:
    from python_sentences import texts

TOP = Path(__file__).parent.parent
CATALOGUES = TOP / "jupyter_tpu" / "locale"
#: In this order they are in a catalogue; a text is in the first group that has it. "frontend": with
#: %1, %2 … as parameters; "vscode": what only the extension for VS Code has; "sentence" and
#: "label": what the server says; "terminal": what only the command line and the magics show;
#: "help": of their --help.
GROUPS = ("frontend", "vscode", "sentence", "label", "terminal", "help")
_TERMINAL = tuple(f"jupyter_tpu/{room}/" for room in ("cli", "commands", "terminal", "magics"))
LANGUAGES = ("zh_CN", "ko_KR", "ja_JP")
MANIFEST_TEXTS = TOP / "vscode" / "package.nls.json"
_SHOWN = {
    "category",
    "contents",
    "contextualTitle",
    "description",
    "displayName",
    "markdownDescription",
    "name",
    "title",
}
#: The same in every language.
NAMES = {"jupyter-tpu", "Cloud TPU", "Jupyter TPU", "TPU"}
#: Like enough that a translation may only need a look.
_SIMILAR = 0.85


class Entry(NamedTuple):
    """A text to translate."""

    text: str
    group: str
    plural: str = ""


def skeleton(text: str) -> str:
    """The text without the names of its parameters: what makes two texts the same."""
    return re.sub(r"%\d|\{\w+\}", "\0", text)


def entries() -> list[Entry]:
    """What the code has, in the order of the catalogues; each text once."""
    result: dict[str, Entry] = {}
    gathered = _frontend_entries()
    for text in texts(TOP / "jupyter_tpu"):
        in_terminal = text.group != "help" and text.file.startswith(_TERMINAL)
        gathered.append(Entry(text.text, "terminal" if in_terminal else text.group))
    gathered += [Entry(text, "vscode") for text in _manifest_texts()]
    for group in GROUPS:
        for entry in gathered:
            if entry.group != group:
                continue
            key = skeleton(entry.text)
            if group == "vscode" and key in result and result[key].text != entry.text:
                key = entry.text  # it looks up its own texts, with the names of their parameters
            before = result.setdefault(key, entry)
            if group in ("frontend", "vscode") and before.plural != entry.plural:
                sys.exit(f"{entry.text!r} stands with and without a plural.")
    return list(result.values())


def _frontend_entries() -> list[Entry]:
    """What the panel and the extension for VS Code pass to `trans`."""
    sources = [
        path.relative_to(TOP).as_posix()
        for folder in ("labextension/src", "vscode/src")
        for path in sorted(TOP.joinpath(folder).rglob("*.ts*"))
        if "__tests__" not in path.parts
    ]
    command = ["node", "scripts/frontend_strings.mjs", *sources]
    answer = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    return [
        Entry(
            string["text"],
            "vscode" if string["file"].startswith("vscode/") else "frontend",
            string.get("plural", ""),
        )
        for string in json.loads(answer.stdout)
    ]


def _manifest_texts() -> list[str]:
    """What VS Code shows of the extension without running it: package.json has their keys."""
    texts: dict[str, str] = json.loads(MANIFEST_TEXTS.read_text(encoding="utf-8"))
    manifest = json.loads(MANIFEST_TEXTS.with_name("package.json").read_text(encoding="utf-8"))
    used = set()
    for name, value in _shown(manifest):
        key = value.removeprefix("%").removesuffix("%")
        if value == f"%{key}%" and key in texts:
            used.add(key)
        elif value not in NAMES:
            sys.exit(f"vscode/package.json: {name} {value!r} is no key of package.nls.json.")
    if unused := texts.keys() - used:
        sys.exit(f"vscode/package.nls.json: not used: {', '.join(sorted(unused))}")
    return list(texts.values())


def _shown(part: object) -> Iterator[tuple[str, str]]:
    """The fields of VS Code's manifest that users read."""
    for name, value in part.items() if isinstance(part, dict) else ():
        if name in _SHOWN and isinstance(value, str):
            yield name, value
        yield from _shown(value)
    for value in part if isinstance(part, list) else ():
        yield from _shown(value)


# ---- catalogues ----------------------------------------------------------------------------------


def read(language: str) -> polib.POFile:
    """A language's catalogue; an empty one if there is none."""
    path = _path(language)
    catalogue = polib.pofile(str(path)) if path.is_file() else polib.POFile()
    catalogue.wrapwidth = 10_000  # a translation is one line: diffs are easier to read
    catalogue.metadata = {
        "Project-Id-Version": "jupyter-tpu",
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": "nplurals=1; plural=0;",
        **catalogue.metadata,
    }
    return catalogue


def _path(language: str) -> Path:
    return CATALOGUES / language / "LC_MESSAGES" / "jupyter_tpu.po"


def update(catalogue: polib.POFile, present: list[Entry]) -> polib.POFile:
    """The catalogue with the *present* texts and the translations that it had."""
    known = {skeleton(entry.msgid): entry for entry in catalogue if not entry.obsolete}
    keys = {skeleton(entry.text) for entry in present}
    stale = {
        key: entry for key, entry in known.items() if key not in keys and _is_translated(entry)
    }
    result = polib.POFile(wrapwidth=catalogue.wrapwidth)
    result.metadata = catalogue.metadata
    for entry in present:
        made = polib.POEntry(msgid=entry.text, comment=entry.group)
        before = known.get(skeleton(entry.text))
        if before is None and stale:
            similar = difflib.get_close_matches(skeleton(entry.text), stale, n=1, cutoff=_SIMILAR)
            before = stale[similar[0]] if similar else None
            if before is not None:
                made.previous_msgid = before.msgid
                made.flags = ["fuzzy"]
        elif before is not None:
            made.flags = list(before.flags)
            made.tcomment, made.previous_msgid = before.tcomment, before.previous_msgid
        texts_before = _translations(before) if before is not None else [""]
        translation = texts_before[0]
        if before is not None and not made.fuzzy:
            translation = _renamed(translation, before.msgid, entry.text)
        if entry.plural:
            made.msgid_plural, made.msgstr_plural = entry.plural, {0: translation}
        else:
            made.msgstr = translation
        result.append(made)
    return result


def _translations(entry: polib.POEntry) -> list[str]:
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def _is_translated(entry: polib.POEntry) -> bool:
    return all(_translations(entry))


def _renamed(translation: str, before: str, now: str) -> str:
    """A translation with the names that parameters have *now*."""
    names = dict(zip(_parameters(before), _parameters(now), strict=True))
    return re.sub(r"%\d|\{\w+\}", lambda name: names.get(name[0], name[0]), translation)


def _parameters(text: str) -> list[str]:
    return re.findall(r"%\d|\{\w+\}", text)


def gaps(catalogue: polib.POFile, present: list[Entry]) -> list[str]:
    """What is shown in English until somebody translates it, and what is left over, a line each."""
    present_texts = {entry.text for entry in present}
    states = {
        entry.msgid: "not in the code"
        if entry.msgid not in present_texts
        else "fuzzy"
        if entry.fuzzy
        else "not translated"
        for entry in catalogue
        if entry.msgid not in present_texts or entry.fuzzy or not _is_translated(entry)
    }
    has = {entry.msgid for entry in catalogue}
    missing = [f"not translated: {entry.text}" for entry in present if entry.text not in has]
    return missing + [f"{state}: {text}" for text, state in states.items()]


def problems(catalogue: polib.POFile, present: list[Entry]) -> list[str]:
    """What is wrong with its translations, a line each."""
    result = []
    plurals = {entry.text: entry.plural for entry in present}
    for entry in catalogue:
        if entry.msgid not in plurals or entry.fuzzy or not _is_translated(entry):
            continue
        if plurals[entry.msgid] != entry.msgid_plural:
            result.append(f"another plural: {entry.msgid}")
        else:
            result += _translation_problems(entry)
    return result


def _translation_problems(entry: polib.POEntry) -> list[str]:
    result = []
    original = entry.msgid_plural or entry.msgid
    # These languages have one form for all numbers, so it serves one thing, too.
    forms = [set(_parameters(form)) for form in (entry.msgid, original)]
    for translation in _translations(entry):
        parameters = set(_parameters(translation))
        if not forms[0] & forms[1] <= parameters <= forms[0] | forms[1]:
            result.append(f"other parameters: {original} → {translation}")
        for kind, form in (("code in backticks", r"`[^`]*`"), ("links", r"\]\([^)]*\)")):
            if Counter(re.findall(form, translation)) != Counter(re.findall(form, original)):
                result.append(f"other {kind}: {original} → {translation}")
        if translation != translation.strip() and original == original.strip():
            result.append(f"blanks at an end: {translation!r}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="Updates or checks the catalogues.")
    parser.add_argument("languages", nargs="*", help="such as zh_CN; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing, report what is wrong")
    parser.add_argument("--complete", action="store_true", help="also fail for what is missing")
    arguments: Any = parser.parse_args()
    present, code = entries(), 0
    for language in arguments.languages or LANGUAGES:
        catalogue = read(language)
        if not arguments.check:
            catalogue = update(catalogue, present)
            _path(language).parent.mkdir(parents=True, exist_ok=True)
            catalogue.save(str(_path(language)))
        wrong, missing = problems(catalogue, present), gaps(catalogue, present)
        for line in (*wrong, *missing):
            print(f"{language}: {line}", file=sys.stderr)
        if wrong or (missing and arguments.complete):
            code = 1
        done = sum(_is_translated(entry) and not entry.fuzzy for entry in catalogue)
        print(f"{language}: {done} of {len(catalogue)} texts are translated")
    if code and arguments.check:
        print("Run scripts/catalogue.py, and translate what is new.", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
