"""A cell's lines when the line to the server, the window, or the kernel is away for a while."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from code_server import (
    CodeServer,
    Notebook,
    Window,
    connected,
    finish,
    notebook,
    printed,
    server_of,
)
from fault_proxy import FaultProxy
from playwright.sync_api import expect
from waiting import until

LONG = """import time
for number in range(300):
    print("line", number, flush=True)
    time.sleep(0.1)"""
LINES = [f"line {number}" for number in range(300)]
Open = Callable[..., Window]


@pytest.fixture
def line(variables: dict[str, str]) -> Iterator[FaultProxy]:
    """Leads to the Jupyter server."""
    url, _ = server_of(variables)
    with FaultProxy("127.0.0.1", int(url.rstrip("/").rsplit(":", 1)[1])) as proxy:
        yield proxy


def storm(line: FaultProxy) -> None:
    """Flaps, is silent and goes on, and is silent for ever for what was there."""
    for _ in range(8):
        line.cut()
        time.sleep(0.2)
        line.mend()
        time.sleep(0.6)
    line.hole()
    time.sleep(8)
    line.mend()
    time.sleep(2)
    line.dead()


def test_no_line_is_lost_on_a_bad_line_to_a_server_elsewhere(
    start_vscode: Callable[..., CodeServer],
    open_window: Open,
    variables: dict[str, str],
    tpu: str,
    line: FaultProxy,
) -> None:
    server = start_vscode({"jupyterTpu.python": "/nowhere/python"})
    window = open_window(server, server.workspace)
    window.command("TPU: Use Another Jupyter Server")
    window.enter("Use Another Jupyter Server", f"http://127.0.0.1:{line.port}/")
    window.enter("Token of", server_of(variables)[1])
    expect(window.row(tpu)).to_contain_text("Connected")
    path = notebook(server.workspace / "storm.ipynb", LONG, "print('then')")
    book = Notebook(window, path, tpu)
    book.run_all()
    book.wait_line(10)
    weather = threading.Thread(target=storm, args=(line,))
    weather.start()
    book.wait_line(299)
    book.wait_idle()
    weather.join()
    first, second = book.save()
    assert (printed(first), printed(second)) == (LINES, ["then"])


@pytest.mark.long
def test_reloads_at_any_moment_lose_no_line_and_repeat_none(
    vscode: CodeServer, open_window: Open, tpu: str
) -> None:
    """Ten in one notebook: while its kernel starts, before, in and between cells, and behind."""
    slow = "for number in range({}): print('line', number, flush=True); time.sleep(0.1)"
    path = notebook(
        vscode.workspace / "reloads.ipynb",
        "import time\n" + slow.format(100),
        "from IPython.display import *\nfor number in range(100):\n"
        "    clear_output(wait=True); print('line', 100 + number); time.sleep(0.1)",
        "shown = display(HTML('<b>old</b>'), display_id=True)\n" + slow.format(100),
        "shown.update(HTML('<b>new</b>'))\nname = input('Name? ')\nprint(name)",
        "for step in range(101): print(f'\\r{step} %', end=''); time.sleep(0.1)",
        "runs = globals().get('runs', 0) + 1\nprint('run', runs)\n1 / 0",
    )
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.run_all()  # the first reload: now
    shown = (
        ["line 5\n", "line [5-9][0-9]", "line 1[0-9][0-9]", "line 1[5-9][0-9]", "old|new", "new"],
        [r"\d %", r"([5-9]\d|100) %", "ZeroDivisionError"],
    )

    def shows(text: str, *, below: bool) -> bool:
        if below:  # VS Code renders what is in view; keys may come before the cell is ready
            for key in ("Escape", "Control+End"):
                window.page.keyboard.press(key)
        return bool(re.search(text, book.text()))

    for number, texts in enumerate(shown):
        for text in ([""] if number == 0 else []) + texts:
            if number == 1:
                window.page.locator(".cell .view-lines:visible").first.click()
            until(partial(shows, text, below=number == 1), 120, book.text)
            window.reload()
            book.shown()
        if number == 0:
            window.enter("reloads.ipynb", "Ada")
    book.wait_idle()
    lines, cleared, displayed, named, progress, last = book.save()
    assert printed(lines) == LINES[:100]
    assert printed(cleared) == ["line 199"]
    assert displayed["outputs"][0]["data"]["text/html"] == ["<b>new</b>"]
    assert printed(displayed) == LINES[:100]
    assert (printed(named), printed(progress)) == (["Ada"], ["100 %"])
    assert printed(last) == ["run 1"]
    assert last["outputs"][1]["ename"] == "ZeroDivisionError"
    assert [cell["execution_count"] for cell in book.cells()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_a_window_that_was_closed_for_more_than_a_minute_shows_every_line(
    vscode: CodeServer, open_window: Open, tpu: str
) -> None:
    path = notebook(vscode.workspace / "away.ipynb", LONG.replace("0.1", "0.3"), "print('then')")
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.run_all()
    book.wait_line(10)
    book.save()
    window.page.close()
    time.sleep(70)
    book = Notebook(open_window(vscode, vscode.workspace), path, tpu)
    book.wait_line(299)
    book.wait_idle()
    first, second = book.save()
    assert (printed(first), printed(second)) == (LINES, ["then"])


def test_a_cell_whose_tpu_was_preempted_while_the_window_was_closed_says_so(
    vscode: CodeServer,
    open_window: Open,
    rest: Callable[..., Any],
    emulator: Any,
    faults: Callable[..., Any],
) -> None:
    zone = "us-central1-a"
    connected(rest, "spot", "v5litepod-1", zone, tier="spot")
    path = notebook(vscode.workspace / "spot.ipynb", LONG, "'behind'")
    [environment] = rest("GET", "tpus/spot/environments")
    spec = {"name": environment["kernelspec"], "display_name": "Python", "language": "python"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"kernelspec": spec}}))
    book = Notebook(open_window(vscode, vscode.workspace), path, "spot")
    book.run_all()
    book.wait_line(5)
    book.save()
    book.page.close()
    node = f"projects/{emulator.state.project}/locations/{zone}/nodes/spot"
    faults(kind="preempt", node=node)
    until(lambda: rest("GET", "tpus/spot")["state"] == "PREEMPTED", 120)
    window = open_window(vscode, vscode.workspace)
    window.open_file(path.name)
    toast = window.toasts.filter(has_text="The kernel of spot.ipynb ended while a cell ran")
    expect(toast).to_contain_text("spot is not ready (Preempted)")
    expect(window.page.locator(".codicon-notebook-stop:visible")).to_have_count(0)
    finish(rest, rest("DELETE", "tpus/spot?end_kernels=true"))


def test_what_happens_to_kernel_and_file_elsewhere_is_seen(
    vscode: CodeServer,
    open_window: Open,
    variables: dict[str, str],
    tpu: str,
) -> None:
    """The kernel is restarted by another client while the window is away; then another version of
    the file is checked out.
    """
    path = notebook(
        vscode.workspace / "elsewhere.ipynb", f"{LONG}; number > 50 and time.sleep(600)", "'behind'"
    )
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.run_all()
    book.wait_line(5)
    book.save()
    window.page.close()
    url, token = server_of(variables)

    def call(method: str, route: str) -> Any:
        headers = {"Authorization": f"token {token}"}
        request = urllib.request.Request(f"{url}api/{route}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    [kernel] = [
        session["kernel"]["id"]
        for session in call("GET", "sessions")
        if session["path"].endswith("elsewhere.ipynb")
    ]
    call("POST", f"kernels/{kernel}/restart")
    book = Notebook(open_window(vscode, vscode.workspace), path, tpu)
    book.wait_idle()
    until(lambda: book.last_line() >= 5, 60, book.text)  # what it had printed stays
    first, second = book.save()
    assert printed(first)[:5] == LINES[:5]
    assert second["outputs"] == []

    # As after `git checkout`: the file has fewer cells, and another text.
    notebook(path, "print('checked out')")
    book.window.command("File: Revert File")  # at once, and where no program may watch files
    code = book.page.locator(".cell .view-lines:visible")
    expect(code.first).to_contain_text("checked out")
    expect(code).to_have_count(1)
    book.run_all()
    until(lambda: "checked out\n" in book.text(), 60, book.text)
    [only] = book.save()
    assert printed(only) == ["checked out"]
