"""Makes from each catalogue what programs read: jupyter_tpu/locale/LANGUAGE/LC_MESSAGES/*.json.

jupyter_tpu.json is what JupyterLab gives to the panel: the texts of its own code. The server adds
sentences.json, for what it says itself, and the command line and the magics terminal.json, for what
only they show. VS Code reads vscode/l10n/bundle.l10n.LANGUAGE.json for what its extension
shows, and package.nls.LANGUAGE.json for what its package.json has. Texts without a translation, or
with a fuzzy one, are left out: they stay in English. Called by ``make setup`` and by
hatch_build.py; nothing of it is in git.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polib

DOMAIN = "jupyter_tpu"  # the frontend's translator.load(…), and the name of the entry point
#: Groups of scripts/catalogue.py.
FILES = {
    f"{DOMAIN}.json": ("frontend",),
    "sentences.json": ("vscode", "sentence", "label"),
    "terminal.json": ("terminal", "help"),
}
EXTENSION = ("frontend", "vscode")
#: VS Code's names for the languages.
VSCODE = {"zh_CN": "zh-cn", "ko_KR": "ko", "ja_JP": "ja"}


def compile_catalogues(locale: Path) -> list[Path]:
    """Compiles all catalogues in the folder *locale*; returns the files that were written."""
    made = []
    for path in sorted(locale.glob(f"*/LC_MESSAGES/{DOMAIN}.po")):
        catalogue = polib.pofile(str(path))
        entries = [entry for entry in catalogue if entry.translated()]
        plurals = catalogue.metadata["Plural-Forms"]
        head = {
            "domain": DOMAIN,
            "language": path.parts[-3].replace("_", "-"),
            "plural_forms": plurals,
            "pluralForms": plurals,
        }
        for name, groups in FILES.items():
            texts = _translations(entry for entry in entries if entry.comment in groups)
            # JupyterLab has the language and its plurals from the head.
            _write(path.with_name(name), {"": head, **texts})
            made.append(path.with_name(name))
    return made


def compile_for_vscode(locale: Path, extension: Path) -> None:
    """Writes the texts of VS Code's extension, whose folder is *extension*."""
    manifest = json.loads((extension / "package.nls.json").read_text(encoding="utf-8"))
    bundles = extension / "l10n"
    bundles.mkdir(exist_ok=True)
    for path in sorted(locale.glob(f"*/LC_MESSAGES/{DOMAIN}.po")):
        entries = [entry for entry in polib.pofile(str(path)) if entry.translated()]
        shown = {
            text: forms[0]
            for text, forms in _translations(
                entry for entry in entries if entry.comment in EXTENSION
            ).items()
        }
        language = VSCODE[path.parts[-3]]
        texts = {key: shown[text] for key, text in manifest.items() if text in shown}
        _write(extension / f"package.nls.{language}.json", texts)
        _write(bundles / f"bundle.l10n.{language}.json", shown)


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text, encoding="utf-8")


def _translations(entries: Iterable[polib.POEntry]) -> dict[str, Any]:
    """As JupyterLab has them: a text with a plural has two forms, even where both are the same."""
    return {
        entry.msgid: [entry.msgstr_plural[0]] * 2 if entry.msgid_plural else [entry.msgstr]
        for entry in entries
    }


if __name__ == "__main__":
    TOP = Path(__file__).parent.parent
    compile_catalogues(TOP / "jupyter_tpu" / "locale")
    compile_for_vscode(TOP / "jupyter_tpu" / "locale", TOP / "vscode")
