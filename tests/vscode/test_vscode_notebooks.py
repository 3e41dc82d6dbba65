"""Notebooks on our own controller: each line of a cell once and in order, in what VS Code shows and
in the file, whatever happens to window, server and notebook.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from code_server import (
    CodeServer,
    Notebook,
    Window,
    jupyter_servers,
    notebook,
    printed,
    server_of,
)
from playwright.sync_api import expect
from waiting import until

LINES = [f"line {number}" for number in range(300)]
LONG = """import time
for number in range(300):
    print("line", number, flush=True)
    time.sleep(0.1)"""
#: Output of many kinds.
RICH = """import base64
from IPython.display import *
pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
display(Markdown("# Title"), SVG('<svg xmlns="http://www.w3.org/2000/svg"/>'), Latex("$x$"))
display(JSON({"a": [1]}), Image(base64.b64decode(pixel + "RU5ErkJggg=="), width=9))
display({"application/vnd.x+json": {"a": ["1\\n2"]}}, raw=True, metadata={"b": 1})"""
Open = Callable[..., Window]


def test_a_reload_in_the_middle_of_a_cell_loses_no_line_and_keeps_the_queue(
    vscode: CodeServer, open_window: Open, tpu: str
) -> None:
    path = notebook(vscode.workspace / "reload.ipynb", LONG, "print('then', number)", "1 + 1")
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.run_all()
    book.wait_line(150)
    window.reload()
    book.shown()
    book.wait_line(299)
    book.wait_idle()
    first, second, third = book.save()
    assert printed(first) == LINES
    assert printed(second) == ["then 299"]
    assert third["outputs"][0]["data"] == {"text/plain": ["2"]}
    count = first["execution_count"]
    assert [second["execution_count"], third["execution_count"]] == [count + 1, count + 2]
    duration = window.page.locator(".cell-statusbar-container").first
    expect(duration).to_contain_text("3")  # from its start, not from the reload
    assert float(duration.inner_text().split("s")[0]) >= 30


def test_a_server_that_is_killed_and_comes_back_at_another_port_is_found_without_a_reload(
    vscode: CodeServer, open_window: Open, tpu: str, variables: dict[str, str]
) -> None:
    path = notebook(vscode.workspace / "killed.ipynb", LONG, "print('then')")
    book = Notebook(open_window(vscode, vscode.workspace), path, tpu)
    book.run_all()
    book.wait_line(50)
    [server] = jupyter_servers(variables)
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not jupyter_servers(variables))
    with socket.create_server(("127.0.0.1", int(server.url.split(":")[2].strip("/")))):
        assert server_of(variables)[0] != server.url
    book.wait_line(299)
    book.wait_idle()
    first, second = book.save()
    assert printed(first) == LINES
    assert printed(second) == ["then"]


def test_a_notebook_that_was_closed_without_saving_shows_what_ran_meanwhile(
    vscode: CodeServer, open_window: Open, tpu: str
) -> None:
    """One cell is changed meanwhile, another one deleted."""
    path = notebook(
        vscode.workspace / "closed.ipynb",
        "print('kept')",
        "print('of the old text')",
        "import time; time.sleep(5); print('has no cell')",
        "6 * 7",
    )
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.save()  # it names its kernel now
    book.run_all()
    until(lambda: "of the old text" in book.text(), 60, book.text)
    window.command("View: Close Editor")
    window.dialog.get_by_role("button", name="Don't Save").click()
    expect(window.page.locator(".tabs-container .tab")).to_have_count(0)
    content = json.loads(path.read_text())
    assert [cell["outputs"] for cell in content["cells"]] == [[], [], [], []]
    content["cells"][1]["source"] = "print('of the new text')"
    del content["cells"][2]
    path.write_text(json.dumps(content))
    book = Notebook(window, path, tpu)
    gone = window.toasts.filter(has_text="A cell that is not in closed.ipynb any more")
    expect(gone).to_be_visible()
    until(lambda: "42" in book.text(), 60, book.text)
    book.wait_idle()
    expect(window.page.get_by_text("Output of an earlier text")).to_have_count(1)
    kept, changed, last = book.save()
    assert [printed(kept), printed(changed)] == [["kept"], ["of the old text"]]
    assert last["execution_count"] == kept["execution_count"] + 3
    gone.get_by_role("button", name="Show Output").click()
    output = window.page.locator(".part.panel .view-lines")
    expect(output).to_contain_text("has no cell")
    window.page.keyboard.press("Control+j")


def execute(path: Path, kernelspec: str, variables: dict[str, str]) -> None:
    """Runs a notebook as people without an editor do."""
    program = [sys.executable, "-m", "jupyter", "execute", "--inplace", "--allow-errors"]
    environment = {**os.environ, **variables}
    subprocess.run(
        [*program, f"--kernel_name={kernelspec}", path], env=environment, check=True, timeout=300
    )


def results(path: Path) -> list[tuple[int, list[Any]]]:
    """Count and outputs of each cell, with each stream in one part, as in JupyterLab."""
    cells = nbformat.read(path, as_version=4).cells
    for cell in cells:
        for before, output in reversed([*itertools.pairwise(cell.outputs)]):
            if "name" in output and output.get("name") == before.get("name"):
                before.text += output.text
                cell.outputs.remove(output)
        for output in cell.outputs:
            if "text" in output:
                output.text = re.sub(r"[^\n]*\r", "", output.text)
    return [(cell.execution_count, cell.outputs) for cell in cells]


def test_a_notebook_does_what_a_person_expects(
    vscode: CodeServer, open_window: Open, variables: dict[str, str], tpu: str
) -> None:
    """Its file has then what nbclient makes of the same cells."""
    path = notebook(
        vscode.workspace / "expected.ipynb",
        "import own, getpass\nname = input('Name? ') + getpass.getpass('Sure? ')\n"
        "print(own.GREETING, name)",
        "import time\nfor part in range(101): print(f'\\r{part} %', end=''); time.sleep(0.002)",
        "from IPython.display import *\nshown = display(HTML('<b>old</b>'), display_id=True)\n"
        "display(Markdown('# Title')); print('a'); clear_output(wait=True); print('b')",
        RICH,
        "shown = display(HTML('<b>before</b>'), display_id=True)",
        "shown.update(HTML('<b>after</b>'))\nimport sys\nprint('!', file=sys.stderr)\n{'x': 1}",
        "def fail():\n    raise ValueError('why')\nfail()",
        "print('never')",
    )
    sleeping = "x = 5\nprint('on')\n__import__('time').sleep(600)"
    interrupted = notebook(vscode.workspace / "interrupted.ipynb", sleeping, "x")
    (vscode.workspace / "own.py").write_text("GREETING = 'Hello'\n")  # is copied to the host
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.run_all()
    window.enter("expected.ipynb", "Ada")
    expect(window.picker).to_contain_text("Sure?")
    expect(window.picker.locator("input").last).to_have_attribute("type", "password")
    window.enter("expected.ipynb", "!")
    book.wait_idle()
    # The last outputs are below the part of the notebook that is rendered.
    until(lambda: "ValueError" in json.dumps(book.save()), 60, book.text)
    *cells, never = book.cells()
    assert (never["outputs"], never["execution_count"]) == ([], None)
    assert printed(cells[0]) == ["Hello Ada!"]
    sources = ["print('Hello Ada!')", *("".join(cell["source"]) for cell in cells[1:])]
    kernelspec = json.loads(path.read_text())["metadata"]["kernelspec"]["name"]
    other = notebook(vscode.workspace / "nbclient.ipynb", *sources)
    execute(other, kernelspec, variables)
    assert results(path)[:-1] == results(other)

    # A cell that is interrupted, and those behind it.
    window.command("View: Close Editor")
    book = Notebook(window, interrupted, tpu)
    book.run_all()
    until(lambda: "on" in book.text(), 60, book.text)
    window.page.locator(".codicon-notebook-stop:visible").first.click()
    book.wait_idle()
    stopped, behind = book.save()
    assert stopped["outputs"][-1]["ename"] == "KeyboardInterrupt"
    assert behind["outputs"] == []

    # Documentation and completions of what the kernel has.
    window.page.locator(".cell .view-lines:visible").last.click()
    window.page.keyboard.press("Control+k")
    window.page.keyboard.press("Control+i")
    expect(window.page.locator(".monaco-hover:visible")).to_contain_text("int")
    window.page.keyboard.press("Control+End")
    window.page.keyboard.type(".bit_l")
    expect(window.page.locator(".suggest-widget.visible")).to_contain_text("bit_length")
    window.page.keyboard.press("Escape")
    window.page.keyboard.press("Escape")
    window.page.keyboard.press("Control+z")


def test_two_windows_show_what_one_of_them_runs_and_it_runs_once(
    vscode: CodeServer, open_window: Open, tpu: str
) -> None:
    """Also what began before the second one was opened. What one of them ends, ends in both."""
    path = notebook(
        vscode.workspace / "shared.ipynb",
        "try: runs += 1\nexcept NameError: runs = 1\nprint('run', runs)",
        "for number in range(30): print('line', number)\nimport os, time\n"
        "print('process', os.getpid())\ntime.sleep(600)",
    )
    first = Notebook(open_window(vscode, vscode.workspace), path, tpu)
    first.run_all()
    first.wait_line(29)
    first.save()  # it names its kernel
    second = Notebook(open_window(vscode, vscode.workspace), path, tpu)
    second.wait_line(29)
    expect(second.window.output()).to_contain_text("run 1")
    stop = second.page.locator(".codicon-notebook-stop:visible").first
    expect(stop).to_be_visible()
    [process] = until(lambda: re.findall(r"process \d+", first.text()), 60, first.text)
    for book in (first, second):
        expect(book.page.locator(".statusbar")).to_contain_text("Kernel busy")
    second.page.get_by_role("button", name="Restart Kernel and Run All").click()
    second.window.dialog.get_by_role("button", name="Restart").click()
    for book in (first, second):
        expect(book.window.output()).not_to_contain_text(process)
        expect(book.window.output()).to_contain_text("process ")
    stop.click()
    for book in (first, second):
        until(lambda book=book: "KeyboardInterrupt" in book.text(), 60, book.text)
        book.wait_idle()
    assert printed(first.save()[0]) == ["run 1"]


def test_the_output_of_a_pods_hosts_is_shown_by_host(
    vscode: CodeServer, open_window: Open, pod: str
) -> None:
    """As HTML, since VS Code has no renderer for the tabs, which are in the file for JupyterLab."""
    path = notebook(
        vscode.workspace / "hosts.ipynb",
        "import jax; i = jax.process_index()",
        "for k in range(1 + 20 * i): print('line', k)",
        "assert i == 0, 'bad batch'",
    )
    window = open_window(vscode, vscode.workspace)
    window.open_file(path.name)
    window.select_kernel("Jupyter TPU", "all 2 hosts")
    book = Notebook(window, path, pod)
    book.run_all()
    book.wait_idle()
    expect(window.output()).to_contain_text("Host 1 raised AssertionError: bad batch")
    folded = window.output().locator("details", has_text="host 1")
    folded.locator("summary").click()
    expect(folded).to_contain_text("line 20")
    _, second, third = book.save()
    data = second["outputs"][-1]["data"]
    assert {"application/vnd.jupyter-tpu.hosts+json", "text/html", "text/plain"} <= {*data}
    assert third["outputs"][-1]["ename"] == "AssertionError"


def test_without_a_kernel_the_picker_offers_to_create_a_tpu(
    start_vscode: Callable[..., CodeServer], open_window: Open, priced: dict[str, str], tpu: str
) -> None:
    server = start_vscode(variables=priced)
    path = notebook(server.workspace / "none.ipynb", "1 + 1")
    window = open_window(server, server.workspace)
    window.open_file(path.name)
    window.select_kernel("Jupyter TPU", "New TPU")
    window.asked("TPU Type")
    window.page.keyboard.press("Escape")
    window.select_kernel("Jupyter TPU", "Connect a TPU")
    window.asked("Connect")  # which TPU: the emulator has one


def test_many_lines_and_a_large_display_arrive_and_the_window_still_answers(
    vscode: CodeServer, open_window: Open, tpu: str
) -> None:
    path = notebook(
        vscode.workspace / "large.ipynb",
        "for number in range(100_000): print('line', number)",
        "from IPython.display import HTML\nHTML('<b>large</b>' + 'x' * 50_000_000)",
    )
    window = open_window(vscode, vscode.workspace)
    book = Notebook(window, path, tpu)
    book.run_all()
    book.wait_line(1)
    window.command("View: Toggle Word Wrap")  # the palette opens while it prints
    book.wait_line(99_999)
    book.wait_idle()
    lines, large = book.save()
    assert printed(lines) == [f"line {number}" for number in range(100_000)]
    assert sum(map(len, large["outputs"][0]["data"]["text/html"])) == 50_000_012
