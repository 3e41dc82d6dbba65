"""A TPU's kernel in a notebook, by clicking: restart and run all, interrupt, a question, a widget,
a plot, a breakpoint. What a user expects of a kernel on this machine.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab_server import LabPage
from nbformat import v4
from playwright.sync_api import Locator, expect
from waiting import until

OUT = Path(__file__).parent / "out"
LONG = 120_000  # ms


@pytest.fixture
def spec(tpu: dict[str, Any]) -> str:
    """The kernelspec of the connected TPU."""
    return tpu["environments"][0]["kernelspec"]


@pytest.fixture
def lab(unopened_lab: LabPage) -> LabPage:
    """For `open_notebook`."""
    return unopened_lab


def open_notebook(lab: LabPage, spec: str, name: str, *sources: str) -> None:
    """Opens a notebook of these cells and waits for its kernel."""
    metadata = {"kernelspec": {"name": spec, "display_name": spec, "language": "python"}}
    cells = [v4.new_code_cell(source) for source in sources]
    path = lab.server.root / f"{name}.ipynb"
    path.write_text(nbformat.writes(v4.new_notebook(cells=cells, metadata=metadata)))
    lab.page.goto(f"{lab.server.url}/lab/tree/{path.name}?reset&token={lab.server.token}")
    expect(cell(lab, 0)).to_be_visible(timeout=LONG)
    idle(lab)


def cell(lab: LabPage, number: int) -> Locator:
    cells = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell")
    return cells.nth(number)


def output(lab: LabPage, number: int) -> Locator:
    return cell(lab, number).locator(".jp-OutputArea")


def idle(lab: LabPage) -> None:
    expect(lab.page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=LONG)


def run(lab: LabPage, number: int) -> None:
    cell(lab, number).locator(".cm-content").click()
    lab.page.keyboard.press("Shift+Enter")


def ran(lab: LabPage, number: int, count: int) -> None:
    prompt = cell(lab, number).locator(".jp-InputPrompt")
    expect(prompt).to_have_text(f"[{count}]:", timeout=LONG)


def press(lab: LabPage, name: str) -> None:
    """A button of the notebook's toolbar."""
    bar = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-NotebookPanel-toolbar")
    bar.get_by_role("button", name=re.compile(name)).click()


@pytest.mark.long
def test_restart_and_run_all_starts_a_new_process(spec, lab):
    open_notebook(
        lab,
        spec,
        "again",
        "import os; print('process', os.getpid(), 'kept' in globals())",
        "kept = 1",
        "print('the end of', os.getpid())",
    )
    pid = "nobody"
    for _ in range(2):
        press(lab, "Restart the kernel and run all cells")
        lab.page.get_by_role("button", name="Confirm Kernel Restart").click()
        # Another process than before, in which nothing is kept.
        other = re.compile(rf"process (?!{pid} )\d+ False")
        expect(output(lab, 0)).to_have_text(other, timeout=LONG)
        pid = re.findall(r"\d+", output(lab, 0).text_content() or "")[0]
        expect(output(lab, 2)).to_have_text(f"the end of {pid}", timeout=LONG)
        ran(lab, 2, 3)
        idle(lab)


