"""Files that a person uploads to a host and downloads from it, in the panel."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from sharing_hosts import REMOVE_STAND_INS, STAND_INS
from waiting import until

OUT = Path(__file__).parent / "out"
WORKSPACES = "lab/api/workspaces/"


@pytest.mark.long
def test_a_file_goes_to_a_host_and_comes_back(lab, tpu, tmp_path):
    page, name = lab.page, tpu["name"]
    content = os.urandom(3 << 20)
    chosen = tmp_path / "wörk & play.bin"
    chosen.write_bytes(content)

    lab.act(name, "Files", "Upload Files…")
    page.get_by_label("Files", exact=True).set_input_files(chosen)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text(f"Uploaded {chosen.name} to {name}")).to_be_visible()

    # Nothing is replaced without a question.
    lab.act(name, "Files", "Upload Files…")
    page.get_by_label("Files", exact=True).set_input_files(chosen)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Overwrite {chosen.name}?")
    page.get_by_role("button", name="Skip").click()

    lab.act(name, "Files", "Download File…")
    page.get_by_label("File on the host", exact=True).fill("no-such-file")
    page.get_by_role("button", name="Download", exact=True).click()
    # The dialog says why, and keeps its input.
    expect(page.get_by_role("dialog")).to_contain_text("no-such-file does not exist on")
    page.get_by_label("File on the host", exact=True).fill(chosen.name)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    assert download.value.suggested_filename == chosen.name
    assert Path(download.value.path()).read_bytes() == content


@pytest.mark.long
def test_a_command_that_has_the_chips_is_shown_and_ended(lab, tpu):
    page, name = lab.page, tpu["name"]
    hold = "import os, time; chip = os.open('/dev/vfio/0', os.O_RDWR); time.sleep(600)"
    lab.act(name, "Run Command…")
    page.get_by_label("Command", exact=True).fill(f'echo begins; python3 -c "{hold}"')
    page.get_by_role("button", name="Run", exact=True).click()
    run = page.locator(".jp-tpu-Run")
    expect(run.locator("pre")).to_have_text("begins\n")
    expect(run.get_by_role("status")).to_have_text("Running…")

    lab.act(name, "Chips and Profiles", "Free Chips…")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This stops the programs that use the chips:Command: python3 -c")
    dialog.get_by_role("button", name="Stop All").click()
    expect(page.get_by_text(f"The chips of {name} are free.")).to_be_visible()
    expect(run.get_by_role("status")).to_contain_text("Stopped")

    lab.act(name, "Chips and Profiles", "Free Chips…")
    expect(dialog).to_contain_text("No process uses the chips.")
    dialog.get_by_role("button", name="Close").click()


@pytest.mark.long
def test_a_project_is_synced_and_a_conflict_is_decided_in_the_panel(lab, lab_server, tpu, tmp_path):
    page, name = lab.page, tpu["name"]
    here, other = tmp_path / "here", tmp_path / "other"
    for folder, text in ((here, "1"), (other, "333")):
        folder.mkdir()
        (folder / "train.py").write_text(text)
    (here / "out").symlink_to("/")

    def sync() -> None:
        lab.act(name, "Files", "Sync a Folder…")
        page.get_by_label("Folder on the computer that runs Jupyter", exact=True).fill(str(here))
        page.get_by_label("Folder on the TPU (optional)", exact=True).fill("from the panel")
        page.get_by_role("button", name="Sync", exact=True).click()

    sync()
    expect(page.get_by_text("Copied 1 file (1 byte) to 1 host · 1 left out")).to_be_visible()

    # Somebody else changes it there.
    request = {"folder": str(other), "remote": "from the panel", "overwrite": True}
    lab_server.call("POST", f"tpus/{name}/sync", request)
    expect(page.get_by_text("Copied 1 file (3 bytes) to 1 host")).to_be_visible()

    (here / "train.py").write_text("22")
    sync()
    conflict = page.get_by_text("1 file was not copied: both sides have changed it.")
    expect(conflict).to_be_visible()
    page.get_by_role("button", name="Use the TPU’s").click()
    expect(page.get_by_text("Copied 1 file (3 bytes) to this computer")).to_be_visible()
    expect(conflict).to_be_hidden()
    assert (here / "train.py").read_text() == "333"


@pytest.mark.long
def test_the_files_of_a_host_are_in_the_file_browser(lab, tpu, lab_server):
    """Listed, opened, edited, saved, renamed and deleted there, as files of this computer are."""
    page, name = lab.page, tpu["name"]

    def contents(path: str, method: str = "GET", body: Any = None) -> Any:
        return lab_server.call(method, f"tpus/{name}/hosts/0/contents/{path}", body)

    folder = f"{contents('')['home']}/browsed"
    contents(folder, "PUT", {"type": "directory"})
    contents(f"{folder}/notes.txt", "PUT", {"format": "text", "content": "first"})

    lab.act(name, "Files", "Browse Files")
    files = page.get_by_role("region", name=f"Files of {name}")
    expect(files.locator(".jp-tpu-Files-heading")).to_contain_text(name)
    files.locator(".jp-DirListing-item", has_text="browsed").dblclick()
    notes = files.locator(".jp-DirListing-item", has_text="notes.txt")
    notes.dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    expect(editor).to_have_text("first")
    editor.click()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("second")
    page.keyboard.press("ControlOrMeta+S")
    until(lambda: contents(f"{folder}/notes.txt")["content"].strip() == "second")

    # What another program writes meanwhile is not overwritten without a question. JupyterLab takes
    # times that differ by less than half a second for equal.
    saved = datetime.fromisoformat(contents(f"{folder}/notes.txt")["last_modified"])

    def is_newer() -> bool:
        theirs = {"format": "text", "content": "theirs"}
        written = contents(f"{folder}/notes.txt", "PUT", theirs)["last_modified"]
        return datetime.fromisoformat(written) - saved > timedelta(seconds=1)

    until(is_newer)
    page.keyboard.type(" third")
    page.keyboard.press("ControlOrMeta+S")
    changed = page.get_by_role("dialog")
    expect(changed).to_contain_text("has changed on disk")
    changed.get_by_role("button", name="Revert").click()
    expect(editor).to_have_text("theirs")

    notes.click()
    page.keyboard.press("F2")
    page.keyboard.type("renamed")  # without its extension, as it is selected
    page.keyboard.press("Enter")
    renamed = files.locator(".jp-DirListing-item", has_text="renamed.txt")
    expect(renamed).to_be_visible()
    renamed.click()
    page.keyboard.press("Delete")
    page.get_by_role("dialog").get_by_role("button", name="Move to Trash").click()
    expect(renamed).to_have_count(0)
    assert contents(folder)["content"] == []


@pytest.mark.long
def test_a_job_is_followed_over_a_reload_and_its_end_is_said_once(lab, lab_server, tpu):
    page, name = lab.page, tpu["name"]
    lab.act(name, "New Job…")
    dialog = page.get_by_role("dialog")
    waits = "seq 2500; until [ -e go-job ]; do sleep 0.1; done; echo all done; exit 3"
    dialog.get_by_label("Command").fill(waits)
    page.screenshot(path=OUT / "job-form.png")
    dialog.get_by_role("button", name="Start", exact=True).click()
    job = lab.open_page(name).get_by_role("list", name=f"Jobs on {name}").get_by_role("listitem")
    expect(job).to_contain_text("running")
    job.get_by_role("button", name="Where does").click()
    expect(dialog).to_contain_text("Host 0: ")
    page.screenshot(path=OUT / "job-where.png")
    dialog.get_by_role("button", name="Close").click()
    job.get_by_role("button", name="Show the output of").click()
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("2500")
    expect(log.locator("[data-number='1']")).to_have_count(0)  # the last lines only
    page.get_by_label("Start at line").fill("1")
    expect(log.locator("[data-number='1']")).to_have_count(1)
    page.get_by_label("Start at line").fill("")
    page.get_by_label("Only lines with this text").fill("249")
    expect(log.locator("[data-number]")).to_have_count(13)

    for theme in ("Dark", "Light"):
        lab.set_theme(f"JupyterLab {theme}")
        for width in (250, 330):
            lab.resize(width)
            page.screenshot(path=OUT / f"job-{theme.lower()}-{width}.png")

    # What would end it asks, and names it.
    lab.act(name, "Delete…")
    expect(dialog).to_contain_text("This ends 1 job on")
    expect(dialog.get_by_role("listitem")).to_contain_text("seq 2500")
    page.screenshot(path=OUT / "job-delete.png")
    dialog.get_by_role("button", name="Cancel").click()

    # The tab is there again after a reload, and so is the news of the job's end.
    until(lambda: "jupyter-tpu-jobs" in json.dumps(lab_server.request("GET", WORKSPACES)))
    page.goto(f"{lab_server.url}/lab?token={lab_server.token}")
    expect(log).to_contain_text("2500")
    lab_server.call("POST", f"tpus/{name}/runs", {"command": ["touch", "go-job"]})
    expect(log).to_contain_text("all done")
    said = page.get_by_role("alert").filter(has_text="failed with exit code 3")
    expect(said).to_have_count(1)
    lab.open_page(name)
    expect(job).to_contain_text("failed with exit code 3")
    job.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(job).to_have_count(0)


@pytest.mark.long
def test_a_folder_is_shared_with_another_tpu_and_taken_back(lab, lab_server, tpu):
    """Up to the mount itself: the kernel of emulated hosts has no NFS."""
    page, name, other = lab.page, tpu["name"], "shared-too"
    body = {"name": other, "type": "v5litepod-4", "zone": tpu["zone"]}
    assert lab_server.finish(lab_server.call("POST", "tpus", body))["state"] == "done"

    def on_both(script: str) -> None:
        for node in (name, other):
            runs = f"tpus/{node}/runs"
            run: Any = lab_server.call("POST", runs, {"command": ["sh", "-c", script]})

            def ended(path: str = f"{runs}/{run['id']}") -> Any:
                now: Any = lab_server.call("GET", path)
                return now["state"] == "done" and now

            assert until(ended)["code"] == 0

    def pictures(of: str) -> None:
        for theme in ("Dark", "Light"):
            lab.set_theme(f"JupyterLab {theme}")
            page.screenshot(path=OUT / f"share-{of}-{theme.lower()}.png")

    dialog = page.get_by_role("dialog")
    lab.resize(250)
    lab.act(name, "Files", "Share a Folder…")
    dialog.get_by_label("Folder on host 0", exact=True).fill("our data")
    dialog.get_by_label(f"On the hosts of {other}, too").check()
    pictures("form")
    dialog.get_by_role("button", name="Show What Changes").click()
    expect(dialog).to_contain_text("our data can’t be shared")
    expect(dialog).to_contain_text(f"Host 0 of {name} · Host 0 of {other}")
    expect(dialog).to_contain_text("It has no systemd and its kernel has no NFS.")
    pictures("refused")
    dialog.get_by_role("button", name="Close").click()

    on_both(STAND_INS)
    try:
        lab.act(name, "Files", "Share a Folder…")
        dialog.get_by_label("Folder on host 0", exact=True).fill("our data")
        dialog.get_by_label(f"On the hosts of {other}, too").check()
        dialog.get_by_role("button", name="Show What Changes").click()
        expect(dialog).to_contain_text(f"Host 0 of {other}")
        expect(dialog).to_contain_text("What=")
        pictures("plan")
        dialog.get_by_role("button", name="Share", exact=True).click()
        failed = lab.panel.get_by_text(f"Host 0 of {other}: ")
        expect(failed).to_contain_text(f"Host 0 of {other}: /home/")
        pictures("failed")

        details = lab.open_page(name)
        folder = details.get_by_role("listitem").filter(has_text="our data")
        expect(folder).to_contain_text("on 0 of 1 other hosts")
        pictures("listed")
        folder.get_by_role("button", name="Stop sharing").click()
        expect(dialog).to_contain_text("Its files stay on host 0.")
        dialog.get_by_role("button", name="Stop Sharing").click()
        expect(details).to_contain_text("No folder is shared.")
        pictures("removed")
    finally:
        on_both(REMOVE_STAND_INS)
        lab_server.finish(lab_server.call("DELETE", f"tpus/{other}", {}))
