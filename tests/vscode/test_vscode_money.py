"""What costs money is asked, with its price, in a real VS Code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from code_server import CodeServer, Window
from playwright.sync_api import expect

OUT = Path(__file__).parent / "out"


def test_prices_are_shown_before_a_tpu_is_created_and_nothing_is_without_a_login(
    start_vscode: Callable[..., CodeServer],
    open_window: Callable[..., Window],
    billed: dict[str, str],
) -> None:
    """The question itself needs an answer of Google: here nobody has logged in."""
    server = start_vscode(variables=billed)
    window = open_window(server, server.workspace)
    window.command("TPU: Create")
    window.picker.locator("input[type=text]").first.fill("v5litepod-4")  # of 71 types
    expect(window.picker.get_by_role("option").first).to_contain_text("$")
    window.pick("TPU Type", "v5litepod-4")
    window.pick("Zone for", "us-central1-a")
    expect(window.picker.get_by_role("option", name="Spot")).to_contain_text("$")
    window.pick("v5litepod-4 · ", "On demand")
    window.enter("Name", "paid")
    expect(window.toasts.filter(has_text="No Google Cloud credentials")).to_be_visible()
    expect(window.row("paid")).to_have_count(0)


def choose(window: Window, command: str) -> None:
    """Runs a command, and picks a type, a zone and a tier."""
    window.command(command)
    window.pick("TPU Type", "v5litepod-4")
    window.pick("Zone for", "us-central1-a")
    window.pick("v5litepod-4 · ", "On demand")


def test_what_costs_money_is_asked_with_its_price_and_a_no_creates_nothing(
    start_vscode: Callable[..., CodeServer],
    open_window: Callable[..., Window],
    priced: dict[str, str],
) -> None:
    server = start_vscode(variables=priced)
    (server.workspace / "train.py").write_text("print('trained')\n")
    window = open_window(server, server.workspace)
    no = window.dialog.get_by_role("button", name="Cancel")

    choose(window, "TPU: Create")
    window.enter("Name", "paid")
    expect(window.dialog).to_contain_text("Create paid?")
    expect(window.dialog).to_contain_text("an hour")
    expect(window.dialog).to_contain_text("You pay while it is ready, used or not.")
    window.page.screenshot(path=OUT / "price.png")
    no.click()

    window.open_file("train.py")
    choose(window, "TPU: Run File on a New TPU")
    window.asked("Time Limit")
    expect(window.picker.get_by_role("option", name="1 h")).to_contain_text("at most $")
    window.page.screenshot(path=OUT / "limits.png")
    window.pick("Time Limit", "30 min")
    expect(window.dialog).to_contain_text("Create a TPU and run train.py on it?")
    expect(window.dialog).to_contain_text("It costs at most $")
    window.page.screenshot(path=OUT / "once.png")
    no.click()
    expect(window.dialog).to_have_count(0)
    expect(window.row("paid")).to_have_count(0)
    expect(window.row("once-")).to_have_count(0)

    choose(window, "TPU: Create")
    window.enter("Name", "paid")
    window.dialog.get_by_role("button", name="Create").click()
    expect(window.row("paid")).to_contain_text("an hour")
    window.act("paid", "Delete")
    window.dialog.get_by_role("button", name="Delete").click()
    expect(window.row("paid")).to_have_count(0)


def test_the_open_file_runs_on_a_tpu_that_is_made_for_it_and_deleted(
    window: Window, tpu: str
) -> None:
    """Emulated: nothing costs money, so nothing is asked."""
    (window.server.workspace / "once.py").write_text(
        "import platform; print('once on', platform.node())"
    )
    expect(window.row(tpu)).to_be_visible()
    window.open_file("once.py")
    choose(window, "TPU: Run File on a New TPU")
    window.pick("Time Limit", "30 min")
    expect(window.row("once-")).to_be_visible()
    expect(window.page.locator(".terminal-wrapper.active")).to_contain_text(
        "once on t1v-n-", timeout=300_000
    )
    expect(window.row("once-")).to_have_count(0)
    expect(window.row("Deleting once-")).to_have_count(0)
