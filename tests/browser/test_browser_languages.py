"""The panel in the languages that it is translated to."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, expect

from jupyter_tpu.emulator import EmulatorState
from jupyter_tpu.language.sentences import Sentences

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
    folder = LOCALE / language / "LC_MESSAGES"
    if '"X-Complete: yes\\n"' not in (folder / "jupyter_tpu.po").read_text(encoding="utf-8"):
        pytest.skip(f"{language} is not translated yet")
    catalogue = json.loads((folder / "jupyter_tpu.json").read_text(encoding="utf-8"))
    sentences = Sentences({text: forms for text, forms in catalogue.items() if text})
    failed: Any = own_lab.call("GET", "operations")
    hint = next(one["problem"]["hint"] for one in failed if one["state"] == "failed")
    texts = [hint, "failing could not be created", "Show details", "Connect"]
    translations = [sentences.translate(text) for text in texts]
    assert not set(texts) & set(translations)
    own_lab.request("PUT", SETTINGS, {"raw": json.dumps({"locale": language})})
    context = browser.new_context(**WINDOW)
    try:
        lab = LabPage(context.new_page(), own_lab)
        lab.open()
        for translation in translations:
            expect(lab.panel).to_contain_text(translation)
        OUT.mkdir(exist_ok=True)
        for width in (330, 250):
            lab.resize(width)
            assert not _too_wide(lab)
            lab.panel.screenshot(path=OUT / f"panel-{language}-{width}.png")
        lab.panel.locator("button").first.click()
        expect(lab.panel).to_contain_text(
            sentences.translate("Cheaper, but Google can preempt it at any time")
        )
        assert not _too_wide(lab)
        lab.panel.screenshot(path=OUT / f"form-{language}-250.png")
    finally:
        context.close()
        own_lab.request("PUT", SETTINGS, {"raw": "{}"})


def _too_wide(lab: LabPage) -> list[str]:
    """What in the panel is cut off at its edge, or reaches over it."""
    texts: list[str] = lab.panel.evaluate(
        """panel => { const right = one => one.getBoundingClientRect().right;
        return [...panel.querySelectorAll('*')]
          .filter(one => one.offsetParent !== null)
          .filter(one => right(one) > 1 + right(panel))
          .map(one => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 60)}`) }"""
    )
    return texts
