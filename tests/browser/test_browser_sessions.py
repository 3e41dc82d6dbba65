"""Saved variables in JupyterLab: chosen on a TPU's page, kept over a restart, continued on a TPU of
another type, and there again after a reboot, and after their TPU was deleted.
"""

import re
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from adoption_server import Server
from lab_server import LabPage
from notebook_tabs import OUT, lab_beside
from playwright.sync_api import Locator, Page, expect
from waiting import until

VARIABLES = """
import jax
from jax.sharding import NamedSharding, PartitionSpec
mesh = jax.make_mesh((2, 2), ("data", "model"))
split = NamedSharding(mesh, PartitionSpec("data", "model"))
weights = jax.device_put(jax.numpy.arange(64.0).reshape(8, 8), split)
loader = (number for number in range(3))
print(len(weights.sharding.device_set))
"""
CHECK = "print(len(weights.sharding.device_set), weights.sharding.spec, float(weights.sum()))"
#: Ends at once when it runs again, after its host was rebooted.
CELL = """
import pathlib, time
begun = pathlib.Path("begun")
print("again" if begun.exists() else "begun", weights.sum(), flush=True)
if not begun.exists():
    begun.touch()
    time.sleep(3600)
"""
#: ms; a kernel starts meanwhile, or a host.
LONG = 180_000


