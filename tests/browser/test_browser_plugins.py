"""Each part of the extension can be disabled, and what was dismissed stays dismissed."""

import json
from collections.abc import Iterator

import pytest
from lab_server import WINDOW, LabServer
from playwright.sync_api import expect


@pytest.fixture
def without_panel(lab_server: LabServer) -> Iterator[None]:
    """What `jupyter labextension disable jupyter-tpu:panel` writes."""
    file = lab_server.log.parent / "config" / "labconfig" / "page_config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"disabledExtensions": {"jupyter-tpu:panel": True}}))
    yield
    file.unlink()


@pytest.mark.long
def test_without_the_panel_the_other_parts_work(without_panel, browser, lab_server):
    context = browser.new_context(**WINDOW)
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


@pytest.mark.long  # the fleet's part: test_lifecycle_story.py; the panel's: environments.spec.ts
def test_a_typo_is_said_once_and_is_gone_with_its_environment(lab, lab_server):
    name = "unloved"
    body = {"name": name, "type": "v5litepod-1", "zone": "us-central1-a"}
    assert lab_server.finish(lab_server.call("POST", "tpus", body))["state"] == "done"
    request = {"packages": ["no-such-package-of-jupyter-tpu"]}
    done = lab_server.finish(lab_server.call("POST", f"tpus/{name}/connect", request))
    assert done["state"] == "failed", done
    tpu, sentence = lab.tpu(name), "Package no-such-package-of-jupyter-tpu was not found."
    expect(lab.panel.get_by_text(sentence)).to_have_count(1)
    lab.page.reload()
    expect(lab.panel.get_by_text(sentence)).to_have_count(1)
    lab.panel.get_by_role("button", name="Fix…").click()
    expect(lab.panel.get_by_label("Python packages")).to_have_value(request["packages"][0])
    lab.panel.get_by_role("button", name="Back to the list").click()
    lab.panel.get_by_role("button", name="Remove…").click()
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Remove").click()
    expect(lab.panel).not_to_contain_text("no-such-package")
    lab.page.reload()
    expect(tpu).to_contain_text("Ready to connect")
    expect(lab.panel).not_to_contain_text("no-such-package")
    lab_server.finish(lab_server.call("DELETE", f"tpus/{name}", {}))
