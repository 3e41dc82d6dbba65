"""What a running cell prints into an output widget is shown in the widget and nowhere else, in a
second tab and after a reload, too.
"""

import re
from typing import Any

import nbformat
import pytest
from lab_server import LabServer
from nbformat import v4
from playwright.sync_api import BrowserContext, Page, expect
from waiting import until

LINES = 100
EXPECTED = [f"line {number}" for number in range(LINES)]
MAKE = (
    "import time, ipywidgets\nfrom IPython.display import display\n"
    "out = ipywidgets.Output()\ndisplay(out)\n"
)
PRINT = (
    f"print('before')\nwith out:\n    for i in range({LINES}):\n"
    "        print('line', i, flush=True)\n        time.sleep(0.3)\nprint('after')\n"
)


def open_notebook(context: BrowserContext, server: LabServer, name: str, count: int) -> Page:
    page = context.new_page()
    workspace = f"widgets-{len(context.pages)}"
    page.goto(f"{server.url}/lab/workspaces/{workspace}/tree/{name}?reset&token={server.token}")
    expect(cells(page)).to_have_count(count)
    return page


def cells(page: Page) -> Any:
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell")


def texts(page: Page) -> tuple[list[str], str]:
    """The lines in widgets, and the text of the other outputs."""
    outputs = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output pre")
    inside, outside = outputs.evaluate_all(
        """all => [true, false].map(inside => all
            .filter(node => (node.closest('.widget-output') !== null) === inside)
            .map(node => node.textContent).join(''))"""
    )
    return re.findall(r"line \d+", inside), outside


@pytest.mark.long  # without tabs: outputWidgets.spec.ts
@pytest.mark.parametrize("sources", [[MAKE + PRINT], [MAKE, PRINT]], ids=["its own", "another's"])
def test_what_is_printed_into_a_widget_is_in_it_alone(lab_server, tpu, context, sources):
    spec = tpu["environments"][0]["kernelspec"]
    metadata = {"kernelspec": {"name": spec, "display_name": spec, "language": "python"}}
    name = f"widgets-{len(sources)}.ipynb"
    notebook = v4.new_notebook(cells=[*map(v4.new_code_cell, sources)], metadata=metadata)
    (lab_server.root / name).write_text(nbformat.writes(notebook))
    first = open_notebook(context, lab_server, name, len(sources))
    expect(first.get_by_text(re.compile(r"\| Idle$"))).to_be_visible()
    for number in range(len(sources)):
        cells(first).nth(number).locator(".cm-content").click()
        first.keyboard.press("Shift+Enter")
    until(lambda: len(texts(first)[0]) >= 5)
    second = open_notebook(context, lab_server, name, len(sources))
    first.reload()
    for page in (first, second):
        prompt = cells(page).nth(len(sources) - 1).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(f"[{len(sources)}]:")
        until(
            lambda page=page: texts(page) == (EXPECTED, "before\nafter\n"),
            why=lambda page=page: str(texts(page)),
        )
        page.close()
