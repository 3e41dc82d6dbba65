"""Bad input gets one clear sentence beside the form, and nothing that was typed is lost."""

from collections.abc import Iterator
from typing import Any

import pytest
from lab_server import LabPage
from playwright.sync_api import expect
from waiting import until


@pytest.fixture
def lab(opened: None, unopened_lab: LabPage) -> Iterator[LabPage]:
    """JupyterLab, opened once for all tests; the form keeps what the one before typed."""
    yield unopened_lab
    unopened_lab.panel.get_by_role("button", name="Back to the list").click()


def test_a_name_that_google_would_refuse_is_marked_while_it_is_typed(lab, tpu):
    lab.open_form()
    field = lab.form.get_by_label("Name")
    for name, sentence in {
        "Big": "Start with a lower-case letter.",
        "my_tpu": "Use lower-case letters, digits and hyphens only.",
        "my-tpu-": "End with a letter or a digit.",
        tpu["name"]: "A TPU with this name already exists in us-central1-a.",
    }.items():
        field.fill(name)
        expect(lab.form).to_contain_text(sentence)
        expect(field).to_have_attribute("aria-invalid", "true")
        lab.form.get_by_role("button", name="Create", exact=True).click()
        # Whether the window has the focus depends on the system.
        active = "field => field === field.ownerDocument.activeElement"
        lab.page.wait_for_function(active, arg=field.element_handle())
        expect(field).to_have_value(name)


def test_a_name_taken_meanwhile_is_refused_by_the_server(lab):
    name = "race"
    lab.open_form()
    lab.form.get_by_label("Name").fill(name)
    lab.choose_type("v5litepod-1")
    lab.form.get_by_label("Zone", exact=True).select_option("us-central1-a")
    body = {"name": name, "type": "v5litepod-1", "zone": "us-central1-a"}
    lab.page.route("**/api/events/subscribe*", lambda route: route.abort())
    # The browser's own request arrives after another one's, whose news it has not heard.
    lab.page.route(
        "**/jupyter-tpu/v1/tpus?*",
        lambda route: (
            lab.server.finish(lab.server.call("POST", "tpus", body)),
            route.continue_(),
        ),
        times=1,
    )
    lab.form.get_by_role("button", name="Create", exact=True).click()
    expect(lab.form.get_by_role("alert")).to_contain_text(f"A TPU called {name} already exists")
    expect(lab.form.get_by_label("Name")).to_have_value(name)
    lab.server.finish(lab.server.call("DELETE", f"tpus/us-central1-a~{name}", {}))


def test_only_zones_that_offer_the_type_can_be_chosen(lab):
    lab.open_form()
    lab.choose_type("v4-32")
    zones = lab.form.get_by_label("Zone", exact=True).locator("option")
    expect(zones).to_have_text(["us-central2-b"])
    expect(lab.form).to_contain_text("16 chips · 4 hosts")
    expect(lab.form).to_contain_text("does not offer this type")


def test_what_the_server_refuses_is_shown_beside_the_form_which_keeps_its_input(lab):
    lab.open_form()
    lab.form.get_by_label("Name").fill("not-to-be")
    lab.choose_type("v5litepod-4")
    lab.form.get_by_label("Zone", exact=True).select_option("us-west4-a")
    lab.form.get_by_label("Spot").check()
    lab.form.get_by_role("button", name="Advanced").click()
    lab.form.get_by_label("Runtime version").fill("no-such-image")
    lab.form.get_by_role("button", name="Create", exact=True).click()
    alert = lab.form.get_by_role("alert")
    expect(alert).to_contain_text("no-such-image")
    expect(lab.form.get_by_label("Name")).to_have_value("not-to-be")
    expect(lab.form.get_by_label("Type")).to_have_value("v5litepod-4")
    expect(lab.form.get_by_label("Zone", exact=True)).to_have_value("us-west4-a")
    expect(lab.form.get_by_label("Spot")).to_be_checked()
    version = lab.form.get_by_label("Runtime version")
    expect(version).to_have_value("no-such-image")
    expect(version).to_have_attribute("aria-invalid", "true")

    # Going away and coming back loses nothing either.
    lab.panel.get_by_role("button", name="Back to the list").click()
    lab.open_form()
    expect(lab.form.get_by_label("Name")).to_have_value("not-to-be")


