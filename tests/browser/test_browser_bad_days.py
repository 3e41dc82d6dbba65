"""Bad days of the panel: two tabs, a server that sleeps, double clicks, long names, a long past."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, Page, Route, WebSocketRoute, expect

from jupyter_tpu.emulator import EmulatorState

ZONE = "us-central1-a"
SMALL = "v5litepod-1"
TOASTS = ".Toastify__toast"


@pytest.fixture(scope="module")
def opened(page: Page, lab_server: LabServer) -> None:
    LabPage(page, lab_server).open()


@pytest.fixture
def lab(opened: None, unopened_lab: LabPage) -> Iterator[LabPage]:
    """JupyterLab, opened once for all tests of this file."""
    yield unopened_lab
    unopened_lab.page.keyboard.press("Escape")


@pytest.fixture
def another(browser: Browser, lab_server: LabServer) -> Iterator[LabPage]:
    """Another browser that looks at the same server."""
    context = browser.new_context(**WINDOW)
    lab = LabPage(context.new_page(), lab_server)
    yield lab
    context.close()


def fill(lab: LabPage, name: str) -> None:
    """The form for a small TPU that is not connected."""
    lab.open_form()
    lab.form.get_by_label("Name").fill(name)
    lab.choose_type(SMALL)
    lab.form.get_by_label("Zone", exact=True).select_option(ZONE)
    lab.form.get_by_label("Connect when it is ready").uncheck()


def names(server: LabServer) -> list[str]:
    tpus = server.call("GET", "tpus")
    assert isinstance(tpus, dict)
    return [tpu["name"] for tpu in tpus["tpus"]]


def delete(server: LabServer, name: str) -> None:
    done = server.finish(server.call("DELETE", f"tpus/{name}", {}))
    assert done["state"] == "done", done


def at_google(server: LabServer, method: str, path: str, body: object = None) -> Any:
    """A call of the emulated cloud, as somebody else may make it."""
    folder = server.root.parent / "tpu" / "emulator"
    state = EmulatorState.read(folder / "emulator.json")
    token = Path(state.token_file).read_text().strip()
    request = urllib.request.Request(
        f"{state.rest}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def test_a_double_click_on_create_makes_one_tpu_which_has_the_focus(lab: LabPage) -> None:
    sent: list[str] = []
    lab.page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
    fill(lab, "clicked-twice")
    lab.form.get_by_role("button", name="Create", exact=True).dblclick()
    lab.state("clicked-twice", "Ready to connect")
    assert len([one for one in sent if re.match(r"POST .*/v1/tpus$", one)]) == 1, sent
    inside = "row => row.contains(document.activeElement)"
    row = lab.tpu("clicked-twice")
    lab.page.wait_for_function(inside, arg=row.element_handle())

    # In a second tab, what the first one does is shown once; neither is told twice.
    second = LabPage(lab.page.context.new_page(), lab.server)
    second.open()
    expect(second.tpu("clicked-twice")).to_have_count(1)
    lab.act("clicked-twice", "Delete…")
    lab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(second.panel.get_by_role("region", name="Deleted clicked-twice")).to_have_count(1)
    expect(second.tpu("clicked-twice")).to_have_count(0)
    expect(lab.panel.get_by_role("region", name="Deleted clicked-twice")).to_have_count(1)
    expect(lab.tpu("clicked-twice")).to_have_count(0)
    assert [second.page.locator(TOASTS).count(), lab.page.locator(TOASTS).count()] == [0, 0]
    # The focus is at a row that is left, not lost.
    left = "() => !!document.activeElement.closest('.jp-tpu-TPU')"
    if names(lab.server):
        lab.page.wait_for_function(left)
    second.page.close()


def test_a_job_that_ends_is_said_once_in_each_of_two_tabs(
    lab: LabPage, tpu: dict[str, Any]
) -> None:
    second = LabPage(lab.page.context.new_page(), lab.server)
    second.open()
    name = tpu["name"]
    expect(second.tpu(name)).to_be_visible()
    lab.server.call("POST", f"tpus/{name}/jobs", {"command": ["sleep", "3"], "name": "nap"})
    for one in (lab, second):
        toast = one.page.locator(TOASTS, has_text="nap")
        expect(toast).to_be_visible()
        expect(toast).to_have_count(1)
    second.page.close()


def test_an_answer_that_was_lost_makes_no_second_tpu(lab: LabPage) -> None:
    fill(lab, "lost-answer")
    path = re.compile(r"/jupyter-tpu/v1/tpus$")

    def lose(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        route.fetch()  # the server has it
        route.abort()

    lab.page.route(path, lose)
    create = lab.form.get_by_role("button", name="Create", exact=True)
    create.click()
    alert = lab.form.get_by_role("alert")
    expect(alert).to_contain_text("The Jupyter server is not responding.")
    name = lab.form.get_by_label("Name")
    expect(name).to_have_value("lost-answer")
    lab.page.unroute(path)
    create.click()
    expect(lab.form).to_contain_text("already exists")
    expect(name).to_have_value("lost-answer")
    assert names(lab.server).count("lost-answer") == 1
    lab.panel.get_by_role("button", name="Back to the list").click()
    lab.state("lost-answer", "Ready to connect")
    delete(lab.server, "lost-answer")


def test_a_tpu_that_is_deleted_while_its_page_is_open_says_so_there(lab: LabPage) -> None:
    body = {"name": "going", "type": SMALL, "zone": ZONE}
    lab.server.finish(lab.server.call("POST", "tpus", body))
    page = lab.open_page("going")
    delete(lab.server, "going")
    shown = lab.page.locator(".jp-tpu-Page:visible")
    expect(shown.get_by_role("heading", name="Deleted going")).to_be_visible()
    expect(shown).to_contain_text("It was a v5litepod-1: 1 chip")
    expect(page.get_by_role("button", name="Show All TPUs")).to_be_visible()


def test_a_name_of_63_letters_leaves_room_for_its_buttons(lab: LabPage) -> None:
    """Other programs may give such names; ours has a limit of 40, because hosts are named, too."""
    name = "a" + "b" * 62
    parent = f"/v2/projects/emulated/locations/{ZONE}/nodes"
    body = {"acceleratorType": SMALL, "runtimeVersion": "v2-alpha-tpuv5-lite"}
    at_google(lab.server, "POST", f"{parent}?nodeId={name}", body)
    lab.panel.get_by_role("button", name="Refresh").click()
    lab.state(name, "Ready to connect")
    lab.resize(250)
    edge = lab.panel.bounding_box()
    assert edge is not None
    row = lab.tpu(name)
    for button in row.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["width"] > 15
        assert box["x"] + box["width"] <= edge["x"] + edge["width"] + 1, box
    wide = "() => document.querySelector('.jp-tpu-Body').scrollWidth"
    assert lab.page.evaluate(wide) <= edge["width"] + 1
    page = lab.open_page(name)
    box = page.bounding_box()
    assert box is not None
    assert page.evaluate("node => node.scrollWidth") <= box["width"] + 1
    lab.resize(330)
    at_google(lab.server, "DELETE", f"{parent}/{name}")
    lab.panel.get_by_role("button", name="Refresh").click()
    expect(row).to_have_count(0)


def test_a_price_that_is_unknown_is_said_and_a_long_history_is_folded(
    another: LabPage, lab_server: LabServer
) -> None:
    """What the server says is changed on its way: the emulator's TPUs cost nothing."""
    body = {"name": "priceless", "type": SMALL, "zone": ZONE}
    lab_server.finish(lab_server.call("POST", "tpus", body))

    def unknown(route: Route) -> None:
        answer = route.fetch()
        listed = answer.json()
        operation = listed["operations"][0]
        assert operation["state"] == "done"
        for tpu in listed["tpus"]:
            tpu["emulated"] = False
            tpu["cost"].update(usd_per_hour=None, list_usd_per_hour=None, usd=None)
        listed["operations"] = [
            {
                **operation,
                "id": f"old-{number}",
                "state": "failed",
                "message": f"Attempt {number} failed.",
                "problem": {"message": f"Problem {number}", "reason": "OTHER", "hint": ""},
            }
            for number in range(200)
        ]
        route.fulfill(response=answer, json=listed)

    another.page.route(re.compile(r"/jupyter-tpu/v1/tpus(\?|$)"), unknown)
    another.open()
    row = another.tpu("priceless")
    expect(row).to_contain_text("price unknown")
    expect(row).not_to_contain_text("$0")
    failed = another.panel.locator(".jp-tpu-Operation.jp-mod-failed")
    expect(failed).to_have_count(5)
    more = another.panel.get_by_role("button", name="Show all 200 operations")
    more.click()
    expect(failed).to_have_count(200)
    more = another.panel.get_by_role("button", name="Show all 200 operations")
    expect(more).to_have_text("Show fewer")
    more.click()
    expect(failed).to_have_count(5)
    delete(lab_server, "priceless")