def test_questions_plots_and_widgets_work_in_a_notebook(spec, lab):
    open_notebook(
        lab,
        spec,
        "shows",
        "name = input('who? ')\nprint('hello', name)",
        "from getpass import getpass\nprint(getpass('word? ')[::-1])",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.show()",
        "from IPython.display import display\nimport ipywidgets as w\n"
        "b = w.Button(description='press me')\nb.on_click(lambda _: setattr(b, 'description', "
        "'pressed'))\nb",
        "import functools, http.server, pathlib, threading\n"
        "pathlib.Path('page').mkdir()\n"
        "pathlib.Path('page/index.html').write_text('made by a cell')\n"
        "handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory='page')\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "print(f'Running on local URL:  http://127.0.0.1:{server.server_port}')",
    )
    for number, (kind, said, shown) in enumerate(
        [("text", "Ada", "hello Ada"), ("password", "secret", "terces")]
    ):
        run(lab, number)
        field = cell(lab, number).locator(".jp-Stdin-input")
        expect(field).to_be_visible(timeout=LONG)
        assert (field.get_attribute("type") or "text") == kind
        field.fill(said)
        field.press("Enter")
        ran(lab, number, number + 1)
        expect(output(lab, number)).to_contain_text(shown)
    run(lab, 2)
    ran(lab, 2, 3)
    picture = output(lab, 2).locator("img[src^='data:image/png']")
    expect(picture).to_be_visible()
    width = "image => image.complete && image.naturalWidth > 100"
    lab.page.wait_for_function(width, arg=picture.element_handle())
    run(lab, 3)
    ran(lab, 3, 4)
    # The page has Jupyter's widget manager only where ipywidgets' extension is installed.
    output(lab, 3).get_by_role("button", name="press me").click()
    expect(output(lab, 3).get_by_role("button", name="pressed")).to_be_visible(timeout=LONG)
    # The address is the host's own. What the kernel offers opens the page in a tab.
    run(lab, 4)
    output(lab, 4).get_by_role("button", name="Open Port").click(timeout=LONG)
    frame = lab.page.locator(".jp-tpu-App:not(.lm-mod-hidden) iframe").content_frame
    expect(frame.get_by_text("made by a cell")).to_be_visible(timeout=LONG)


def test_a_cell_is_saved_when_it_is_run_and_one_that_the_file_lacks_is_offered(spec, lab):
    page, path = lab.page, lab.server.root / "unsaved.ipynb"

    def has(code: str) -> bool:
        return code in path.read_text()  # which may be a part of the file, while it is written

    def write_and_run(number: int, code: str) -> None:
        cell(lab, number).locator(".cm-content").click()
        page.keyboard.insert_text(code)
        page.keyboard.press("Shift+Enter")
        ran(lab, number, number + 1)

    open_notebook(lab, spec, path.stem, "")
    write_and_run(0, "print('saved')")
    until(lambda: has("print('saved')"))
    # The browser goes away before the next two are in the file, which has the first one empty.
    page.route(
        "**/api/contents/unsaved*",
        lambda route: None if route.request.method == "PUT" else route.continue_(),
    )
    code = "for i in range(120): print('row', i)"
    write_and_run(1, "print('written later')")
    write_and_run(2, code)
    page.goto(f"{lab.server.url}/lab/tree/{path.name}?reset&token={lab.server.token}")
    line = page.locator(".jp-tpu-Notice")
    said = f"A cell that is not in this notebook printed 120 lines. Its code: {code}"
    expect(line).to_contain_text(said)
    assert not has(code)
    expect(cell(lab, 1)).to_contain_text("print('written later')")
    page.unroute("**/api/contents/unsaved*")
    line.get_by_role("button", name="Insert It").click()
    inserted = page.locator(".jp-CodeCell", has_text=code)
    expect(inserted.locator(".jp-InputPrompt")).to_have_text("[3]:", timeout=LONG)
    shown = "".join(inserted.locator(".jp-OutputArea-output").all_text_contents())
    assert re.findall(r"row (\d+)", shown) == [str(number) for number in range(120)]
    expect(line).to_have_count(0)
    until(lambda: has(code))