def test_half_a_number_is_not_taken_for_no_limit(lab):
    lab.open_form()
    lab.form.get_by_label("Name").fill("half")
    part = lab.form.get_by_role("button", name="Run a command, stop automatically")
    part.click()
    limit = lab.form.get_by_label("Cost limit in US dollars")
    limit.press_sequentially("20e")
    for button in (lab.form.get_by_role("button", name="Create", exact=True), part):
        button.click()
        expect(limit).to_be_focused()
    tpus = lab.server.call("GET", "tpus")
    assert "half" not in [one["name"] for one in tpus["tpus"]]
    limit.fill("")


def test_enter_in_a_field_adds_a_grant_and_removes_none(lab):
    grant = {"name": "first", "types": ["v5e"], "zones": ["us-west4-a"], "tiers": ["spot"]}
    lab.server.call("POST", "grants", {**grant, "chips": 8, "until": ""})
    lab.page.evaluate("() => void window.jupyterapp.commands.execute('tpu:grants')")
    form = lab.panel.get_by_role("form", name="Grants")
    remove = form.get_by_role("button", name="Remove")
    expect(remove).to_have_count(1)
    for label, text in {"Types": "v5e", "Zones": "us-west4-a", "Name": "second"}.items():
        form.get_by_label(label, exact=True).fill(text)
        form.get_by_label(label, exact=True).press("Enter")
    chips, last_day = form.get_by_label("Chips"), form.get_by_label("Last day")
    chips.fill("8")
    last_day.press_sequentially("12")  # without its year
    chips.press("Enter")
    expect(last_day).to_be_focused()
    expect(remove).to_have_count(1)
    last_day.fill("2099-12-31")
    chips.press("Enter")
    expect(remove).to_have_count(2)
    assert len(lab.server.call("GET", "grants")) == 2
    for name in ("first", "second"):
        lab.server.call("DELETE", f"grants/{name}")


def test_a_type_of_both_forms_offers_the_other_one_where_the_zone_has_it(lab):
    lab.open_form()
    lab.choose_type("v6e-8")
    lab.form.get_by_label("Zone", exact=True).select_option("us-east5-a")
    expect(lab.form).to_contain_text("JAX sees 8 devices. Also on 2 VMs: v6e-2x4")
    lab.form.get_by_role("button", name="Choose v6e-2x4").click()
    expect(lab.form).to_contain_text("Also on 1 VM: v6e-8")
    zones = lab.form.get_by_label("Zone", exact=True).locator("option")
    expect(zones).not_to_have_count(0)


def test_a_tpu7x_is_created_like_any_other_and_its_details_say_what_made_it(lab):
    name = "ironwood"
    lab.open_form()
    lab.form.get_by_label("Name").fill(name)
    lab.choose_type("tpu7x-8")
    lab.form.get_by_label("Zone", exact=True).select_option("us-central1-c")
    lab.form.get_by_label("Connect when it is ready").uncheck()
    lab.form.get_by_role("button", name="Create", exact=True).click()
    lab.state(name, "Ready to connect")
    tpu = lab.tpu(name)
    expect(tpu).not_to_contain_text("Compute Engine")
    expect(lab.open_page(name)).to_contain_text("Made byCompute Engine")
    lab.open_form()  # as the other tests leave it

    def ended() -> bool:  # READY may be seen a moment before the creation has ended
        operations: Any = lab.server.call("GET", "operations")
        return all(operation["state"] != "running" for operation in operations)

    until(ended)
    lab.server.finish(lab.server.call("DELETE", f"tpus/us-central1-c~{name}", {}))
