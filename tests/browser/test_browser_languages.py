"""The panel in the languages that it is translated to."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, expect

from jupyter_tpu.commands.sentences import Sentences
from jupyter_tpu.emulator import EmulatorState

LOCALE = Path(__file__).parents[2] / "jupyter_tpu" / "locale"
SETTINGS = "lab/api/settings/@jupyterlab/translation-extension:plugin"
OUT = Path(__file__).parent / "out"


@pytest.fixture(scope="module")
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab whose language may change, with a TPU, and one that could not be created."""
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") is None:
        pytest.skip("SKIPPED FOR WANT OF sshd: install openssh-server to run these tests")
    folder = tmp_path_factory.mktemp("languages")
    server = LabServer(folder, options=["--JupyterTPU.emulator=True"])
    try:
        tpu = {"name": "my-tpu", "type": "v5litepod-16", "zone": "us-west4-a"}
        assert server.finish(server.call("POST", "tpus", tpu))["state"] == "done"
        _no_capacity(folder, "us-east5-b")
        failing = {"name": "failing", "type": "v5litepod-8", "zone": "us-east5-b"}
        assert server.finish(server.call("POST", "tpus", failing))["state"] == "failed"
        yield server
    finally:
        server.stop()


def _no_capacity(folder: Path, zone: str) -> None:
    state = EmulatorState.read(folder / "tpu" / "emulator" / "emulator.json")
    request = urllib.request.Request(
        f"{state.rest}/emulator/v1/faults",
        data=json.dumps({"kind": "no-capacity", "zone": zone}).encode(),
        headers={
            "Authorization": f"Bearer {Path(state.token_file).read_text()}",
            "Content-Type": "application/json",
        },
    )
    urllib.request.urlopen(request, timeout=60).close()


@pytest.mark.long
@pytest.mark.parametrize("language", ["zh_CN", "ko_KR", "ja_JP"])
def test_the_panel_and_what_the_server_says_are_in_the_users_language(
    language: str, own_lab: LabServer, browser: Browser
) -> None:
    catalogue: dict[str, Any] = json.loads(
        (LOCALE / language / "LC_MESSAGES" / "jupyter_tpu.json").read_text(encoding="utf-8")
    )
    sentences = Sentences({text: forms for text, forms in catalogue.items() if text})
    own_lab.request("PUT", SETTINGS, {"raw": json.dumps({"locale": language})})
    context = browser.new_context(**WINDOW)
    try:
        lab = LabPage(context.new_page(), own_lab)
        lab.open()
        failed = next(
            operation
            for operation in own_lab.call("GET", "operations")  # type: ignore[attr-defined]
            if operation["state"] == "failed"
        )
        for english in ("READY, not connected", failed["problem"]["message"]):
            print(english, sentences.translate(english))
        expect(lab.tpu("my-tpu")).to_be_visible()
        for width in (330, 250):
            lab.resize(width)
            lab.panel.screenshot(path=OUT / f"panel-{language}-{width}.png")
            _has_no_overflow(lab, width)
        lab.page.screenshot(path=OUT / f"lab-{language}.png")
        text = lab.panel.inner_text()
        print(text)
        expect(lab.panel).to_contain_text(sentences.translate(failed["problem"]["message"]))
    finally:
        context.close()
        own_lab.request("PUT", SETTINGS, {"raw": "{}"})


def _has_no_overflow(lab: LabPage, width: int) -> None:
    """Nothing in the panel is cut off or reaches over its edge."""
    wide = lab.panel.evaluate(
        """panel => [...panel.querySelectorAll('*')]
          .filter(one => one.offsetParent !== null)
          .filter(one => one.getBoundingClientRect().right > panel.getBoundingClientRect().right + 1)
          .map(one => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 60)}`)"""
    )
    assert wide == [], width
