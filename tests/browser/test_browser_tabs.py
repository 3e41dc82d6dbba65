"""Several tabs show one running cell: each shows each line once and in order, whenever it came,
with a document of its own and in a document that jupyter-collaboration shares.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Server
from notebook_tabs import (
    EXPECTED,
    LINES,
    OUT,
    cell_of,
    lab_beside,
    lines_of,
    open_notebook,
    run_cell,
    saved_lines,
    session_of,
    wait_for_lines,
    write_notebook,
)
from playwright.sync_api import Page, TimeoutError, expect
from waiting import until

OWN, SHARED = "documents of their own", "one shared document"


def python_with_collaboration(folder: Path) -> str:
    """An environment that has this one's packages and jupyter-collaboration."""
    python = folder / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    # As a .pth file: what is installed here comes first.
    (packages / "beside.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p))
    install = [*uv, "pip", "install", "--quiet", "--python", python, "jupyter-collaboration>=4"]
    subprocess.run(install, check=True)
    return str(python)


@pytest.fixture(scope="module", params=[OWN, pytest.param(SHARED, marks=pytest.mark.long)])
def lab(
    request: pytest.FixtureRequest, emulator: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str, bool]]:
    if request.param == OWN:
        yield *request.getfixturevalue("kept_lab"), False
        return
    folder = tmp_path_factory.mktemp("tabs")
    python = python_with_collaboration(folder / "python")
    option = f"--SQLiteYStore.db_path={folder / 'documents.db'}"
    with lab_beside(emulator, folder / "lab", python, option, tpu="shared-lab") as (server, spec):
        yield server, spec, True


def assert_complete(pages: list[Page], what: str) -> None:
    OUT.mkdir(exist_ok=True)
    for number, page in enumerate(pages):
        wait_for_lines(page, LINES)
        expect(cell_of(page).locator(".jp-InputPrompt")).to_have_text("[1]:")
        page.screenshot(path=OUT / f"tabs-{what}-{number}.png")
    for page in pages:
        assert lines_of(page) == EXPECTED


# Two tabs, and a server that is killed: test_browser_restart.py. Reloads: test_adoption_replay.py.
@pytest.mark.long
def test_tabs_that_open_and_reload_while_a_cell_prints_show_each_line_once(lab, context):
    server, spec, shared = lab
    name = "tabs.ipynb"
    write_notebook(server, name, spec)
    first = open_notebook(context, server, name)
    early = open_notebook(context, server, name)
    run_cell(first)
    wait_for_lines(first, 25)
    second = open_notebook(context, server, name)
    wait_for_lines(second, 75)
    second.reload()
    third = open_notebook(context, server, name)
    pages = [first, early, second, third]
    assert_complete(pages, "shared" if shared else "own")
    for page in [first] if shared else pages:
        assert saved_lines(page, server.root / name) == EXPECTED
    for page in pages:
        page.close()


@pytest.mark.long  # without tabs: kernelSocket.spec.ts
def test_an_input_that_one_tab_answers_leaves_no_box_in_another(lab, context):
    server, spec, shared = lab
    if shared:
        pytest.skip("there only the tab that fills the cell has a box")
    name = "input.ipynb"
    write_notebook(server, name, spec, "print('hello', input('Name:'))")
    first = open_notebook(context, server, name)
    run_cell(first)
    box = ".jp-Stdin-input"
    expect(first.locator(box)).to_be_visible()
    second = open_notebook(context, server, name)
    expect(second.locator(box)).to_be_visible()
    second.locator(box).fill("Ada")
    second.locator(box).press("Enter")
    for page in (first, second):
        expect(page.locator(box)).to_have_count(0)
        expect(cell_of(page)).to_contain_text("hello Ada")
        expect(cell_of(page).locator(".jp-InputPrompt")).to_have_text("[1]:")
    # The first tab is not taken for one that still waits for input.
    run_cell(first)
    expect(first.locator(box)).to_be_visible()
    first.locator(box).press("Enter")
    expect(cell_of(first).locator(".jp-InputPrompt")).to_have_text("[2]:")
    for page in (first, second):
        page.close()


def answer(tabs: list[Page], box: str, text: str) -> None:
    """In the tab that fills the cell. When the server has ended, its box comes again: there, or, if
    that takes a slow machine more than 10 s, in another tab."""

    def answered() -> bool:
        for tab in tabs:
            if tab.locator(box).count() == 1:
                with contextlib.suppress(TimeoutError):
                    tab.locator(box).fill(text, timeout=2000)
                    tab.locator(box).press("Enter", timeout=2000)
                    return True
        return False

    until(answered, 120)


@pytest.mark.long
def test_a_shared_cell_that_waits_for_input_still_does_after_its_server_was_killed(lab, context):
    server, spec, shared = lab
    if not shared:
        pytest.skip("test_browser_restart.py")
    name = "input-restart.ipynb"
    write_notebook(server, name, spec, "print('first')\nprint('hello', input('Name:'))")
    tabs = [open_notebook(context, server, name) for _ in range(2)]
    run_cell(tabs[0])
    box = ".jp-Stdin-input"
    expect(tabs[0].locator(box)).to_be_visible()
    server.kill()
    server.start()
    answer(tabs, box, "Ada")
    for page in tabs:
        expect(cell_of(page)).to_contain_text("hello Ada")
        expect(page.locator(box)).to_have_count(0)
        expect(cell_of(page).locator(".jp-InputPrompt")).to_have_text("[1]:")
        assert cell_of(page).inner_text().count("first\n") == 1
        page.close()
    server.request("DELETE", f"/api/sessions/{session_of(server, name)['id']}")