def test_where_websockets_are_blocked_the_list_goes_on(
    another: LabPage, lab_server: LabServer
) -> None:
    def block(socket: WebSocketRoute) -> None:
        socket.close()

    another.page.route_web_socket(re.compile("/api/events/subscribe"), block)
    another.open()
    expect(another.panel.get_by_text("Live updates do not arrive.")).to_be_visible()
    body = {"name": "polled", "type": SMALL, "zone": ZONE}
    lab_server.finish(lab_server.call("POST", "tpus", body))
    another.state("polled", "Ready to connect")  # within the pause between two polls
    delete(lab_server, "polled")
    expect(another.tpu("polled")).to_have_count(0)


@pytest.mark.long  # 70 real seconds, in which the server stands still as on a laptop that sleeps
def test_a_form_that_is_sent_while_the_server_sleeps_makes_one_tpu(
    lab: LabPage, lab_server: LabServer
) -> None:
    fill(lab, "after-sleep")
    create = lab.form.get_by_role("button", name="Create", exact=True)
    os.kill(lab_server._process.pid, signal.SIGSTOP)
    try:
        create.click()
        time.sleep(70)
        # Nothing is known yet: nothing is said, and what was typed is there.
        expect(lab.form.get_by_label("Name")).to_have_value("after-sleep")
    finally:
        os.kill(lab_server._process.pid, signal.SIGCONT)
    if lab.form.get_by_role("alert").is_visible():
        create.click()
    lab.state("after-sleep", "Ready to connect")
    assert names(lab_server).count("after-sleep") == 1
    delete(lab_server, "after-sleep")
