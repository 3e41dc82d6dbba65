"""The first notebook of a newcomer, by clicking: opened, its kernel chosen, all cells run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from lab_server import LabPage
from playwright.sync_api import expect

EXAMPLE = Path(__file__).parents[2] / "examples" / "first-steps.ipynb"


def test_the_example_runs_on_the_kernel_that_is_chosen_in_the_picker(
    tpu: dict[str, Any], lab: LabPage
) -> None:
    page, name = lab.page, tpu["name"]
    shutil.copy(EXAMPLE, lab.server.root)
    page.get_by_role("tab", name="File Browser").click()
    page.get_by_role("listitem", name=re.compile(rf"Name: {EXAMPLE.name}")).dblclick()
    expect(page.locator(".jp-NotebookPanel")).to_be_visible()

    bar = page.locator("#jp-main-statusbar")
    expect(bar).to_contain_text("| Idle")  # on this machine, as the file says
    page.locator("[data-jp-item-name=kernelName]").click()
    dialog = page.get_by_role("dialog")
    option = dialog.locator("option", has_text=re.compile(rf"^Python .* · {name}\b")).first
    dialog.locator("select").select_option(option.get_attribute("value"))
    dialog.get_by_role("button", name="Select Kernel").click()
    expect(bar).to_contain_text(re.compile(rf"· {name}.*\| Idle"))

    page.get_by_role("menubar").get_by_text("Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    notebook = page.locator(".jp-NotebookPanel")
    expect(notebook).to_contain_text("after 10 more steps", timeout=120_000)
    expect(notebook.locator(".jp-OutputArea-output", has_text="CpuDevice(id=7)")).to_have_count(1)
    expect(notebook.get_by_role("progressbar")).to_have_count(1)

    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saving completed")).to_be_visible()
    saved = json.loads((lab.server.root / EXAMPLE.name).read_text())
    assert name in saved["metadata"]["kernelspec"]["display_name"]
    kinds = {o["output_type"] for cell in saved["cells"] for o in cell.get("outputs", ())}
    assert kinds == {"stream", "execute_result", "display_data"}
