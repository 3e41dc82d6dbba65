"""The panel in the languages that it is translated to."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from lab_server import WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, Route, expect

from jupyter_tpu.emulator import EmulatorState
from jupyter_tpu.language import on_pages

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
    sentences = on_pages(language)
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


def test_what_the_server_says_of_what_is_done_now_is_in_the_users_language(
    own_lab: LabServer, browser: Browser
) -> None:
    """An operation's log, the answer to a request, and a notice: two by events of others."""
    say = on_pages("ja_JP").translate
    own_lab.request("PUT", SETTINGS, {"raw": json.dumps({"locale": "ja_JP"})})
    # The browser speaks yet another language, which is not asked for.
    context = browser.new_context(**WINDOW, locale="ko-KR")
    try:
        lab = LabPage(context.new_page(), own_lab)
        sockets: list[str] = []
        lab.page.on("websocket", lambda socket: sockets.append(socket.url))
        lab.open()
        body = {"name": "later", "type": "v5litepod-1", "zone": "us-west4-a"}
        own_lab.finish(own_lab.call("POST", "tpus", body))
        lab.panel.get_by_role("button", name=say("Created later")).click()
        expect(lab.panel).to_contain_text(say("later is READY"))
        assert any("api/events/subscribe?language=ja-JP" in url for url in sockets), sockets

        def stop_before(route: Route) -> None:
            own_lab.finish(own_lab.call("POST", "tpus/us-west4-a~later/stop", {}))
            route.continue_()

        lab.page.route("**/tpus/us-west4-a~later/stop*", stop_before, times=1)
        later = lab.tpu("later")
        later.get_by_role("button", name=say("Actions for later")).click()
        lab.page.get_by_role("menuitem", name=say("Stop…"), exact=True).click()
        dialog = lab.page.get_by_role("dialog")
        kept = say("The disk of later with all environments and files is kept.")
        expect(dialog).to_contain_text(kept)
        OUT.mkdir(exist_ok=True)
        lab.page.screenshot(path=OUT / "question-ja_JP.png")
        dialog.get_by_role("button", name=say("Stop"), exact=True).click()
        advice = later.locator(".jp-tpu-TPU-advice")
        expect(advice).to_be_visible()  # it is stopped, by the other one
        with pytest.raises(urllib.error.HTTPError) as refused:
            own_lab.call("POST", "tpus/us-west4-a~later/stop", {})
        problem = json.loads(refused.value.read())
        stopped = cast(dict[str, str], own_lab.call("GET", "tpus/us-west4-a~later"))
        alert = lab.panel.get_by_role("alert").filter(has_text=say(problem["message"]))
        expect(alert).to_contain_text(say(problem["hint"]))
        expect(advice).to_have_text(say(stopped["advice"]))
        for sentence in ("later is READY", problem["message"], stopped["advice"]):
            assert say(sentence) != sentence
        lab.panel.screenshot(path=OUT / "said-ja_JP.png")
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
