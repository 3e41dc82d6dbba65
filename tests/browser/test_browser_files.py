"""Files that a person uploads to a host and downloads from it, in the panel."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lab_server import LabPage
from playwright.sync_api import expect


def test_a_file_goes_to_a_host_and_comes_back(
    lab: LabPage, tpu: dict[str, Any], tmp_path: Path
) -> None:
    page, name = lab.page, tpu["name"]
    content = os.urandom(3 << 20)
    chosen = tmp_path / "wörk & play.bin"
    chosen.write_bytes(content)

    lab.act(name, "Upload Files…")
    page.get_by_label("Files", exact=True).set_input_files(chosen)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text(f"Uploaded {chosen.name} to {name}")).to_be_visible()

    # Nothing is replaced without a question.
    lab.act(name, "Upload Files…")
    page.get_by_label("Files", exact=True).set_input_files(chosen)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Overwrite {chosen.name}?")
    page.get_by_role("button", name="Skip").click()

    lab.act(name, "Download File…")
    page.get_by_label("File on the host").fill("no-such-file")
    page.get_by_role("button", name="Download", exact=True).click()
    expect(page.get_by_text("no-such-file does not exist on")).to_be_visible()

    lab.act(name, "Download File…")
    page.get_by_label("File on the host").fill(chosen.name)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    assert download.value.suggested_filename == chosen.name
    assert Path(download.value.path()).read_bytes() == content
