"""The extension in VS Code's display language."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from code_server import ROOT, CodeServer, Window
from playwright.sync_api import expect

OUT = Path(__file__).parent / "out"


@pytest.mark.parametrize("language", ["zh-cn", "ko", "ja"])
def test_the_tree_its_menus_and_the_questions_are_in_the_language_of_vs_code(
    language: str,
    start_vscode: Callable[..., CodeServer],
    open_window: Callable[..., Window],
    tpu: str,
) -> None:
    texts = json.loads((ROOT / f"vscode/l10n/bundle.l10n.{language}.json").read_text("utf-8"))
    manifest = json.loads((ROOT / f"vscode/package.nls.{language}.json").read_text("utf-8"))
    server = start_vscode(language=language)
    window = open_window(server, server.workspace)
    expect(window.row(tpu)).to_contain_text(texts["Connected"])
    window.expand(tpu)
    host = texts["Host %1"].replace("%1", "0")
    window.act(host, manifest["command.openWindow"])
    expect(window.toasts.first).to_contain_text(manifest["command.openTerminal"])
    window.page.screenshot(path=OUT / f"tree-{language}.png")
    window.command(f"TPU: {manifest['command.create']}")
    window.pick(texts["TPU Type"], "v5litepod-8")
    window.asked(texts["Zone for %1"].replace("%1", "v5litepod-8"))
    first = window.picker.get_by_role("option").first
    expect(first).to_contain_text(texts["emulated: free"])
    window.page.screenshot(path=OUT / f"zones-{language}.png")
