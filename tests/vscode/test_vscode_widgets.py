"""Widgets in VS Code: shown by our renderer, with comms through our controller."""

from __future__ import annotations

import re
from collections.abc import Callable

from code_server import CodeServer, Notebook, Window, notebook, printed
from playwright.sync_api import expect
from waiting import until

SLIDER = """import ipywidgets
slider = ipywidgets.IntSlider(description='speed')
slider"""
COUNTER = """import anywidget, traitlets
class Counter(anywidget.AnyWidget):
    _esm = '''
    export default { render({ model, el }) {
      const button = document.createElement('button');
      const show = () => { button.textContent = 'count ' + model.get('count'); };
      button.onclick = () => { model.set('count', model.get('count') + 1); model.save_changes(); };
      model.on('change:count', show);
      show();
      el.append(button);
    } };
    '''
    count = traitlets.Int(0).tag(sync=True)
counter = Counter()
counter"""
CAPTURED = """out = ipywidgets.Output()
display(out)
with out: print('inside')
print('outside')"""
#: Long enough for a reload in the middle of it.
PROGRESS = """import time
from tqdm.auto import tqdm
for step in tqdm(range(100)): time.sleep(0.2)"""


def test_widgets_work_and_still_do_after_a_reload(
    vscode: CodeServer, open_window: Callable[..., Window], tpu: str
) -> None:
    values = "print(slider.value, counter.count, [one['text'] for one in out.outputs])"
    cells = SLIDER, COUNTER, CAPTURED, PROGRESS, values
    path = notebook(vscode.workspace / "widgets.ipynb", *cells)
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    output = window.output()
    book.run_all()
    handle, button = output.get_by_role("slider"), output.get_by_role("button", name="count")
    bar = output.locator(".progress-bar")
    expect(output.locator(".widget-output")).to_have_text("inside")
    expect(bar).to_be_visible()
    expect(output).to_contain_text(re.compile(r"\d+/100"))
    handle.press("ArrowRight")  # the kernel takes it after its cells
    button.click()
    expect(button).to_have_text("count 1")
    window.reload()
    book.shown()
    expect(output).to_contain_text("100/100")
    book.wait_idle()
    expect(output.locator(".widget-output")).to_have_text("inside")
    handle.press("ArrowRight")
    button.click()
    expect(button).to_have_text("count 2")
    window.page.locator(".cell .view-lines:visible").first.click()
    for key in ("Escape", "Control+End", "Enter", "Shift+Enter"):  # runs the last cell
        window.page.keyboard.press(key)
    until(lambda: "2 2 ['inside" in book.text(), 60, book.text)
    captured, progress, shown = book.save()[2:5]
    assert printed(captured) == ["outside"]
    assert "application/vnd.jupyter.widget-view+json" in progress["outputs"][0]["data"]
    assert printed(shown) == ["2 2 ['inside\\n']"]
