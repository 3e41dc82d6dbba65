"""The panel: accessible, with one socket for events, and dialogs that keep their input."""

import json
import re
from pathlib import Path

import pytest
from lab_server import WINDOW, LabPage
from playwright.sync_api import Page, WebSocketRoute, expect

OPENED_ONCE = True
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


def violations(page: Page, selector: str) -> list[str]:
    """What axe finds in a part of the page: rule, its weight and the elements."""
    if not page.evaluate("() => 'axe' in window"):
        page.add_script_tag(path=AXE)
    result = page.evaluate("async selector => (await axe.run(selector)).violations", selector)
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]}"
        for rule in result
        for node in rule["nodes"]
    ]


def test_axe_finds_nothing_in_the_list_the_form_a_page_and_a_dialog(lab, tpu):
    page, name = lab.page, tpu["name"]
    problems: dict[str, list[str]] = {}
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.set_theme(theme)
        expect(lab.tpu(name)).to_be_visible()
        problems[f"list, {theme}"] = violations(page, "#jp-tpu-panel")
        lab.open_form()
        problems[f"form, {theme}"] = violations(page, "#jp-tpu-panel")
        lab.panel.get_by_role("button", name="Back to the list").click()
        lab.open_page(name)
        problems[f"page, {theme}"] = violations(page, ".jp-tpu-Page")
        lab.act(name, "Files", "Copy Files and Folders…")
        expect(page.get_by_role("dialog").get_by_label("Direction")).to_be_focused()
        problems[f"dialog, {theme}"] = violations(page, ".jp-tpu-QuestionDialog .jp-tpu-Dialog")
        page.keyboard.press("Escape")
    assert not any(problems.values()), json.dumps(problems, indent=1)


def test_a_file_is_copied_from_the_menu_of_the_file_browser(lab, tpu):
    page, name = lab.page, tpu["name"]
    (lab.server.root / "picked").mkdir(exist_ok=True)
    (lab.server.root / "picked" / "note.txt").write_text("from here")
    page.get_by_role("tab", name=re.compile("File Browser")).click()
    entry = page.locator(".jp-DirListing-item", has_text="picked")
    page.evaluate("() => window.jupyterapp.commands.execute('filebrowser:refresh')")
    entry.click(button="right")
    expect(page.get_by_role("menuitem", name="Sync with TPU…")).to_be_visible()
    page.get_by_role("menuitem", name="Copy to TPU…").click()
    dialog = page.get_by_role("dialog")
    source = dialog.get_by_label(re.compile("^File or folder on the computer"))
    expect(source).to_have_value("picked")

    # What is not there is said in the dialog, which keeps what was entered.
    source.fill("picked/missing.txt")
    dialog.get_by_label(re.compile("^Copy to")).fill("~/arrived/")
    dialog.get_by_role("button", name="Copy", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("missing.txt")
    expect(source).to_have_value("picked/missing.txt")

    # The file dialog looks it up: beginning at what Jupyter shows.
    dialog.get_by_role("button", name=re.compile("^Browse: File or folder")).click()
    chooser = page.locator(".jp-Dialog .jp-tpu-Pick")
    chooser.locator(".jp-DirListing-item", has_text="picked").dblclick()
    chooser.locator(".jp-DirListing-item", has_text="note.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Select").click()
    expect(source).to_have_value("picked/note.txt")
    expect(dialog.get_by_label(re.compile("^Copy to"))).to_have_value("~/arrived/")
    dialog.get_by_label(re.compile("^Copy to")).fill("~")
    dialog.get_by_role("button", name="Copy", exact=True).click()
    done = lab.panel.get_by_role("region", name=f"Copied 1 file to {name}")
    expect(done).to_be_visible()
    done.get_by_role("button", name="Dismiss").click()


@pytest.mark.long  # without the page: changeFeed.spec.ts
def test_there_is_one_socket_for_events_and_none_is_said_where_it_is_blocked(browser, lab_server):
    context = browser.new_context(**WINDOW)
    page = context.new_page()
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    lab = LabPage(page, lab_server)
    lab.open()
    expect(lab.panel.get_by_role("heading", name="TPU", exact=True)).to_be_visible()
    assert len([url for url in sockets if "/api/events/subscribe" in url]) == 1, sockets

    def block(socket: WebSocketRoute) -> None:
        socket.close()

    page.route_web_socket(re.compile("/api/events/subscribe"), block)
    lab.open()
    expect(lab.panel.get_by_text("Live updates do not arrive.")).to_be_visible()
    context.close()


def test_a_page_from_before_an_update_asks_to_be_loaded_again(lab):
    status = lab.server.call("GET", "status")
    lab.page.route(
        "**/jupyter-tpu/v1/status*",
        lambda route: route.fulfill(json={**status, "version": "999.0.0"}),
    )
    lab.open()
    notice = lab.panel.get_by_role("note").filter(has_text="the server runs 999.0.0")
    expect(notice).to_contain_text("Save your work, then reload the page.")
    lab.page.unroute("**/jupyter-tpu/v1/status*")
    with lab.page.expect_navigation():
        notice.get_by_role("button", name="Reload").click()
    expect(lab.panel.get_by_text("the server runs")).to_have_count(0)
