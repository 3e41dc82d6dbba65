"""Jupyter Notebook 7: the TPU's kernel is in the picker, runs cells and loses nothing when the line
to the server is cut; an app opens in a browser window, since there are no tabs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from fault_proxy import FaultProxy
from lab_server import WINDOW, LabServer
from nbformat import v4
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from waiting import until

OUT = Path(__file__).parent / "out"
NAME = "notebook-7"
LINES = 150
CODE = (
    "import platform, time\n"
    "print('on', platform.node())\n"
    f"for i in range({LINES}):\n"
    f"    print('line', i, 'of', {LINES}, flush=True)\n"
    "    time.sleep(0.1)\n"
)
LONG = 120_000  # ms


@pytest.fixture
def line(lab_server: LabServer) -> Iterator[FaultProxy]:
    """The line between the browser and the server."""
    with FaultProxy("127.0.0.1", lab_server.port) as proxy:
        yield proxy


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(**WINDOW)
    context.set_default_timeout(LONG)
    yield context
    context.close()


def open_notebook(context: BrowserContext, server: LabServer, port: int, *sources: str) -> Page:
    """Opens a new notebook in Jupyter Notebook at *port*."""
    cells = [v4.new_code_cell(source) for source in sources]
    path = server.root / f"{NAME}.ipynb"
    path.write_text(nbformat.writes(v4.new_notebook(cells=cells)))
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/notebooks/{path.name}?token={server.token}")
    return page


def cell_of(page: Page, number: int) -> Locator:
    return page.locator(".jp-CodeCell").nth(number)


def lines_of(page: Page) -> list[str]:
    shown = cell_of(page, 0).locator(".jp-OutputArea-output").all_text_contents()
    return re.findall(rf"line \d+ of {LINES}", "".join(shown))


def state_of_kernel(server: LabServer) -> str:
    [kernel] = server.request("GET", "api/kernels")
    return kernel["execution_state"]


def choose_kernel(page: Page, tpu: str) -> None:
    """In the picker that Notebook shows for a notebook without a kernel."""
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Select Kernel", timeout=LONG)
    option = dialog.locator("option", has_text=re.compile(rf"^Python .* · {tpu}\b")).first
    dialog.locator("select").select_option(option.get_attribute("value"))
    dialog.get_by_role("button", name="Select Kernel").click()
    expect(page.locator(".jp-KernelName")).to_contain_text(tpu)
    expect(page.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute(
        "data-status", "idle", timeout=LONG
    )


def choose_command(page: Page, entry: str) -> None:
    """In the palette. Notebook up to 7.5 may close it again, when a cell has ended."""
    field = page.locator(".lm-CommandPalette-input")
    until(lambda: field.is_visible() or page.keyboard.press("Control+Shift+c"))
    field.fill(entry)
    page.locator(".lm-CommandPalette-item", has_text=entry).click()


def test_the_kernel_is_picked_runs_a_cell_and_reconnects_after_a_cut(
    tpu, lab_server, context, line
):
    page = open_notebook(context, lab_server, line.port, CODE)
    choose_kernel(page, tpu["name"])
    cell_of(page, 0).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    until(lambda: len(lines_of(page)) >= 10, LONG / 1000, lambda: str(lines_of(page)[-3:]))
    expect(cell_of(page, 0)).to_contain_text(re.compile(r"on t1v-n-\w+-w-0"))
    until(lambda: state_of_kernel(lab_server) == "busy")
    line.cut()
    # The cell goes on to its end, and its last lines don't arrive.
    until(lambda: state_of_kernel(lab_server) == "idle")
    assert len(lines_of(page)) < LINES
    line.mend()
    until(lambda: len(lines_of(page)) >= LINES, 60, lambda: str(lines_of(page)[-3:]))
    assert lines_of(page) == [f"line {number} of {LINES}" for number in range(LINES)]
    expect(cell_of(page, 0).locator(".jp-InputPrompt")).to_have_text("[1]:")
    OUT.mkdir(exist_ok=True)
    page.screenshot(path=OUT / "notebook-7.png")


@pytest.mark.long  # what is shown: runs.spec.ts; this is where Notebook 7 shows it
def test_the_output_of_a_command_is_shown_below_the_notebook(tpu, lab_server, context):
    page = open_notebook(context, lab_server, lab_server.port, "")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="No Kernel").click()
    choose_command(page, "TPU: Run Command…")
    dialog.get_by_label("Command").fill("echo from $HOSTNAME")
    dialog.get_by_role("button", name="Run", exact=True).click()
    output = page.locator(".jp-tpu-Run pre")
    expect(output).to_contain_text("from")
    expect(output).to_be_in_viewport()
    OUT.mkdir(exist_ok=True)
    page.screenshot(path=OUT / "notebook-7-output.png")

    # The page of a TPU, too, with a height.
    choose_command(page, "Open TPU Panel")
    row = page.locator("#jp-tpu-panel").get_by_role("listitem", name=tpu["name"], exact=True)
    row.get_by_role("button", name=tpu["name"], exact=True).click()
    below = page.locator("#jp-down-stack .jp-tpu-Page")
    expect(below.get_by_role("heading", name=tpu["name"], exact=True)).to_be_in_viewport()


@pytest.mark.long
def test_an_app_opens_in_a_browser_window(tpu, lab_server, context):
    served = (
        "import http.server, threading\n"
        "handler = type('Handler', (http.server.BaseHTTPRequestHandler,), {\n"
        "    'do_GET': lambda self: (self.send_response(200), self.end_headers(),\n"
        "                            self.wfile.write(b'<h1>A page of the host</h1>')),\n"
        "    'log_message': lambda *_: None})\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), handler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "print('port', server.server_port)"
    )
    page = open_notebook(context, lab_server, lab_server.port, served)
    choose_kernel(page, tpu["name"])
    cell_of(page, 0).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    output = cell_of(page, 0).locator(".jp-OutputArea-output")
    expect(output).to_have_text(re.compile(r"port \d+"))
    port = re.findall(r"\d+", output.text_content() or "")[0]
    expect(cell_of(page, 0).locator(".jp-InputPrompt")).to_have_text("[1]:")

    choose_command(page, "TPU: Open Web App…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Port on the TPU").fill(port)
    with context.expect_page() as opened:
        dialog.get_by_role("button", name="Open").click()
    expect(opened.value.get_by_text("A page of the host")).to_be_visible()
    assert ".localhost" in opened.value.url
    OUT.mkdir(exist_ok=True)
    page.screenshot(path=OUT / "notebook-7-app.png")
