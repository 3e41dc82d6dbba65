"""The main job by clicking: create, connect, run a notebook, delete; and the first example."""

import json
import re

import pytest
from lab_server import CONNECT, LabPage
from playwright.sync_api import Locator, expect

NAME = "story"
KERNEL = re.compile(rf"Python 3\.\d+ · {NAME}\b")


def test_a_tpu_is_created_connected_used_from_a_notebook_and_deleted(lab):
    page, panel = lab.page, lab.panel
    # Created: what the type means and costs is said before, and what it means after.
    lab.open_form()
    lab.form.get_by_label("Name").fill(NAME)
    lab.choose_type("v5litepod-8")
    expect(lab.form).to_contain_text("8 chips · 1 host · 128 GB HBM. JAX sees 8 devices.")
    real = "about $9.60 an hour (us-central1, on demand, list price of 2024-12-23)"
    expect(lab.form).to_contain_text(f"Costs nothing. A real one: {real}")
    lab.form.get_by_label("Spot").check()
    expect(lab.form).to_contain_text("A real one: about $5.04 an hour (us-central1, spot, ")
    lab.form.get_by_label("On demand").check()
    lab.form.get_by_label("Connect when it is ready").uncheck()
    lab.form.get_by_role("button", name="Create", exact=True).click()
    tpu = lab.tpu(NAME)
    expect(tpu).to_contain_text("v5litepod-8 · us-central1-a")
    expect(tpu.get_by_role("button", name=NAME, exact=True)).to_be_focused()
    expect(panel).to_contain_text("Emulator: no real TPUs, no costs")
    lab.state(NAME, "Ready to connect")

    # Connected: with progress, steps and a log.
    tpu.get_by_role("button", name="Connect", exact=True).click()
    operation = panel.get_by_role("region", name=f"Connecting {NAME}")
    expect(operation.get_by_role("progressbar")).to_have_attribute(
        "aria-valuenow", re.compile(r"\d+")
    )
    operation.get_by_role("button", name="Show details").click()
    running = operation.get_by_role("list", name="Steps").locator("[aria-current=step]")
    expect(running).to_contain_text("running")
    expect(operation.get_by_role("log")).to_contain_text(re.compile(r"\w+"))
    expect(page.get_by_role("button", name=re.compile(rf"Connecting {NAME}"))).to_be_visible()
    lab.state(NAME, "Connected", timeout=CONNECT)
    # Other tests' TPU may be connected, too.
    connected = re.compile(rf"TPU: ({NAME}|2 TPUs) connected")
    expect(page.get_by_role("button", name=connected)).to_be_visible()

    # Its kernel is in the launcher at once, without a reload, and starts a notebook on the TPU.
    card = page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text=KERNEL)
    expect(card).to_be_visible()
    card.click()
    output = lab.run_cell("import jax; jax.devices()", timeout=90)
    expect(output.last).to_contain_text(re.compile(r"(CpuDevice\(id=\d+\),? ?){8}|id=7"))
    output = lab.run_cell("len(jax.devices())")
    expect(output.last).to_have_text("8")
    expect(tpu).to_contain_text("1 kernel")

    # What the kernel has on the chips is drawn while it is shown.
    details = lab.open_page(NAME)
    expect(details).to_contain_text("Environments")
    expect(details).to_contain_text("Costs nothing")
    expect(details).to_contain_text("8 chips · 1 host · 128 GB HBM")
    expect(details).to_contain_text(re.compile(r"\d+ % · 0\.0 of 128\.0 GiB"))
    map_ = details.get_by_role("img", name=f"{NAME}: 8 chips as 2x4, 1 of 1 hosts connected")
    expect(map_.locator(".jp-tpu-Map-chip")).to_have_count(8)
    plot = details.get_by_role("img", name=re.compile("Duty cycle and memory of host 0: "))
    expect(plot.locator("path").first).to_have_attribute("d", re.compile("M.+L"))
    details.get_by_role("button", name="Memory and load", exact=True).click()
    expect(plot).to_have_count(0)

    # The example needs the chips that this notebook has: one question, in words.
    question = open_example(lab, NAME)
    expect(question).to_contain_text(f"{NAME}’s chips are used by Untitled.ipynb (idle since ")
    question.get_by_role("button", name="Shut It Down and Start Here").click()
    expect(page.locator("#jp-main-statusbar")).to_contain_text("first-steps.ipynb")
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".jp-tpu-Notice")).to_have_count(0)
    expect(tpu).to_contain_text("1 kernel")
    line = f"The chips of {NAME} are in use by the kernel of Untitled.ipynb"
    _, *after = lab.server.log.read_text().split(line)  # JupyterLab's own lines at a reload before
    assert len(after) == 1
    assert "Traceback" not in after[0]

    # Deleted: after a question that names what would be lost.
    lab.act(NAME, "Delete…")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Delete {NAME}?")
    expect(dialog).to_contain_text(f"This shuts down 1 kernel on {NAME}. Its variables will be")
    expect(dialog.locator("li")).to_have_text(re.compile(r"first-steps\.ipynb (idle|busy)"))
    expect(dialog).to_contain_text(f"permanently deletes {NAME} in ")
    dialog.get_by_role("button", name="Cancel").click()
    lab.state(NAME, "Connected")
    lab.act(NAME, "Delete…")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tpu).to_have_count(0)
    told = page.get_by_role("alert").filter(has_text=f"shut down to delete {NAME}. Choose")
    expect(told).to_have_count(1)  # why the notebook has no kernel
    expect(panel.get_by_role("button", name=f"Deleted {NAME}")).to_be_visible()
    page.get_by_role("button", name="New Launcher").first.click()
    expect(page.locator(".jp-LauncherCard").first).to_be_visible()
    expect(page.locator(".jp-LauncherCard", has_text=KERNEL)).to_have_count(0)


