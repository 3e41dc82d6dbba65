"""A notebook on all hosts of a pod, as a person sees it in JupyterLab."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_server import CONNECT, LabPage, LabServer
from playwright.sync_api import Locator, Page, Route, expect

OUT = Path(__file__).parent / "out"
ONE_RAISES = """\
import jax.numpy as jnp
from jax.experimental import multihost_utils
if i == 1:
    raise ValueError('bad batch')
multihost_utils.process_allgather(jnp.arange(3))"""
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def pod(lab_server: LabServer) -> Iterator[str]:
    with lab_server.pod("pair") as name:
        yield name


@pytest.fixture
def notebook(lab: LabPage, pod: str) -> Iterator[Locator]:
    """A new notebook on all hosts, with the number of its host in *i*."""
    card = lab.page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text="all 2 hosts")
    card.click()
    lab.run_cell("import jax, time; i = jax.process_index()", timeout=CONNECT)
    yield lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    lab.server.end_kernels()


def test_output_by_host_has_tabs_and_an_exception_on_one_host_buttons_to_restart(lab, notebook):
    page: Page = lab.page
    lab.run_cell("for k in range(1 + 5 * i): print('line', k)")
    expect(notebook.get_by_role("tab")).to_have_text(["All", "host 0", "host 1"])
    panel = notebook.get_by_role("tabpanel")
    expect(panel).to_contain_text("… 3 more lines")
    notebook.get_by_role("tab", name="All").focus()
    page.keyboard.press("End")
    expect(notebook.get_by_role("tab", name="host 1")).to_be_focused()
    expect(panel).to_contain_text("line 5")
    lab.run_cell(ONE_RAISES)
    cell = notebook.locator(".jp-CodeCell").nth(2)
    expect(cell).to_contain_text("Host 1 raised ValueError: bad batch")
    expect(cell).to_contain_text("The hosts are out of step.")
    page.screenshot(path=OUT / "pod-exception.png")
    cell.get_by_role("button", name="Restart and Run Above").click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    # What is above runs again, and it does not; what offers to restart has done its work.
    expect(cell.get_by_role("button", name="Restart on All Hosts")).to_have_count(0)
    expect(notebook.locator(".jp-InputPrompt").nth(1)).to_have_text("[2]:", timeout=CONNECT * 1000)
    checked = lab.run_cell("%hosts check", timeout=CONNECT)
    expect(checked).to_have_text("All hosts are in step.")


def test_the_commonest_hang_is_said_and_after_an_interrupt_and_a_restart_nothing_is_left_of_it(
    lab, notebook
):
    page = lab.page
    lab.run_cell("from jax.experimental.multihost_utils import process_allgather", timeout=CONNECT)
    notebook.locator(".jp-CodeCell .cm-content").last.click()
    page.keyboard.insert_text(
        "import jax\nif i == 1:\n    time.sleep(600)\nprocess_allgather(jax.numpy.arange(3))"
    )
    page.keyboard.press("Shift+Enter")
    cell = notebook.locator(".jp-CodeCell").nth(2)
    expect(cell).to_contain_text("Host 1 is at line 3: time.sleep(600)")
    expect(cell).to_contain_text("Host 0 waits at line 4: process_allgather")
    page.screenshot(path=OUT / "pod-commonest-hang.png")
    page.keyboard.press("Escape")
    page.keyboard.type("ii")  # JupyterLab's shortcut to interrupt
    expect(cell).to_contain_text("Host 0 does not react to the interrupt.")
    expect(cell).to_contain_text("Host 0 is still at line 4: process_allgather")
    expect(cell).not_to_contain_text("interrupted at")
    expect(cell).not_to_contain_text("Host 1 is at line 3")
    page.screenshot(path=OUT / "pod-interrupted.png")
    restart = cell.get_by_role("button", name="Restart on All Hosts")
    restart.click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(restart).to_have_count(0)
    page.screenshot(path=OUT / "pod-restarted.png")
    checked = lab.run_cell("%hosts check", timeout=CONNECT)
    expect(checked).to_have_text("All hosts are in step.")


def test_a_cell_that_is_run_while_the_kernel_is_initializing_runs_when_it_is_there(lab, pod):
    page = lab.page
    held: list[Route] = []
    page.route(re.compile(r"/api/sessions\?"), lambda route: hold(route, held))
    page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text="all 2 hosts").click()
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Initializing")
    cell = notebook.locator(".jp-CodeCell").first
    cell.locator(".cm-content").click()
    page.keyboard.insert_text("print('it', 'ran')")
    page.keyboard.press("Shift+Enter")
    expect(cell.locator(".jp-InputPrompt")).to_have_text("[*]:")
    page.screenshot(path=OUT / "pod-early-cell.png")
    assert held
    for route in held:
        route.continue_()
    expect(cell).to_contain_text("it ran", timeout=CONNECT * 1000)
    expect(cell.locator(".jp-InputPrompt")).to_have_text("[1]:")
    lab.server.end_kernels()


def hold(route: Route, held: list[Route]) -> None:
    """Keeps the request that starts a kernel."""
    if route.request.method == "POST":
        held.append(route)
    else:
        route.continue_()


def test_the_map_shows_which_host_others_wait_for(lab, notebook):
    page = lab.page
    notebook.locator(".jp-CodeCell .cm-content").last.click()
    page.keyboard.insert_text("time.sleep(600 * i)")
    page.keyboard.press("Shift+Enter")
    expect(notebook).to_contain_text("Host 1 is at line 1: time.sleep(600 * i)")
    page.screenshot(path=OUT / "pod-hang.png")
    tpu = lab.open_page("pair")
    expect(tpu.get_by_label("Map of the slice", exact=True)).to_contain_text(
        "host 0 waiting for other hosts, host 1 busy"
    )
    expect(tpu.locator('.jp-tpu-Map-host[data-kernel="waiting"]')).to_have_count(1)
    expect(tpu.get_by_text("on all 2 hosts")).to_be_visible()
    page.screenshot(path=OUT / "pod-map.png")


def test_the_map_shows_a_dead_host(lab, notebook):
    page = lab.page
    lab.run_cell("import os\nif i == 1: os._exit(3)", timeout=CONNECT)
    expect(notebook).to_contain_text("The kernel of host 1 exited with code 3.")
    page.screenshot(path=OUT / "pod-dead-cell.png")
    tpu = lab.open_page("pair")
    expect(tpu.get_by_label("Map of the slice", exact=True)).to_contain_text("host 1 dead")
    expect(tpu.locator('.jp-tpu-Map-host[data-kernel="dead"]')).to_have_count(1)
    page.screenshot(path=OUT / "pod-map-dead.png")
