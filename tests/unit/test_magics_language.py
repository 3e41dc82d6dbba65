"""`%tpu` in the user's language, in a notebook's own kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu.language import in_terminal
from jupyter_tpu.language.sentences import Sentences

CELL = "%load_ext jupyter_tpu\n%tpu auto off\n%tpu run --help\n%tpu delet my-tpu"
#: Without their translations, a reader of English would see these.
TEXTS = (
    "Automatic running is off: cells that begin with %%tpu run on a TPU.",
    "Examples",
    "Options",
    "Stop it after this time. Seconds, or for example 90m, 2h or 1d.",
    "see `%tpu --help`",
)


def printed(folder: Path, language: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=nocolor", "-c", CELL],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_TPU_LANG": language},
    )
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("language", "name"), [("zh", "zh_CN"), ("ko", "ko_KR"), ("ja", "ja_JP"), ("en", "")]
)
def test_what_magics_print_is_in_the_language_of_the_kernel(
    language: str, name: str, tmp_path: Path
) -> None:
    sentences = in_terminal(name) if name else Sentences({})
    shown = printed(tmp_path, language)
    for text in TEXTS:
        translation = sentences.translate(text)
        assert (translation != text) == bool(name), text
        assert " ".join(translation.split()) in shown
        assert not name or text not in shown
