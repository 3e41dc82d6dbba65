"""The first notebook of a newcomer, by clicking: opened in the panel, all cells run."""

from __future__ import annotations

import json
import re
from typing import Any

from lab_server import LabPage
from playwright.sync_api import expect


def test_an_example_that_is_opened_in_the_panel_runs_on_the_tpu(
    tpu: dict[str, Any], lab: LabPage
) -> None:
    page, name = lab.page, tpu["name"]
    lab.act(name, "Open Example…")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("option")).to_have_count(6)
    dialog.locator("select").select_option("First steps on a TPU")
    dialog.get_by_role("button", name="Open").click()
    expect(page.locator(".jp-NotebookPanel")).to_be_visible()
    bar = page.locator("#jp-main-statusbar")
    expect(bar).to_contain_text(re.compile(rf"· {name}.*\| Idle"))

    page.get_by_role("menubar").get_by_text("Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    notebook = page.locator(".jp-NotebookPanel")
    expect(notebook).to_contain_text("after 10 more steps", timeout=120_000)
    expect(notebook.locator(".jp-OutputArea-output", has_text="CpuDevice(id=7)")).to_have_count(1)
    expect(notebook.get_by_role("progressbar")).to_have_count(1)

    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saving completed")).to_be_visible()
    saved = json.loads((lab.server.root / "first-steps.ipynb").read_text())
    assert name in saved["metadata"]["kernelspec"]["display_name"]
    kinds = {o["output_type"] for cell in saved["cells"] for o in cell.get("outputs", ())}
    assert kinds == {"stream", "execute_result", "display_data"}
