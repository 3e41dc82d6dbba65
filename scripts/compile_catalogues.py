"""Makes from each catalogue what programs read: jupyter_tpu/locale/LANGUAGE/LC_MESSAGES/*.json.

jupyter_tpu.json is what JupyterLab gives to the panel; terminal.json has what only the command line
and the magics show. Texts without a translation, or with a fuzzy one, are left out: they stay in
English. Called by ``make setup`` and by hatch_build.py; nothing of it is in git.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polib

DOMAIN = "jupyter_tpu"  # the frontend's translator.load(…), and the name of the entry point
#: The groups of scripts/catalogue.py that the panel never shows.
TERMINAL = ("terminal", "help")


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
        panel = [entry for entry in entries if entry.comment not in TERMINAL]
        terminal = [entry for entry in entries if entry.comment in TERMINAL]
        for name, content in (
            (f"{DOMAIN}.json", {"": head, **_translations(panel)}),
            ("terminal.json", _translations(terminal)),
        ):
            target = path.with_name(name)
            target.write_text(
                json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
            )
            made.append(target)
    return made


def _translations(entries: Iterable[polib.POEntry]) -> dict[str, Any]:
    """As JupyterLab has them: a text with a plural has two forms, even where both are the same."""
    return {
        entry.msgid: [entry.msgstr_plural[0]] * 2 if entry.msgid_plural else [entry.msgstr]
        for entry in entries
    }


if __name__ == "__main__":
    compile_catalogues(Path(__file__).parent.parent / "jupyter_tpu" / "locale")
