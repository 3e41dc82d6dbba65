"""Bad days of the panel: two tabs, a server that sleeps, double clicks, long names, a long past."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, Route, expect

OPENED_ONCE = True
OUT = Path(__file__).parent / "out"
ZONE = "us-central1-a"
SMALL = "v5litepod-1"
TOASTS = ".Toastify__toast"
#: The addresses of lists; JupyterLab adds the time to each, so that no cache has an answer.
LIST = re.compile(r"/jupyter-tpu/v1/tpus(\?|$)")
OPERATIONS = re.compile(r"/jupyter-tpu/v1/operations(\?|$)")


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
    return [tpu["name"] for tpu in tpus["tpus"]]


def delete(server: LabServer, name: str) -> None:
    # It is ready a moment before its creation has ended.
    operations: Any = server.call("GET", "operations")
    for operation in operations:
        if operation["tpu"] == name:
            server.finish(operation)
    done = server.finish(server.call("DELETE", f"tpus/{name}", {}))
    assert done["state"] == "done", done


def test_a_double_click_on_create_makes_one_tpu_which_has_the_focus(lab):
    sent: list[str] = []
    lab.page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
    fill(lab, "clicked-twice")
    lab.form.get_by_role("button", name="Create", exact=True).dblclick()
    lab.state("clicked-twice", "Ready to connect")
    assert len([one for one in sent if re.match(r"POST .*/v1/tpus(\?|$)", one)]) == 1, sent
    inside = "row => row.contains(document.activeElement)"
    row = lab.tpu("clicked-twice")
    lab.page.wait_for_function(inside, arg=row.element_handle())
    delete(lab.server, "clicked-twice")


@pytest.mark.long  # each tab is fed as the first one is: changeFeed.spec.ts
def test_what_is_deleted_in_one_tab_goes_once_in_both_and_the_focus_is_not_lost(lab):
    body = {"name": "in-two-tabs", "type": SMALL, "zone": ZONE}
    lab.server.finish(lab.server.call("POST", "tpus", body))
    second = LabPage(lab.page.context.new_page(), lab.server)
    second.open()
    expect(second.tpu("in-two-tabs")).to_have_count(1)
    lab.act("in-two-tabs", "Delete…")
    lab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(second.panel.get_by_role("region", name="Deleted in-two-tabs")).to_have_count(1)
    expect(second.tpu("in-two-tabs")).to_have_count(0)
    expect(lab.panel.get_by_role("region", name="Deleted in-two-tabs")).to_have_count(1)
    expect(lab.tpu("in-two-tabs")).to_have_count(0)
    assert [second.page.locator(TOASTS).count(), lab.page.locator(TOASTS).count()] == [0, 0]
    # The focus is at a row that is left, not lost.
    left = "() => !!document.activeElement.closest('.jp-tpu-TPU')"
    if names(lab.server):
        lab.page.wait_for_function(left)
    second.page.close()


@pytest.mark.parametrize("fault", ["stalls", "fails"])
def test_a_question_comes_also_where_the_server_does_not_say_what_ends(fault, lab, tpu):
    refusal = {"message": "Its disk is full.", "reason": "DISK_FULL", "hint": "Delete files."}
    answer = {"status": 507, "json": refusal}
    lab.page.route(
        "**/consequences?act=delete*",
        lambda route: None if fault == "stalls" else route.fulfill(**answer),
    )
    lab.act(tpu["name"], "Delete…")
    if fault == "stalls":
        expect(lab.page.locator(TOASTS)).to_contain_text(f"Checking what runs on {tpu['name']}")
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"What runs on {tpu['name']}, and what is lost, could not be")
    why = "The Jupyter server is not responding." if fault == "stalls" else refusal["message"]
    expect(dialog).to_contain_text(why)
    expect(lab.page.locator(TOASTS)).to_have_count(0)
    OUT.mkdir(exist_ok=True)
    lab.page.screenshot(path=OUT / f"question-{fault}.png")
    dialog.get_by_role("button", name="Cancel").click()
    lab.page.unroute("**/consequences?act=delete*")
    expect(lab.tpu(tpu["name"])).to_be_visible()


def test_an_answer_that_was_lost_makes_no_second_tpu(lab):
    fill(lab, "lost-answer")

    def lose(route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        route.fetch()  # the server has it
        route.abort()

    lab.page.route(LIST, lose)
    create = lab.form.get_by_role("button", name="Create", exact=True)
    create.click()
    alert = lab.form.get_by_role("alert")
    expect(alert).to_contain_text("The Jupyter server is not responding.")
    name = lab.form.get_by_label("Name")
    expect(name).to_have_value("lost-answer")
    lab.page.unroute(LIST)
    create.click()
    expect(lab.form).to_contain_text("already exists")
    expect(name).to_have_value("lost-answer")
    assert names(lab.server).count("lost-answer") == 1
    lab.panel.get_by_role("button", name="Back to the list").click()
    lab.state("lost-answer", "Ready to connect")
    delete(lab.server, "lost-answer")


def test_a_tpu_that_is_deleted_while_its_page_is_open_says_so_there(lab):
    body = {"name": "going", "type": SMALL, "zone": ZONE}
    lab.server.finish(lab.server.call("POST", "tpus", body))
    page = lab.open_page("going")
    delete(lab.server, "going")
    shown = lab.page.locator(".jp-tpu-Page:visible")
    expect(shown.get_by_role("heading", name="Deleted going")).to_be_visible()
    expect(shown).to_contain_text("It was a v5litepod-1: 1 chip")
    expect(page.get_by_role("button", name="Show All TPUs")).to_be_visible()


@pytest.mark.long  # what is said of a price: panel.spec.ts
def test_an_unknown_price_a_name_of_63_letters_and_a_long_past_have_room(another, lab_server):
    """What the server says is changed on its way: the emulator's TPUs cost nothing, and Cloud TPU
    itself gives names of 40 letters at most."""
    long = "a" + "b" * 62
    body = {"name": "priceless", "type": SMALL, "zone": ZONE}
    operation = lab_server.finish(lab_server.call("POST", "tpus", body))

    def unknown(route: Route) -> None:
        answer = route.fetch()
        listed = answer.json()
        for tpu in listed["tpus"]:
            tpu["emulated"] = False
            tpu["cost"].update(usd_per_hour=None, list_usd_per_hour=None, usd=None)
            if tpu["name"] == "priceless":
                tpu["name"] = long
        route.fulfill(response=answer, json=listed)

    problem = {"message": "It was refused.", "reason": "INVALID", "hint": "", "retry_after": None}
    past = [
        {**operation, "id": f"old-{number}", "tpu": f"gone-{number}"}
        | {"state": "failed", "problem": problem}
        for number in range(200)
    ]
    another.page.route(LIST, unknown)
    another.page.route(OPERATIONS, lambda route: route.fulfill(json=past))
    another.open()
    row = another.tpu(long)
    expect(row).to_contain_text("price unknown")
    expect(row).not_to_contain_text("$0")
    another.resize(250)
    edge = another.panel.bounding_box()
    for button in row.get_by_role("button").all():
        box = button.bounding_box()
        assert box["width"] > 15
        assert box["x"] + box["width"] <= edge["x"] + edge["width"] + 1, box
    body_width = "() => document.querySelector('.jp-tpu-Body').scrollWidth"
    assert another.page.evaluate(body_width) <= edge["width"] + 1
    page = another.open_page(long)
    box = page.bounding_box()
    assert page.evaluate("node => node.scrollWidth") <= box["width"] + 1
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