@pytest.mark.long  # without the page: test_kernels_beside_local.py
def test_a_breakpoint_set_by_clicking_is_hit_and_shows_the_variable(spec, lab):
    open_notebook(lab, spec, "debugged", "answer = 6 * 7\nother = answer + 1\nprint('done', other)")
    page = lab.page
    press(lab, "Enable Debugger")
    # JupyterLab shows line numbers, and with them the gutter to click, while it debugs.
    gutter = cell(lab, 0).locator(".cm-breakpoint-gutter .cm-gutterElement")
    expect(gutter).not_to_have_count(0, timeout=LONG)
    line = cell(lab, 0).locator(".cm-lineNumbers .cm-gutterElement", has_text=re.compile("^2$"))
    box, left = line.bounding_box(), gutter.last.bounding_box()
    page.mouse.click(left["x"] + left["width"] / 2, box["y"] + box["height"] / 2)
    panel = page.locator(".jp-DebuggerSidebar")
    expect(panel.locator(".jp-DebuggerBreakpoint")).to_have_count(1, timeout=LONG)
    run(lab, 0)
    expect(panel.locator(".jp-DebuggerCallstack")).to_contain_text("<module>", timeout=LONG)
    variable = panel.locator(".jp-DebuggerVariables").get_by_text(re.compile("^answer"))
    expect(variable.first).to_be_visible(timeout=LONG)
    expect(panel.locator(".jp-DebuggerVariables")).to_contain_text("42")
    OUT.mkdir(exist_ok=True)
    page.screenshot(path=OUT / "breakpoint.png")
    panel.get_by_role("button", name=re.compile("Continue")).click()
    expect(output(lab, 0)).to_contain_text("done 43", timeout=LONG)
    idle(lab)


@pytest.fixture
def projects_synced(spec: str, lab: LabPage) -> Iterator[None]:
    """The option of the kernelspec that lets kernels have their notebook's project."""
    file = lab.server.root.parent / "data/kernels" / spec / "kernel.json"
    before = file.read_text()
    changed = json.loads(before)
    changed["metadata"]["kernel_provisioner"]["config"]["project_sync"] = "auto"
    file.write_text(json.dumps(changed))
    yield
    file.write_text(before)


@pytest.mark.long
@pytest.mark.usefixtures("projects_synced")
def test_what_is_saved_here_runs_there_and_the_panel_decides_what_both_have_changed(spec, lab):
    module = lab.server.root / "model.py"
    module.write_text("def answer():\n    return 41\n")
    open_notebook(
        lab,
        spec,
        "synced",
        "%load_ext autoreload\n%autoreload 2\nimport model",
        "print('answer', model.answer())",
        "print(open('model.py', 'a').write('# theirs'))",
        "print(open('model.py').read())",
    )
    run(lab, 0)
    module.write_text("def answer():\n    return 4242\n")
    run(lab, 1)
    expect(output(lab, 1)).to_have_text("answer 4242", timeout=LONG)
    run(lab, 2)
    ran(lab, 2, 3)
    module.write_text("def answer():\n    return 'ours'\n")
    run(lab, 3)
    expect(output(lab, 3)).to_contain_text("model.py was changed here and on shared", timeout=LONG)
    expect(output(lab, 3)).to_contain_text("# theirs")

    lab.page.get_by_role("tab", name="TPU", exact=True).click()
    projects = lab.open_page("shared").locator(".jp-tpu-Section", has_text="Projects of Notebooks")
    expect(projects).to_contain_text("root → ~/root")
    expect(projects).to_contain_text("Not up to date")
    expect(projects).to_contain_text("1 file was not copied: both sides have changed it.")
    OUT.mkdir(exist_ok=True)
    projects.scroll_into_view_if_needed()
    lab.resize(250)
    for theme in ("Dark", "Light"):
        lab.set_theme(f"JupyterLab {theme}")
        lab.page.screenshot(path=OUT / f"projects-{theme.lower()}.png")
    projects.get_by_role("button", name="Use This Computer’s").click()
    expect(projects).not_to_contain_text("not copied")
    expect(projects).to_contain_text("Up to date")
    lab.page.get_by_role("tab", name="synced.ipynb").click()
    run(lab, 3)
    expect(output(lab, 3)).to_have_text("def answer():\n    return 'ours'\n", timeout=LONG)