@pytest.mark.long
def test_an_example_that_is_opened_in_the_panel_runs_on_the_tpu(tpu, lab):
    page, name = lab.page, tpu["name"]
    lab.tpu(name).get_by_role("button", name="Notebook").click()
    lab.run_cell("import jax; jax.devices()")
    open_example(lab, name).get_by_role("button", name="Cancel").click()
    # Not forgotten: it stands above the notebook, and widgets work when it has its kernel.
    line = page.locator(".jp-tpu-Notice:visible")
    expect(line).to_contain_text(f"{name}’s chips are used by Untitled")
    line.get_by_role("button", name="Shut It Down and Start Here").click()
    expect(line).to_have_count(0)
    bar = page.locator("#jp-main-statusbar")
    expect(bar).to_contain_text(re.compile(rf"· {name}.*\| Idle"))

    page.get_by_role("menubar").get_by_text("Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(notebook).to_contain_text("after 10 more steps", timeout=120_000)
    expect(notebook.locator(".jp-OutputArea-output", has_text="CpuDevice(id=7)")).to_have_count(1)
    expect(notebook.get_by_role("progressbar")).to_have_count(1)

    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saving completed")).to_be_visible()
    saved = json.loads((lab.server.root / "first-steps.ipynb").read_text())
    assert name in saved["metadata"]["kernelspec"]["display_name"]
    kinds = {o["output_type"] for cell in saved["cells"] for o in cell.get("outputs", ())}
    assert kinds == {"stream", "execute_result", "display_data"}


def open_example(lab: LabPage, name: str) -> Locator:
    """Opens the first example on a TPU whose chips are in use; returns the question about that."""
    lab.act(name, "Open Example…")
    dialog = lab.page.get_by_role("dialog")
    expect(dialog.locator("option")).to_have_count(6)
    dialog.locator("select").select_option("First steps on a TPU")
    dialog.get_by_role("button", name="Open").click()
    question = lab.page.get_by_role("dialog").filter(has_text="chips are used by")
    expect(question).to_be_visible()
    return question
