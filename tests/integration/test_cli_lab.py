"""``make lab``: what scripts/lab.py starts, says and keeps."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "lab.py"
LIMIT = 60.0

pytestmark = pytest.mark.skipif(find_spec("jupyterlab") is None, reason="needs JupyterLab")


def test_lab_starts_with_an_emulator_says_its_url_and_ends_with_one_ctrl_c(tmp_path):
    folder = tmp_path / "lab"
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--folder", str(folder), "--port", "9350"],
        env={**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        while (match := re.search(r"^Open (\S+)$", said, re.M)) is None:
            line = process.stdout.readline()
            assert line, said
            said += line
        url = match[1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/lab\?token=\w+", url)
        assert said.count("\n") == 2, said  # what it starts, and where that is
        with urllib.request.urlopen(url, timeout=LIMIT) as page:
            assert page.status == 200
        catalog = url.replace("/lab?", "/jupyter-tpu/v1/catalog?")
        with urllib.request.urlopen(catalog, timeout=LIMIT) as answer:
            assert json.load(answer)["emulated"] is True
        assert (folder / "notebooks" / "first-steps.ipynb").exists()
        assert (folder / "tpu" / "emulator" / "emulator.json").exists()

        process.send_signal(signal.SIGINT)
        said = process.stdout.read()  # `communicate` would miss what was read with the URL's line
        process.wait(LIMIT)
        assert said.count("\n") == 1, said  # how it ends, and what it keeps
        assert "is running at" in (folder / "lab.log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0
    assert not (folder / "tpu" / "emulator" / "emulator.json").exists()  # it has ended, too


def test_a_notebook_the_user_changed_is_not_renewed(tmp_path, monkeypatch):
    import importlib.util

    spec = importlib.util.spec_from_file_location("lab", SCRIPT)
    lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lab)
    examples = tmp_path / "examples"
    examples.mkdir()
    monkeypatch.setattr(lab, "CHECKOUT", tmp_path)
    folder = tmp_path / "lab"
    folder.mkdir()
    for name in ("mine.ipynb", "theirs.ipynb"):
        (examples / name).write_text("old")
    copies = lab._copy_examples(folder)
    (copies / "mine.ipynb").write_text("changed by me")
    for name in ("mine.ipynb", "theirs.ipynb"):
        (examples / name).write_text("new")
    lab._copy_examples(folder)
    assert (copies / "mine.ipynb").read_text() == "changed by me"
    assert (copies / "theirs.ipynb").read_text() == "new"
