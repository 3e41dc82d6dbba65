"""Each part of the extension can be disabled, and what was dismissed stays dismissed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_server import LabPage, LabServer
from playwright.sync_api import Browser, expect


@pytest.fixture
def without_panel(lab_server: LabServer) -> Iterator[None]:
    """What `jupyter labextension disable jupyter-tpu:panel` writes."""
    file = lab_server.log.parent / "config" / "labconfig" / "page_config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"disabledExtensions": {"jupyter-tpu:panel": True}}))
    yield
    file.unlink()


def test_without_the_panel_the_other_parts_work(
    without_panel: None, browser: Browser, lab_server: LabServer
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{lab_server.url}/lab?reset&token={lab_server.token}")
    expect(page.locator(".jp-Launcher")).to_be_visible()
    expect(page.get_by_role("tab", name="File Browser")).to_be_visible()
    expect(page.get_by_role("tab", name="TPU", exact=True)).to_have_count(0)
    has_command = "id => window.jupyterapp.commands.hasCommand(id)"
    assert page.evaluate(has_command, "tpu:create")
    assert not page.evaluate(has_command, "tpu:open-panel")
    plugins = (
        "window.jupyterapp.listPlugins().filter(id => window.jupyterapp.isPluginActivated(id))"
    )
    active = {name for name in page.evaluate(plugins) if name.startswith("jupyter-tpu:")}
    assert {"jupyter-tpu:model", "jupyter-tpu:kernel-socket", "jupyter-tpu:status-bar"} <= active
    context.close()


def test_a_dismissed_failure_stays_dismissed_after_a_reload(
    lab: LabPage, lab_server: LabServer
) -> None:
    name = "unloved"
    body = {"name": name, "type": "v5litepod-1", "zone": "us-central1-a"}
    assert lab_server.finish(lab_server.call("POST", "tpus", body))["state"] == "done"
    request = {"packages": ["no-such-package-of-jupyter-tpu"]}
    done = lab_server.finish(lab_server.call("POST", f"tpus/{name}/connect", request))
    assert done["state"] == "failed", done
    failed = lab.tpu(name).get_by_role("region", name=f"{name} could not be connected")
    expect(failed).to_be_visible()
    lab.page.reload()
    expect(failed).to_be_visible()
    failed.get_by_role("button", name="Dismiss").click()
    expect(failed).to_have_count(0)
    lab.page.reload()
    expect(lab.tpu(name)).to_be_visible()
    expect(failed).to_have_count(0)
    lab_server.finish(lab_server.call("DELETE", f"tpus/{name}", {}))