@pytest.fixture(scope="module")
def bucket(emulator: Any) -> str:
    name = f"sessions-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "location": "us-west4"}
    emulator.request("POST", f"/storage/v1/b?project={emulator.state.project}", body)
    return f"gs://{name}/notebooks"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A JupyterLab with the TPUs *small*, of 4 chips, and *large*, of 8."""
    folder = tmp_path_factory.mktemp("sessions-lab")
    with lab_beside(emulator, folder, sys.executable, tpu="small") as (server, _):
        body = {"name": "large", "type": "v5litepod-8", "zone": "us-west4-a", "connect": {}}
        server.finish(server.tpu("POST", "tpus", body))
        for connecting in server.tpu("GET", "tpus/large")["operations"]:
            server.finish(server.tpu("GET", f"operations/{connecting}"))
        yield server
        server.end_sessions()
        server.delete_tpu("large")


def notice(page: Page) -> Locator:
    """The line at the top of the notebook in front."""
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-tpu-Notice")


def choose_in_kernel_menu(page: Page, entry: str) -> None:
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=entry).click()


def kernels(server: Server) -> set[str]:
    """The ids of those that run on *small*."""
    return {one["id"] for one in server.tpu("GET", "tpus/small/kernels") if one["state"] != "dead"}


def picture(page: Page, name: str) -> None:
    OUT.mkdir(exist_ok=True)
    page.screenshot(path=OUT / f"sessions-{name}.png", animations="disabled")


@pytest.mark.long  # the panel's part is in sessions.spec.ts, the fleet's in its own tests
def test_variables_outlive_their_kernel_their_host_and_their_tpu(page, server, bucket, emulator):
    lab = LabPage(page, server)
    lab.open()
    dialog, line = page.get_by_role("dialog"), notice(page)

    # Where they are saved is chosen on the page of the TPU.
    lab.act("small", "Sessions…")
    tpu = page.locator(".jp-tpu-Page:visible")
    tpu.get_by_role("button", name="When variables are saved, and where…").click()
    dialog.get_by_label("Where", exact=True).select_option("A bucket")
    dialog.get_by_label("Bucket and folder").fill(bucket)
    dialog.get_by_label("Seconds without a cell").fill("1")
    picture(page, "setting")
    dialog.get_by_role("button", name="Save").click()
    expect(tpu).to_contain_text(f"In {bucket}.")
    lab.tpu("small").get_by_role("button", name="New Notebook").click()
    assert lab.run_cell(VARIABLES, timeout=120).all_text_contents() == ["4\n"]

    # A restart keeps them, and says what it can't keep.
    choose_in_kernel_menu(page, "Restart Kernel and Keep Variables…")
    dialog.get_by_role("button", name="Restart").click()
    expect(line).to_contain_text("Not there: loader (a generator", timeout=LONG)
    picture(page, "restarted")
    line.get_by_role("button", name="Dismiss").click()
    lab.run_cell("loader = (number for number in range(3))")
    lab.open_page("small")
    expect(tpu.get_by_role("button", name="that were not kept")).to_be_visible()
    tpu.get_by_role("button", name="that were not kept").click()
    expect(tpu).to_contain_text("a generator")
    picture(page, "list")

    # Continued on a TPU of another type.
    page.get_by_role("tab", name="Untitled.ipynb").click()
    choose_in_kernel_menu(page, "Continue on Another TPU…")
    expect(dialog.get_by_label("Bucket and folder")).to_have_value(bucket)
    picture(page, "continue")
    dialog.get_by_role("button", name="Save and Continue").click()
    expect(dialog).to_contain_text("Continue on large without 1 variable?", timeout=LONG)
    picture(page, "missing")
    dialog.get_by_role("button", name="Continue", exact=True).click()
    said = re.compile(r"Restored \d+ of \d+ variables, saved .*, from small \(v5litepod-4\)")
    expect(line).to_contain_text(said, timeout=LONG)
    expect(line).to_contain_text("The mesh data=2, model=2 has the sizes data=4, model=2 here.")
    picture(page, "restored")
    line.get_by_role("button", name="Dismiss").click()
    restored = ["8 P('data', 'model') 2016.0\n"]
    assert lab.run_cell(CHECK).all_text_contents() == restored

    # And back, where its host is rebooted in the middle of a cell.
    choose_in_kernel_menu(page, "Continue on Another TPU…")
    dialog.get_by_role("button", name="Save and Continue").click()
    expect(line).to_contain_text("Restored", timeout=LONG)
    line.get_by_role("button", name="Dismiss").click()
    lab.run_cell("step = 1")
    # Its host knows which kernel has saved it, and which cell runs, when it is rebooted.
    until(lambda: kernels(server) & {one["kernel"] for one in server.tpu("GET", "sessions")})
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    cell = notebook.locator(".jp-CodeCell").last
    cell.locator(".cm-content").click()
    page.keyboard.insert_text(CELL)
    page.keyboard.press("Shift+Enter")
    expect(notebook).to_contain_text("begun 2016.0")
    until(lambda: any(one["cell"] for one in server.tpu("GET", "tpus/small/kernels")))
    node = f"projects/{emulator.state.project}/locations/us-west4-a/nodes/small"
    emulator.request("POST", "/emulator/v1/faults", {"kind": "reboot", "node": node})
    expect(line).to_contain_text("A cell was interrupted at", timeout=LONG)
    again = line.get_by_role("button", name="Run Again from the Last Save")
    expect(again).to_be_visible(timeout=LONG)
    picture(page, "interrupted")
    again.click()
    expect(notebook).to_contain_text("again 2016.0", timeout=LONG)
    expect(page.locator(".Toastify__toast", has_text="Restoring")).to_have_count(0)
    picture(page, "again")
    line.get_by_role("button", name="Dismiss").click()

    # Its TPU is deleted: the question says where they are, and the notebook continues elsewhere.
    lab.act("small", "Delete…")
    expect(dialog).to_contain_text(f"their variables are saved in {bucket}")
    dialog.get_by_label("Variables of these kernels").select_option("require")
    picture(page, "delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(lab.tpu("small")).to_have_count(0, timeout=LONG)
    line.get_by_role("button", name="Continue on…").click(timeout=LONG)
    picture(page, "elsewhere")
    dialog.get_by_role("button", name="Continue", exact=True).click()
    expect(line).to_contain_text("Restored", timeout=LONG)
    assert lab.run_cell(CHECK).all_text_contents() == restored

    lab.open_page("large")
    tpu.get_by_role("button", name="Forget Untitled…").click()
    expect(dialog).to_contain_text("This can’t be undone.")
    dialog.get_by_role("button", name="Forget").click()
    expect(tpu.get_by_role("button", name="Forget Untitled…")).to_have_count(0)
